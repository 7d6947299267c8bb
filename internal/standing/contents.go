package standing

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/tuttidb/tutti/internal/audit"
	"github.com/tuttidb/tutti/internal/bootstrap"
	"github.com/tuttidb/tutti/internal/config"
	"github.com/tuttidb/tutti/internal/database/catalog"
	"github.com/tuttidb/tutti/internal/database/link"
	"github.com/tuttidb/tutti/internal/failure"
)

// ReadContents says what the databases of a server hold that belong to no log of this member's yet. Before that it
// installs the triggers that keep everybody from writing to their tables behind Tutti's back, and waits for who does:
// what it says holds on.
func ReadContents(ctx context.Context, connString func(database string) string, c *config.Config, logDir string) (
	*bootstrap.Contents, error) {
	member, cluster, err := installFirst(ctx, connString(c.Database))
	switch {
	case err != nil:
		return nil, err
	case cluster != "" && cluster != c.Cluster:
		return nil, errOtherCluster(cluster, c)
	case cluster != "" && member == c.Member:
		return nil, errLogGone(logDir, c)
	case cluster != "":
		return &bootstrap.Contents{CopyOf: member}, nil
	}
	others, err := databasesBeside(ctx, connString, c.Database)
	if err != nil {
		return nil, err
	}
	if n := len(others) + 1; n > c.Limits.Databases {
		return nil, &failure.Config{Err: fmt.Errorf("the server has %d databases (limits.databases is %d)", n,
			c.Limits.Databases)}
	}
	for _, d := range others {
		switch member, cluster, err := installFirst(ctx, connString(d)); {
		case err != nil:
			return nil, err
		case cluster != "":
			return nil, &failure.Fatal{Err: fmt.Errorf("database %q belongs to member %d of cluster %q, and %q to "+
				"none: they are not of one server", d, member, cluster, c.Database)}
		}
	}
	return readAll(ctx, connString, c.Database, others)
}

// ReadAll reads what ReadContents says.
func ReadAll(ctx context.Context, connString func(database string) string, main string) (*bootstrap.Contents, error) {
	others, err := databasesBeside(ctx, connString, main)
	if err != nil {
		return nil, err
	}
	return readAll(ctx, connString, main, others)
}

func readAll(ctx context.Context, connString func(database string) string, main string, others []string) (
	*bootstrap.Contents, error) {
	contents, err := ReadItems(ctx, connString(main))
	if err != nil {
		return nil, err
	}
	contents.Databases = others
	for _, name := range others {
		items, err := readOther(ctx, connString, name)
		if err != nil {
			return nil, err
		}
		for _, i := range items.Items {
			contents.Items = append(contents.Items, bootstrap.Item{
				Name: i.Name + " in database " + pgx.Identifier{name}.Sanitize(), Value: i.Value})
		}
	}
	sortItems(contents.Items)
	return contents, nil
}

// readOther reads what is in another database than the main one, without what belongs to all.
func readOther(ctx context.Context, connString func(database string) string, name string) (*bootstrap.Contents, error) {
	other, err := ReadItems(ctx, connString(name))
	if err != nil {
		return nil, fmt.Errorf("database %q: %w", name, err)
	}
	other.Items = slices.DeleteFunc(other.Items, func(i bootstrap.Item) bool {
		return strings.HasPrefix(i.Name, roleItem)
	})
	return other, nil
}

// initialDatabase is one that initdb makes, and that clusters with another main one do not need.
const initialDatabase = "postgres"

// databasesBeside lists those beside the main one, in an order that all members share: those that somebody has made, or
// has put something into.
func databasesBeside(ctx context.Context, connString func(database string) string, main string) (names []string,
	err error) {
	conn, err := link.Connect(ctx, connString(main), "tutti contents", audit.Settings)
	if err != nil {
		return nil, err
	}
	defer conn.Close(context.WithoutCancel(ctx))
	r, err := conn.Exec(ctx, `SELECT datname FROM pg_database WHERE datallowconn AND
  datname NOT IN ('template0', 'template1', current_database()) ORDER BY datname COLLATE "C"`).ReadAll()
	if err != nil {
		return nil, fmt.Errorf("standing: list the databases: %w", err)
	}
	for _, row := range r[0].Rows {
		name := string(row[0])
		if name == initialDatabase {
			other, err := readOther(ctx, connString, name)
			if err != nil {
				return nil, err
			}
			if other.Empty() {
				continue
			}
		}
		names = append(names, name)
	}
	return names, nil
}

func sortItems(items []bootstrap.Item) {
	slices.SortFunc(items, func(a, b bootstrap.Item) int { return strings.Compare(a.Name, b.Name) })
}

// roleItem is how the names of items begin that are roles.
const roleItem = "role "

