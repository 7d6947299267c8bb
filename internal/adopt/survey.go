package adopt

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/tuttidb/tutti/internal/config"
	"github.com/tuttidb/tutti/internal/database/instance"
)

// Weight is what a finding means for the adoption.
type Weight string

const (
	Refused Weight = "refused" // it would be lost, or would keep a member from working: it must be changed first
	Differs Weight = "differs" // it is adopted, and is otherwise in a cluster
)

// Finding is something in a data directory that a cluster cannot have, or has otherwise.
type Finding struct {
	Weight   Weight `json:"weight"`
	Database string `json:"database,omitempty"` // empty: all
	What     string `json:"what"`
	Why      string `json:"why"`
	Do       string `json:"do,omitempty"`
}

// question is what is asked of a database: the rows' only column names what was found.
type question struct {
	weight Weight
	sql    string
	why    string
	do     string
}

// ofUsers says that an object's schema, of pg_namespace n, is one of users'.
const ofUsers = `n.nspname NOT IN ('pg_catalog', 'information_schema', 'tutti') AND n.nspname !~ '^pg_(toast|temp_)'`

// named is a relation's name, of pg_class c and pg_namespace n.
const named = `quote_ident(n.nspname) || '.' || quote_ident(c.relname)`

// ofExtension says that an object belongs to an extension.
const ofExtension = `EXISTS (SELECT FROM pg_depend e WHERE e.classid = '%s'::regclass AND e.objid = %s AND ` +
	`e.deptype = 'e')`

const (
	whyPrepared = "two-phase commit is not replicated: it could never end"
	doPrepared  = "COMMIT PREPARED or ROLLBACK PREPARED (pg_prepared_xacts has them)"
)

// ofServer are asked once, in any database.
var ofServer = []question{
	{Refused, `SELECT 'role ' || quote_ident(rolname) FROM pg_roles WHERE rolname IN ('tutti_owner', 'tutti_reader')
  AND rolcanlogin`, "Tutti's own things belong to a role of this name", "ALTER ROLE … RENAME TO, or DROP ROLE"},
	{Refused, `SELECT 'role postgres' WHERE NOT EXISTS (SELECT FROM pg_roles WHERE rolname = 'postgres'
  AND rolsuper AND rolcanlogin)`, "Tutti works as this role, which must be a superuser that may log in",
		"ALTER ROLE postgres SUPERUSER LOGIN"},
	{Refused, `SELECT 'database ' || quote_ident(datname) FROM pg_database
  WHERE NOT datallowconn AND datname <> 'template0'`,
		"it allows no connections, and Tutti must connect",
		"ALTER DATABASE … ALLOW_CONNECTIONS true, or DROP DATABASE"},
	{Refused, `SELECT 'tablespace ' || quote_ident(spcname) FROM pg_tablespace
  WHERE spcname NOT IN ('pg_default', 'pg_global')`,
		"it is a path on this machine, and is not copied", "move what is in it to pg_default, and DROP TABLESPACE"},
	{Refused, `SELECT 'replication slot ' || quote_ident(slot_name) || ' (' || slot_type || ')'
  FROM pg_replication_slots`,
		"it is this server's alone, keeps its WAL for ever, and its receiver sees nothing of the other members",
		"SELECT pg_drop_replication_slot(…)"},
	{Refused, `SELECT 'subscription ' || quote_ident(s.subname) || ' of database ' || quote_ident(d.datname)
  FROM pg_subscription s JOIN pg_database d ON d.oid = s.subdbid`,
		"each member would receive the same changes", "DROP SUBSCRIPTION, and feed them in through a client"},
	{Refused, `SELECT 'prepared transaction ' || quote_literal(gid) FROM pg_prepared_xacts`, whyPrepared, doPrepared},
	{Differs, `SELECT 'database ' || quote_ident(datname) || ': ' || datcollversion FROM pg_database
  WHERE datallowconn AND datcollversion <> pg_database_collation_actual_version(oid)`,
		"this machine sorts texts by another version of the locale than the one its indexes were made by",
		"REINDEX DATABASE, ALTER DATABASE … REFRESH COLLATION VERSION, before"},
}

