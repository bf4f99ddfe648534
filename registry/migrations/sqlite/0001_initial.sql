CREATE TABLE environments (
    id           TEXT PRIMARY KEY,
    name         TEXT NOT NULL,
    created      INTEGER NOT NULL,
    generation   INTEGER NOT NULL,
    registration TEXT,
    last_seen    INTEGER
) STRICT;

CREATE TABLE credentials (
    id          TEXT PRIMARY KEY,
    digest      BLOB NOT NULL UNIQUE,
    role        TEXT NOT NULL,
    environment TEXT,
    name        TEXT NOT NULL,
    created     INTEGER NOT NULL,
    expires     INTEGER,
    revoked     INTEGER,
    last_used   INTEGER
) STRICT;
CREATE INDEX credentials_by_environment ON credentials (environment);
CREATE INDEX credentials_by_revocation ON credentials (revoked);

CREATE TABLE registrations (
    id          TEXT PRIMARY KEY,
    environment TEXT NOT NULL UNIQUE REFERENCES environments (id) ON DELETE CASCADE,
    generation  INTEGER NOT NULL,
    key         TEXT NOT NULL,
    key_digest  BLOB NOT NULL,
    credential  TEXT NOT NULL,
    created     INTEGER NOT NULL
) STRICT;

CREATE TABLE authorizations (
    digest          BLOB PRIMARY KEY,
    environment     TEXT NOT NULL,
    registration    TEXT NOT NULL REFERENCES registrations (id) ON DELETE CASCADE,
    key_digest      BLOB NOT NULL,
    credential      TEXT NOT NULL,
    created         INTEGER NOT NULL,
    expires         INTEGER NOT NULL,
    consumed        INTEGER,
    consumed_stream TEXT
) STRICT;
CREATE INDEX authorizations_by_registration ON authorizations (registration);
CREATE INDEX authorizations_by_expiry ON authorizations (expires);

CREATE TABLE relays (
    boot_id     TEXT PRIMARY KEY,
    public_url  TEXT NOT NULL,
    version     TEXT NOT NULL,
    credential  TEXT NOT NULL,
    session     TEXT NOT NULL,
    accepting   INTEGER NOT NULL,
    executors   INTEGER NOT NULL,
    lease_until INTEGER NOT NULL
) STRICT;

CREATE TABLE presence (
    environment  TEXT PRIMARY KEY REFERENCES environments (id) ON DELETE CASCADE,
    registration TEXT NOT NULL,
    generation   INTEGER NOT NULL,
    boot_id      TEXT NOT NULL REFERENCES relays (boot_id) ON DELETE CASCADE,
    connection   INTEGER NOT NULL,
    since        INTEGER NOT NULL
) STRICT;
CREATE INDEX presence_by_relay ON presence (boot_id);

CREATE TABLE relay_messages (
    id      INTEGER PRIMARY KEY AUTOINCREMENT,
    boot_id TEXT NOT NULL REFERENCES relays (boot_id) ON DELETE CASCADE,
    message TEXT NOT NULL,
    created INTEGER NOT NULL
) STRICT;
CREATE INDEX relay_messages_by_relay ON relay_messages (boot_id, id);

CREATE TABLE probes (
    id      INTEGER PRIMARY KEY,
    alive   INTEGER,
    created INTEGER NOT NULL
) STRICT;

CREATE TABLE signing_keys (
    kid     TEXT PRIMARY KEY,
    pkcs8   BLOB NOT NULL,
    x       TEXT NOT NULL,
    created INTEGER NOT NULL
) STRICT;
