package capture

import (
	"crypto/sha256"
	"fmt"
	"strings"
)

// To install schema tutti takes PostgreSQL more than all the rest of a start. So the last thing that is installed is a
// note of what was: the hash of the SQL, the server and the database that it was run in, and how the catalogs' rows of
// it looked like. A copy of a database, another version of PostgreSQL, and whatever a superuser has changed by hand are
// told by it, and have everything installed again. A clone of the whole server is as its donor was.

// installedState is SQL for the note without the hash. Generated functions come and go without it.
const installedState = `pg_catalog.concat_ws(' ', pg_catalog.current_setting('server_version_num'),
  (SELECT c.system_identifier FROM pg_catalog.pg_control_system() c),
  (SELECT d.oid FROM pg_catalog.pg_database d WHERE d.datname OPERATOR(pg_catalog.=) pg_catalog.current_database()),
  (SELECT pg_catalog.count(*) FROM pg_catalog.pg_class c
    WHERE c.relnamespace OPERATOR(pg_catalog.=) 'tutti'::pg_catalog.regnamespace::pg_catalog.oid
      AND c.relkind OPERATOR(pg_catalog.=) ANY ('{r,v,S}'::pg_catalog._char)),
  (SELECT pg_catalog.md5(pg_catalog.string_agg(pg_catalog.concat(x.o, ':', x.x), ',' ORDER BY x.o, x.x)) FROM (
    SELECT p.oid, p.xmin::pg_catalog.text FROM pg_catalog.pg_proc p
      WHERE p.pronamespace OPERATOR(pg_catalog.=) 'tutti'::pg_catalog.regnamespace::pg_catalog.oid
          AND p.proname OPERATOR(pg_catalog.!~) '^(capture|bulk|final|direct)_[0-9a-f]{16}'
        OR p.pronamespace OPERATOR(pg_catalog.=) 'pg_catalog'::pg_catalog.regnamespace::pg_catalog.oid
          AND (p.oid OPERATOR(pg_catalog.>=) 16384::pg_catalog.oid OR pg_catalog.starts_with(p.proname, 'tutti_'))
    UNION ALL SELECT e.oid, e.xmin::pg_catalog.text FROM pg_catalog.pg_event_trigger e
      WHERE pg_catalog.starts_with(e.evtname, '!tutti') OR pg_catalog.starts_with(e.evtname, 'tutti_')
    UNION ALL SELECT r.oid, r.xmin::pg_catalog.text FROM pg_catalog.pg_rewrite r
      JOIN pg_catalog.pg_class c ON c.oid OPERATOR(pg_catalog.=) r.ev_class
      WHERE c.relnamespace OPERATOR(pg_catalog.=) ANY (ARRAY['tutti'::pg_catalog.regnamespace::pg_catalog.oid,
        'information_schema'::pg_catalog.regnamespace::pg_catalog.oid])
    UNION ALL SELECT t.oid, t.xmin::pg_catalog.text FROM pg_catalog.pg_trigger t
      WHERE t.tgrelid OPERATOR(pg_catalog.=) 'tutti.inside'::pg_catalog.regclass) AS x(o, x)))`

// sql/installed.sql is where the note is.

// schemaHash is that of what Schema installs.
func schemaHash() string { return fmt.Sprintf("%x", sha256.Sum256([]byte(schema()))) }

// noteInstalled is the last of what Schema installs.
func noteInstalled() string {
	return strings.NewReplacer("@hash", schemaHash(), "@state", installedState).Replace(`;
DELETE FROM tutti.installed;
INSERT INTO tutti.installed SELECT '@hash', @state`)
}

// HasInstalled asks whether there may be a note at all, and InstalledQuery whether it says that what Schema would
// install is there as it would be. Then it is enough to run LetNone.
const HasInstalled = "SELECT pg_catalog.to_regclass('tutti.installed') IS NOT NULL"

// InstalledQuery is the second of these questions.
func InstalledQuery() string {
	return "SELECT EXISTS (SELECT FROM tutti.installed i WHERE i.hash OPERATOR(pg_catalog.=) '" + schemaHash() +
		"' AND i.state OPERATOR(pg_catalog.=) " + installedState + ")"
}