// ofDatabase are asked in each database.
var ofDatabase = []question{
	{Refused, `SELECT 'schema tutti' FROM pg_namespace n WHERE nspname = 'tutti'
  AND NOT EXISTS (SELECT FROM pg_extension WHERE extname = 'tutti')`,
		"Tutti keeps what is its own in a schema of this name", "ALTER SCHEMA tutti RENAME TO …"},
	{Refused, `SELECT 'unlogged table ' || ` + named + ` FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
  WHERE c.relkind = 'r' AND c.relpersistence = 'u' AND ` + ofUsers + ` AND pg_relation_size(c.oid) > 0`,
		"its rows would stay at this member: they are not copied, and not replicated",
		"ALTER TABLE … SET LOGGED, or TRUNCATE it"},
	{Differs, `SELECT 'unlogged table ' || ` + named + ` FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
  WHERE c.relkind = 'r' AND c.relpersistence = 'u' AND ` + ofUsers + ` AND pg_relation_size(c.oid) = 0`,
		"each member has rows of its own in it", ""},
	{Refused, `SELECT 'table ' || c.oid::regclass FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
  WHERE c.relkind IN ('r', 'p') AND n.nspname IN ('pg_catalog', 'information_schema') AND c.oid >= 16384
  AND NOT ` + fmt.Sprintf(ofExtension, "pg_class", "c.oid"),
		"what is written to tables of PostgreSQL's schemas is not replicated", "ALTER TABLE … SET SCHEMA"},
	{Refused, `SELECT 'trigger ' || quote_ident(t.tgname) || ' of ' || ` + named + ` FROM pg_trigger t JOIN pg_class c
  ON c.oid = t.tgrelid JOIN pg_namespace n ON n.oid = c.relnamespace
  WHERE NOT t.tgisinternal AND t.tgenabled IN ('A', 'R') AND ` + ofUsers,
		"it would fire again at every member that applies a row", "ALTER TABLE … ENABLE TRIGGER"},
	{Refused, `SELECT 'rule ' || quote_ident(r.rulename) || ' of ' || ` + named + ` FROM pg_rewrite r JOIN pg_class c
  ON c.oid = r.ev_class JOIN pg_namespace n ON n.oid = c.relnamespace WHERE r.ev_enabled IN ('A', 'R') AND ` + ofUsers,
		"it would fire again at every member that applies a row", "ALTER TABLE … ENABLE RULE"},
	{Refused, `SELECT 'extension ' || quote_ident(extname) FROM pg_extension
  WHERE extname IN ('bdr', 'citus', 'pg_cron', 'pglogical', 'spock', 'timescaledb')`,
		"it has state or workers outside of tables, or replicates by itself: every member would do that",
		"DROP EXTENSION"},
	{Refused, `SELECT 'extension ' || quote_ident(x.extname) || ' ' || x.extversion FROM pg_extension x
  WHERE NOT EXISTS (SELECT FROM pg_available_extensions a WHERE a.name = x.extname) AND x.extname <> 'tutti'`,
		"its files are not on this machine, beside the PostgreSQL that is used",
		"install them here and at all members"},
	{Differs, `SELECT 'extension ' || quote_ident(extname) || ' ' || extversion FROM pg_extension WHERE extname NOT IN
  ('plpgsql', 'tutti')`, "its files must be on every machine, of the same version", ""},
	{Differs, `SELECT 'function ' || p.oid::regprocedure || ' in ' || p.probin FROM pg_proc p JOIN pg_namespace n
  ON n.oid = p.pronamespace JOIN pg_language l ON l.oid = p.prolang
  WHERE l.lanname = 'c' AND ` + ofUsers + ` AND NOT ` + fmt.Sprintf(ofExtension, "pg_proc", "p.oid"),
		"its library must be on every machine", ""},
	{Differs, `SELECT 'table without a key ' || ` + named + ` FROM pg_class c
  JOIN pg_namespace n ON n.oid = c.relnamespace
  WHERE c.relkind = 'r' AND c.relpersistence = 'p' AND ` + ofUsers + ` AND NOT EXISTS (SELECT FROM pg_index i
  WHERE i.indrelid = c.oid AND i.indisunique AND i.indisvalid AND i.indimmediate AND i.indpred IS NULL
  AND i.indexprs IS NULL AND NOT EXISTS (SELECT FROM pg_attribute a WHERE a.attrelid = c.oid
    AND a.attnum = ANY (i.indkey::int2[]) AND (NOT a.attnotnull OR EXISTS (SELECT FROM pg_constraint x
      WHERE x.conrelid = c.oid AND x.contype = 'n' AND x.conkey = ARRAY[a.attnum] AND NOT x.convalidated))))`,
		"each batch of another member's changes reads all of it", "ALTER TABLE … ADD PRIMARY KEY, if it is large"},
	{Differs, `SELECT 'foreign table ' || ` + named + ` FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
  WHERE c.relkind = 'f'`, "its rows are not replicated: each member asks the foreign server by itself", ""},
	{Differs, `SELECT count(*) || ' large objects' FROM pg_largeobject_metadata HAVING count(*) > 0`,
		"each is replicated as a whole, and certified as a whole", ""},
	{Differs, `SELECT 'event trigger ' || quote_ident(evtname) FROM pg_event_trigger t WHERE NOT ` +
		fmt.Sprintf(ofExtension, "pg_event_trigger", "t.oid"),
		"it fires at the member of the client alone, and definitions are slower while it is enabled", ""},
	{Differs, `SELECT 'publication ' || quote_ident(pubname) FROM pg_publication`,
		"it is defined at all members; a subscriber would need a slot at one of them", ""},
	{Differs, `SELECT 'sequence ' || ` + named + ` FROM pg_sequence s JOIN pg_class c ON c.oid = s.seqrelid
  JOIN pg_namespace n ON n.oid = c.relnamespace
  WHERE NOT s.seqcycle AND (s.seqmax::numeric - s.seqmin) / abs(s.seqincrement) < 256 AND ` + ofUsers,
		"it has so few values that member 1 has them all: nextval fails elsewhere", ""},
	{Differs, `SELECT 'sequence ' || ` + named + ` FROM pg_sequence s JOIN pg_class c ON c.oid = s.seqrelid
  JOIN pg_namespace n ON n.oid = c.relnamespace WHERE s.seqcycle AND ` + ofUsers,
		"each member goes round in a share of its values", ""},
	{Differs, `SELECT 'sequence ' || ` + named + ` FROM pg_sequence s JOIN pg_class c ON c.oid = s.seqrelid
  JOIN pg_namespace n ON n.oid = c.relnamespace WHERE NOT s.seqcycle AND ` + ofUsers + `
  AND (s.seqmax::numeric - s.seqmin) / abs(s.seqincrement) BETWEEN 256 AND 1073741823 AND CASE WHEN s.seqincrement > 0
  THEN 2 * (pg_sequence_last_value(c.oid)::numeric - s.seqmin)
  ELSE 2 * (s.seqmax - pg_sequence_last_value(c.oid)::numeric) END > s.seqmax::numeric - s.seqmin`,
		"more than half of its values are used, and the members divide what is left",
		"ALTER SEQUENCE … AS bigint, before"},
}

