package capture

// pg_dump leaves out what belongs to an extension, and a built-in extension itself: one with an OID
// that initdb could have given. So schema tutti and what is in it belong to such an
// extension, named tutti, which has no files. What belongs to an extension cannot be dropped
// alone: dropping takes it out first. Privileges that an extension gave are left out as well; they are
// recorded as the ones it gave. Roles that are no superusers can dump, too, because pg_dump locks
// no tables that it leaves out.

// extensionOID is the last one below those that PostgreSQL gives to objects of users.
const extensionOID = "16383"

// adoptAll makes everything of Tutti a member of the extension. It is idempotent. Run it as a superuser
// when all is made.
func adoptAll() string {
	return install("extension.sql", words{"extension_oid": extensionOID}) + adopt(allMembers, allPrivileges)
}

// adopt takes queries for what is to belong to the extension and for its privileges.
func adopt(members, privileges string) string {
	return `INSERT INTO pg_catalog.pg_depend (classid, objid, objsubid, refclassid, refobjid, refobjsubid, deptype)
  SELECT m.class, m.object, 0, 'pg_catalog.pg_extension'::pg_catalog.regclass, ` + extensionOID + `, 0, 'e' FROM (` + members + `) AS m
  WHERE NOT EXISTS (SELECT FROM pg_catalog.pg_depend d WHERE d.classid OPERATOR(pg_catalog.=) m.class AND d.objid OPERATOR(pg_catalog.=) m.object AND d.deptype OPERATOR(pg_catalog.=) 'e');
DELETE FROM pg_catalog.pg_init_privs p USING (` + privileges + `) AS m
  WHERE p.objoid OPERATOR(pg_catalog.=) m.object AND p.classoid OPERATOR(pg_catalog.=) m.class AND p.objsubid OPERATOR(pg_catalog.=) m.part AND p.initprivs IS DISTINCT FROM m.acl;
INSERT INTO pg_catalog.pg_init_privs (objoid, classoid, objsubid, privtype, initprivs)
  SELECT m.object, m.class, m.part, 'e', m.acl FROM (` + privileges + `) AS m
  WHERE m.acl IS NOT NULL AND NOT EXISTS (SELECT FROM pg_catalog.pg_init_privs p
    WHERE p.objoid OPERATOR(pg_catalog.=) m.object AND p.classoid OPERATOR(pg_catalog.=) m.class AND p.objsubid OPERATOR(pg_catalog.=) m.part)`
}

const (
	allMembers = `SELECT DISTINCT class, object FROM (` + allPrivileges + `) AS all_of
    UNION ALL SELECT 'pg_catalog.pg_event_trigger'::pg_catalog.regclass::pg_catalog.oid, oid FROM pg_catalog.pg_event_trigger WHERE evtfoid OPERATOR(pg_catalog.=) ANY (ARRAY(SELECT oid FROM pg_catalog.pg_proc WHERE pronamespace OPERATOR(pg_catalog.=) 'tutti'::pg_catalog.regnamespace::pg_catalog.oid))`
	allPrivileges = `
    SELECT 'pg_catalog.pg_namespace'::pg_catalog.regclass::pg_catalog.oid AS class, oid AS object, 0 AS part, nspacl AS acl FROM pg_catalog.pg_namespace WHERE nspname OPERATOR(pg_catalog.=) 'tutti'
    UNION ALL SELECT 'pg_catalog.pg_proc'::pg_catalog.regclass, oid, 0, proacl FROM pg_catalog.pg_proc WHERE pronamespace OPERATOR(pg_catalog.=) 'tutti'::pg_catalog.regnamespace::pg_catalog.oid
      OR pronamespace OPERATOR(pg_catalog.=) 'pg_catalog'::pg_catalog.regnamespace::pg_catalog.oid AND oid OPERATOR(pg_catalog.>=) 16384::pg_catalog.oid AND proname OPERATOR(pg_catalog.~) '^(pg_(try_)?advisory_|(pg_prepared_statement|pg_sequence_parameters|setval|lowrite|lo_(import|creat|create|from_bytea|open|put|truncate|truncate64|unlink))$)'
    UNION ALL SELECT 'pg_catalog.pg_class'::pg_catalog.regclass, oid, 0, relacl FROM pg_catalog.pg_class WHERE relnamespace OPERATOR(pg_catalog.=) 'tutti'::pg_catalog.regnamespace::pg_catalog.oid AND relkind OPERATOR(pg_catalog.=) ANY ('{r,v,S}'::pg_catalog._char)
    UNION ALL SELECT 'pg_catalog.pg_type'::pg_catalog.regclass, oid, 0, typacl FROM pg_catalog.pg_type WHERE typnamespace OPERATOR(pg_catalog.=) 'tutti'::pg_catalog.regnamespace::pg_catalog.oid AND typtype OPERATOR(pg_catalog.=) 'd'
    UNION ALL SELECT 'pg_catalog.pg_class'::pg_catalog.regclass, a.attrelid, a.attnum, a.attacl FROM pg_catalog.pg_attribute a JOIN pg_catalog.pg_class c ON c.oid OPERATOR(pg_catalog.=) a.attrelid
      WHERE c.relnamespace OPERATOR(pg_catalog.=) 'tutti'::pg_catalog.regnamespace::pg_catalog.oid AND a.attacl IS NOT NULL`
)

// releaseAll takes everything out of the extension, so that it can be made anew.
const releaseAll = "DELETE FROM pg_catalog.pg_depend WHERE refclassid OPERATOR(pg_catalog.=) " +
	"'pg_catalog.pg_extension'::pg_catalog.regclass AND refobjid OPERATOR(pg_catalog.=) " + extensionOID +
	"::pg_catalog.oid;\n"