// ReadItems reads what is in one database.
func ReadItems(ctx context.Context, connString string) (*bootstrap.Contents, error) {
	conn, err := link.Connect(ctx, connString, "tutti contents", audit.Settings)
	if err != nil {
		return nil, err
	}
	defer conn.Close(context.WithoutCancel(ctx))
	contents := &bootstrap.Contents{}
	add := func(name, value string) {
		contents.Items = append(contents.Items, bootstrap.Item{Name: name, Value: value})
	}
	definitions, err := conn.Exec(ctx, definitionSums).ReadAll()
	if err != nil {
		return nil, fmt.Errorf("standing: read the definitions: %w", err)
	}
	for _, row := range definitions[0].Rows {
		add(string(row[0]), string(row[1]))
	}
	tables, err := audit.Sums(ctx, conn)
	if err != nil {
		return nil, fmt.Errorf("standing: read the contents: %w", err)
	}
	for _, t := range tables {
		add("the content of "+t.Table, fmt.Sprintf("%d rows with checksum %s", t.Rows, t.Sum))
	}
	sortItems(contents.Items)
	return contents, nil
}

// installFirst installs what Tutti needs, and reads whose the database is. An empty cluster: nobody's.
func installFirst(ctx context.Context, connString string) (member uint32, cluster string, err error) {
	pc, err := pgx.ParseConfig(connString)
	if err != nil {
		return 0, "", fmt.Errorf("standing: %w", err)
	}
	pc.RuntimeParams["application_name"] = "tutti start"
	pc.RuntimeParams["session_replication_role"] = "replica"
	conn, err := pgx.ConnectConfig(ctx, pc)
	if err != nil {
		return 0, "", fmt.Errorf("standing: connect to the local PostgreSQL: %w", err)
	}
	defer conn.Close(context.WithoutCancel(ctx))
	tx, err := conn.Begin(ctx)
	if err != nil {
		return 0, "", fmt.Errorf("standing: %w", err)
	}
	if _, err = tx.Exec(ctx, "SET LOCAL synchronous_commit = on; SET LOCAL client_min_messages = warning"); err == nil {
		err = catalog.Install(ctx, tx)
	}
	if err == nil {
		err = tx.QueryRow(ctx, "SELECT member, cluster FROM tutti.progress").Scan(&member, &cluster)
	}
	if err != nil {
		return 0, "", errors.Join(err, tx.Rollback(ctx))
	}
	return member, cluster, tx.Commit(ctx)
}

// ours are the schemas of users.
const userSchema = ` NOT IN ('pg_catalog', 'information_schema', 'tutti') AND n.nspname NOT LIKE 'pg\_toast%' AND ` +
	`n.nspname NOT LIKE 'pg\_temp\_%'`

// notOfExtension excludes what an extension brings, Tutti's own things among it: an extension is compared by its
// version.
const notOfExtension = ` AND NOT EXISTS (SELECT FROM pg_depend e WHERE e.classid = %s::regclass AND e.objid = %s AND ` +
	`e.deptype = 'e')`

// rights is a list of rights as text that does not depend on their order.
const rights = `(SELECT coalesce(string_agg(a::text, ',' ORDER BY a::text COLLATE "C"), '') FROM unnest(%s) a)`

// columnOptions are those that somebody has set. Some releases of PostgreSQL note a number of their own beside them,
// which is another one in each database.
const columnOptions = `(SELECT array_agg(o) FROM unnest(a.attoptions) o WHERE o NOT LIKE 'pg\_attver=%')`