// connect reaches a database of the server that is surveyed.
type connect func(ctx context.Context, database string) (*pgx.Conn, error)

// survey looks at all databases of a server.
func survey(ctx context.Context, reach connect, c *config.Config) ([]Finding, error) {
	conn, err := reach(ctx, "template1")
	var pg *pgconn.PgError
	if errors.As(err, &pg) && (pg.Code == "28000" || pg.Code == "28P01") {
		return []Finding{{Refused, "", "role postgres", "Tutti works as it, and it cannot log in: " + pg.Message,
			"start the server as before, CREATE ROLE postgres SUPERUSER LOGIN"}}, nil
	}
	if err != nil {
		return nil, err
	}
	defer conn.Close(context.WithoutCancel(ctx))
	found, err := ask(ctx, conn, "", ofServer)
	if err != nil {
		return nil, err
	}
	rows, err := conn.Query(ctx, `SELECT datname FROM pg_database WHERE datallowconn AND datname <> 'template0'
  ORDER BY datname = 'template1', datname COLLATE "C"`)
	if err != nil {
		return nil, err
	}
	names, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		return nil, err
	}
	found = append(found, ofList(names, c)...)
	for _, name := range names {
		more, err := surveyOne(ctx, reach, name)
		if err != nil {
			return nil, fmt.Errorf("database %s: %w", name, err)
		}
		found = append(found, more...)
	}
	return found, nil
}

