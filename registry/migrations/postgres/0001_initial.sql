CREATE TABLE environments (
    id           TEXT COLLATE "C" PRIMARY KEY,
    name         TEXT NOT NULL,
    created      BIGINT NOT NULL,
    generation   BIGINT NOT NULL,
    registration TEXT,
    last_seen    BIGINT
);

CREATE TABLE credentials (
    id          TEXT COLLATE "C" PRIMARY KEY,
    digest      BYTEA NOT NULL UNIQUE,
    role        TEXT NOT NULL,
    environment TEXT,
    name        TEXT NOT NULL,
    created     BIGINT NOT NULL,
    expires     BIGINT,
    revoked     BIGINT,
    last_used   BIGINT
);
CREATE INDEX credentials_by_environment ON credentials (environment);
CREATE INDEX credentials_by_revocation ON credentials (revoked);

CREATE TABLE registrations (
    id          TEXT COLLATE "C" PRIMARY KEY,
    environment TEXT NOT NULL UNIQUE REFERENCES environments (id) ON DELETE CASCADE,
    generation  BIGINT NOT NULL,
    key         TEXT NOT NULL,
    key_digest  BYTEA NOT NULL,
    credential  TEXT NOT NULL,
    created     BIGINT NOT NULL
);

CREATE TABLE authorizations (
    digest          BYTEA PRIMARY KEY,
    environment     TEXT NOT NULL,
    registration    TEXT NOT NULL REFERENCES registrations (id) ON DELETE CASCADE,
    key_digest      BYTEA NOT NULL,
    credential      TEXT NOT NULL,
    created         BIGINT NOT NULL,
    expires         BIGINT NOT NULL,
    consumed        BIGINT,
    consumed_stream TEXT
);
CREATE INDEX authorizations_by_registration ON authorizations (registration);
CREATE INDEX authorizations_by_expiry ON authorizations (expires);

CREATE TABLE relays (
    boot_id     TEXT PRIMARY KEY,
    public_url  TEXT NOT NULL,
    version     TEXT NOT NULL,
    credential  TEXT NOT NULL,
    session     TEXT NOT NULL,
    accepting   BIGINT NOT NULL,
    executors   BIGINT NOT NULL,
    lease_until BIGINT NOT NULL
);

CREATE TABLE presence (
    environment  TEXT PRIMARY KEY REFERENCES environments (id) ON DELETE CASCADE,
    registration TEXT NOT NULL,
    generation   BIGINT NOT NULL,
    boot_id      TEXT NOT NULL REFERENCES relays (boot_id) ON DELETE CASCADE,
    connection   BIGINT NOT NULL,
    since        BIGINT NOT NULL
);
CREATE INDEX presence_by_relay ON presence (boot_id);

CREATE TABLE relay_messages (
    id      BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    boot_id TEXT NOT NULL REFERENCES relays (boot_id) ON DELETE CASCADE,
    message TEXT NOT NULL,
    created BIGINT NOT NULL
);
CREATE INDEX relay_messages_by_relay ON relay_messages (boot_id, id);

CREATE TABLE probes (
    id      BIGINT PRIMARY KEY,
    alive   BIGINT,
    created BIGINT NOT NULL
);

CREATE TABLE signing_keys (
    kid     TEXT PRIMARY KEY,
    pkcs8   BYTEA NOT NULL,
    x       TEXT NOT NULL,
    created BIGINT NOT NULL
);
