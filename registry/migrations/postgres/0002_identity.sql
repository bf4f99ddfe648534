-- What the executor says of its key, in the form of the header.
ALTER TABLE registrations ADD COLUMN identity TEXT NOT NULL DEFAULT 'ephemeral';