// definitionSums lists what is defined in a database, and the roles: a name and a checksum each. Names are unique.
var definitionSums = strings.Join([]string{
	`SELECT 'the locale of the database', concat_ws(' ', pg_encoding_to_char(encoding), datcollate, datctype,
  to_jsonb(d)->>'datlocprovider', coalesce(to_jsonb(d)->>'datlocale', to_jsonb(d)->>'daticulocale')) FROM pg_database d WHERE datname = current_database()`,

	`SELECT 'the settings of the database', s.setconfig::text FROM pg_db_role_setting s JOIN pg_database d ON d.oid ` +
		`= s.setdatabase WHERE s.setrole = 0 AND d.datname = current_database()`,

	`SELECT 'the settings of roles', md5(string_agg(concat_ws(' ', pg_get_userbyid(s.setrole), s.setconfig::text), ` +
		`',' ORDER BY pg_get_userbyid(s.setrole) COLLATE "C")) FROM pg_db_role_setting s JOIN pg_database d ` +
		`ON d.oid = s.setdatabase WHERE s.setrole <> 0 AND d.datname = current_database() HAVING count(*) > 0`,

	`
SELECT '` + roleItem + `' || quote_ident(rolname), md5(concat_ws('|', rolsuper, rolinherit, rolcreaterole, rolcreatedb, rolcanlogin, rolreplication, rolbypassrls, rolconnlimit, rolpassword, rolvaliduntil,
  (SELECT string_agg(pg_get_userbyid(m.roleid) || ' ' || m.admin_option::text, ',' ORDER BY pg_get_userbyid(m.roleid) COLLATE "C") FROM pg_auth_members m WHERE m.member = r.oid),
  (SELECT string_agg(s.setconfig::text, ',' ORDER BY s.setconfig::text COLLATE "C") FROM pg_db_role_setting s WHERE s.setrole = r.oid AND s.setdatabase IN (0, (SELECT oid FROM pg_database WHERE datname = current_database())))))
FROM pg_authid r WHERE rolname NOT LIKE 'pg\_%' AND rolname NOT LIKE 'tutti\_%'`,

	`SELECT 'schema ' || quote_ident(nspname), md5(concat_ws('|', pg_get_userbyid(nspowner), ` +
		fmt.Sprintf(rights, "nspacl") + `)) FROM pg_namespace n WHERE nspname` + userSchema,

	`SELECT 'extension ' || quote_ident(extname), 'version ' || extversion FROM pg_extension WHERE extname <> 'tutti'`,

	`SELECT 'the definition of ' || quote_ident(n.nspname) || '.' || quote_ident(c.relname), md5(concat_ws('|', ` +
		`c.relkind, c.relpersistence, c.relrowsecurity, c.relforcerowsecurity, c.relreplident, c.reloptions, ` +
		`pg_get_userbyid(c.relowner), ` + fmt.Sprintf(rights, "c.relacl") + `,
  pg_get_expr(c.relpartbound, c.oid), CASE c.relkind WHEN 'p' THEN pg_get_partkeydef(c.oid) WHEN 'v' THEN pg_get_viewdef(c.oid) WHEN 'm' THEN pg_get_viewdef(c.oid) END,
  (SELECT string_agg(i.inhparent::regclass::text, ',' ORDER BY i.inhseqno) FROM pg_inherits i WHERE i.inhrelid = c.oid),
  (SELECT string_agg(concat_ws(' ', quote_ident(a.attname), format_type(a.atttypid, a.atttypmod), a.attnotnull, a.attidentity, a.attgenerated, a.attcollation::regcollation, ` + columnOptions + `, a.attstorage, pg_get_expr(x.adbin, x.adrelid), ` + fmt.Sprintf(rights, "a.attacl") + `), ',' ORDER BY a.attnum)
    FROM pg_attribute a LEFT JOIN pg_attrdef x ON x.adrelid = a.attrelid AND x.adnum = a.attnum WHERE a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped),
  (SELECT string_agg(quote_ident(k.conname) || pg_get_constraintdef(k.oid), ',' ORDER BY k.conname COLLATE "C") FROM pg_constraint k WHERE k.conrelid = c.oid),
  (SELECT string_agg(pg_get_indexdef(i.indexrelid) || i.indisvalid::text || i.indisreplident::text, ',' ORDER BY pg_get_indexdef(i.indexrelid) COLLATE "C") FROM pg_index i WHERE i.indrelid = c.oid),
  (SELECT string_agg(pg_get_triggerdef(g.oid) || g.tgenabled::text, ',' ORDER BY g.tgname COLLATE "C") FROM pg_trigger g WHERE g.tgrelid = c.oid AND NOT g.tgisinternal),
  (SELECT string_agg(pg_get_ruledef(w.oid), ',' ORDER BY w.rulename COLLATE "C") FROM pg_rewrite w WHERE w.ev_class = c.oid AND w.rulename <> '_RETURN'),
  (SELECT string_agg(concat_ws(' ', quote_ident(p.polname), p.polcmd, p.polpermissive, (SELECT string_agg(pg_get_userbyid(o), ',' ORDER BY pg_get_userbyid(o) COLLATE "C") FROM unnest(p.polroles) o),
    pg_get_expr(p.polqual, p.polrelid), pg_get_expr(p.polwithcheck, p.polrelid)), ',' ORDER BY p.polname COLLATE "C") FROM pg_policy p WHERE p.polrelid = c.oid),
  (SELECT concat_ws(' ', format_type(s.seqtypid, NULL), s.seqstart, s.seqincrement, s.seqmin, s.seqmax, s.seqcache, s.seqcycle, pg_sequence_last_value(c.oid)) FROM pg_sequence s WHERE s.seqrelid = c.oid)))
FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace WHERE c.relkind IN ('r', 'p', 'v', 'm', 'f', 'S', 'c') AND c.relpersistence <> 't' AND n.nspname` + userSchema + fmt.Sprintf(notOfExtension, "'pg_class'", "c.oid"),

	`
SELECT 'function ' || p.oid::regprocedure, md5(concat_ws('|', CASE WHEN p.prokind = 'a' THEN (SELECT (to_jsonb(g) - 'aggfnoid')::text FROM pg_aggregate g WHERE g.aggfnoid = p.oid) ELSE pg_get_functiondef(p.oid) END,
  pg_get_userbyid(p.proowner), ` + fmt.Sprintf(rights, "p.proacl") + `)) FROM pg_proc p JOIN pg_namespace n ON n.oid = p.pronamespace WHERE n.nspname` + userSchema + fmt.Sprintf(notOfExtension, "'pg_proc'", "p.oid"),

	`SELECT 'type ' || format_type(t.oid, NULL), md5(concat_ws('|', t.typtype, pg_get_userbyid(t.typowner), ` +
		fmt.Sprintf(rights, "t.typacl") +
		`, format_type(nullif(t.typbasetype, 0), t.typtypmod), t.typnotnull, t.typdefault, t.typcollation::regcollation,
  (SELECT string_agg(quote_literal(e.enumlabel), ',' ORDER BY e.enumsortorder) FROM pg_enum e WHERE e.enumtypid = t.oid),
  (SELECT string_agg(quote_ident(k.conname) || pg_get_constraintdef(k.oid), ',' ORDER BY k.conname COLLATE "C") FROM pg_constraint k WHERE k.contypid = t.oid),
  (SELECT format_type(r.rngsubtype, NULL) FROM pg_range r WHERE r.rngtypid = t.oid)))
FROM pg_type t JOIN pg_namespace n ON n.oid = t.typnamespace WHERE t.typtype IN ('b', 'd', 'e', 'r', 'm') AND t.typelem = 0 AND n.nspname` + userSchema + fmt.Sprintf(notOfExtension, "'pg_type'", "t.oid"),

	`SELECT i.type || ' ' || i.identity, 'there' FROM (
  SELECT 'pg_operator'::regclass AS class, oid FROM pg_operator UNION ALL SELECT 'pg_cast'::regclass, oid FROM pg_cast UNION ALL SELECT 'pg_collation'::regclass, oid FROM pg_collation
  UNION ALL SELECT 'pg_conversion'::regclass, oid FROM pg_conversion UNION ALL SELECT 'pg_opclass'::regclass, oid FROM pg_opclass UNION ALL SELECT 'pg_opfamily'::regclass, oid FROM pg_opfamily
  UNION ALL SELECT 'pg_ts_config'::regclass, oid FROM pg_ts_config UNION ALL SELECT 'pg_ts_dict'::regclass, oid FROM pg_ts_dict UNION ALL SELECT 'pg_ts_parser'::regclass, oid FROM pg_ts_parser
  UNION ALL SELECT 'pg_ts_template'::regclass, oid FROM pg_ts_template UNION ALL SELECT 'pg_language'::regclass, oid FROM pg_language UNION ALL SELECT 'pg_event_trigger'::regclass, oid FROM pg_event_trigger
  UNION ALL SELECT 'pg_publication'::regclass, oid FROM pg_publication UNION ALL SELECT 'pg_foreign_data_wrapper'::regclass, oid FROM pg_foreign_data_wrapper
  UNION ALL SELECT 'pg_foreign_server'::regclass, oid FROM pg_foreign_server UNION ALL SELECT 'pg_statistic_ext'::regclass, oid FROM pg_statistic_ext
  UNION ALL SELECT 'pg_am'::regclass, oid FROM pg_am UNION ALL SELECT 'pg_transform'::regclass, oid FROM pg_transform) o, pg_identify_object(o.class, o.oid, 0) i
WHERE o.oid >= 16384 AND coalesce(i.schema, '') <> 'tutti'` + fmt.Sprintf(notOfExtension, "o.class", "o.oid"),
}, "\nUNION ALL\n")

// errLogGone is why a member does not begin an empty log beside a database that has had one: with its log a member
// loses its votes, and voting again could undo what a majority had agreed on.
func errLogGone(logDir string, c *config.Config) error {
	return &failure.Fatal{Err: fmt.Errorf("the log %s is gone but its database is there: member %d has lost its "+
		"votes and must not vote again as if it had none. "+
		"If the log is only elsewhere, not mounted for instance, put it back and start again. Otherwise remove %s and "+
		"every log-… beside it, too, and start again: the member copies the database of another one", logDir, c.Member,
		filepath.Join(c.DataDir, "postgres"))}
}

func errOtherCluster(cluster string, c *config.Config) error {
	return &failure.Config{Err: fmt.Errorf("the database belongs to cluster %q, the configuration says %q", cluster,
		c.Cluster)}
}