// ofList is what the names of the databases say.
func ofList(names []string, c *config.Config) (found []Finding) {
	if !slices.Contains(names, c.Database) {
		found = append(found, Finding{Refused, c.Database, "the configured database",
			"there is none of this name; there are " + strings.Join(names, ", "),
			"set database at all nodes, or make it"})
	}
	if n := len(names) - 1; n > c.Limits.Databases { // without template1
		found = append(found, Finding{Refused, "", fmt.Sprint(n, " databases"),
			fmt.Sprintf("limits.databases allows %d", c.Limits.Databases), "raise it at all nodes"})
	}
	return found
}

func surveyOne(ctx context.Context, reach connect, name string) ([]Finding, error) {
	conn, err := reach(ctx, name)
	if err != nil {
		return nil, err
	}
	defer conn.Close(context.WithoutCancel(ctx))
	if name != "template1" {
		found, err := ask(ctx, conn, name, ofDatabase)
		if err != nil {
			return nil, err
		}
		cluster, err := clusterOf(ctx, conn)
		if err == nil && cluster != "" {
			found = append(found, Finding{Refused, name, "the position in the order of cluster " + cluster,
				"it was a member's", "begin with a dump of it (pg_dump)"})
		}
		return found, err
	}
	return ask(ctx, conn, name, []question{{Differs, `SELECT count(*) || ' objects of users' FROM (
  SELECT relnamespace AS ns FROM pg_class UNION ALL SELECT pronamespace FROM pg_proc) o
  JOIN pg_namespace n ON n.oid = o.ns WHERE ` + ofUsers + ` HAVING count(*) > 0`,
		"databases that are created begin with them, as before", ""}})
}

// clusterOf is the cluster to which a database belongs; empty: none.
func clusterOf(ctx context.Context, conn *pgx.Conn) (cluster string, err error) {
	var known bool
	err = conn.QueryRow(ctx, "SELECT to_regclass('tutti.progress') IS NOT NULL AND EXISTS (SELECT FROM pg_extension "+
		"WHERE extname = 'tutti')").Scan(&known)
	if err == nil && known {
		err = conn.QueryRow(ctx, "SELECT cluster FROM tutti.progress").Scan(&cluster)
	}
	return cluster, err
}

func ask(ctx context.Context, conn *pgx.Conn, database string, list []question) (found []Finding, err error) {
	for _, q := range list {
		rows, err := conn.Query(ctx, q.sql)
		if err != nil {
			return nil, err
		}
		names, err := pgx.CollectRows(rows, pgx.RowTo[string])
		if err != nil {
			return nil, fmt.Errorf("%s: %w", q.sql, err)
		}
		slices.Sort(names)
		for _, name := range names {
			found = append(found, Finding{q.weight, database, name, q.why, q.do})
		}
	}
	return found, nil
}

// unended are the transactions that a stopped server has yet to end. One without two-phase commit would not start with
// them.
func unended(dir string) (found []Finding, err error) {
	prepared, err := instance.Prepared(dir)
	for _, name := range prepared {
		found = append(found, Finding{Refused, "", "prepared transaction " + name, whyPrepared, doPrepared})
	}
	return found, err
}
