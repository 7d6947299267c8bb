CREATE TABLE IF NOT EXISTS tutti.installed (hash pg_catalog.text NOT NULL, state pg_catalog.text NOT NULL);
ALTER TABLE tutti.installed OWNER TO tutti_owner;
