package drivers

import (
	"context"
	_ "embed"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// pythonSource fetches a source distribution and makes an environment with the packages its
// tests need. The directory holds both: source and env.
func pythonSource(name, version string, packages ...string) func(context.Context, string) (string, error) {
	return installed(name+"-"+version,
		[]string{"python3", "-m", "pip", "download", "-q", "--no-deps", "--no-binary", name, "-d", "sdist",
			name + "==" + version},
		[]string{"sh", "-c", "mkdir source && tar -xzf sdist/*.tar.gz -C source --strip-components=1"},
		[]string{"python3", "-m", "venv", "env"},
		append([]string{"env/bin/python", "-m", "pip", "install", "-q"}, packages...))
}

func sqlalchemyFiles(names ...string) (out []string) {
	for _, n := range names {
		out = append(out, "test/dialect/"+n+".py")
	}
	return out
}

// sqlalchemySuite is SQLAlchemy's own suite for dialects, and its tests of PostgreSQL.
func sqlalchemySuite() Suite {
	return Suite{
		Name: "sqlalchemy", What: "SQLAlchemy 2.0.41 with psycopg2, test/dialect/test_suite.py test/dialect/postgresql",
		Limit: 30 * time.Minute,
		Parts: sqlalchemyFiles("test_suite", "postgresql/test_async_pg_py3k", "postgresql/test_compiler",
			"postgresql/test_dialect", "postgresql/test_on_conflict", "postgresql/test_query",
			"postgresql/test_reflection", "postgresql/test_types"),
		Apart: true,
		Setup: []string{"CREATE SCHEMA test_schema", "CREATE SCHEMA test_schema_2", "CREATE EXTENSION hstore",
			"CREATE EXTENSION citext"},
		fetch: pythonSource("sqlalchemy", "2.0.41", "pytest==8.3.5", "psycopg2-binary==2.9.10", "greenlet==3.2.3",
			"typing_extensions==4.14.0"),
		report: true, parse: parseXML,
		command: func(a *Arm, dir string) (argv, env []string) {
			uri := fmt.Sprintf("postgresql+psycopg2://%s@%s:%d/%s", role, a.Host, a.Port, database)
			return []string{"sh", "-c", `cd "$0/source" && exec "$0/env/bin/python" -m pytest "$@"`, dir, "-q", "-p",
				"no:cacheprovider", "--dburi", uri, "--junitxml=" + a.Report()}, []string{"PYTHONDONTWRITEBYTECODE=1"}
		},
	}
}

// psycopgSteps is a program of ours: the source distribution of psycopg has no tests in it.
//
//go:embed programs/psycopg_steps.py
var psycopgSteps []byte

// psycopgSuite walks through what psycopg 3 can do; each step's result is part of its name.
func psycopgSuite() Suite {
	return Suite{
		Name: "psycopg", What: "psycopg 3.2.9, programs/psycopg_steps.py", Limit: 5 * time.Minute,
		fetch: pythonSource("psycopg", "3.2.9", "psycopg[binary]==3.2.9"),
		parse: parseLines,
		command: program("psycopg_steps.py", psycopgSteps, func(dir string) ([]string, []string) {
			return []string{filepath.Join(dir, "env/bin/python")}, []string{"PYTHONDONTWRITEBYTECODE=1"}
		}),
	}
}

// psycopg3Files are psycopg 3's tests that use a server; tests/pool is that of its companion.
const psycopg3Files = "pq types pool test_adapt test_capabilities test_column test_concurrency " +
	"test_concurrency_async test_connection test_connection_async " +
	"test_connection_info test_conninfo test_conninfo_attempts test_conninfo_attempts_async test_copy " +
	"test_copy_async test_cursor test_cursor_async test_cursor_client " +
	"test_cursor_client_async test_cursor_common test_cursor_common_async test_cursor_raw test_cursor_raw_async " +
	"test_cursor_server test_cursor_server_async test_encodings " +
	"test_errors test_generators test_module test_notify test_notify_async test_pipeline test_pipeline_async " +
	"test_prepared test_prepared_async test_psycopg_dbapi20 test_query " +
	"test_rows test_sql test_tpc test_tpc_async test_transaction test_transaction_async test_typeinfo test_waiting " +
	"test_waiting_async test_xid"

// psycopg3Suite is psycopg 3's own suite. Its source distribution has no tests in it: they are
// fetched with git, from where TUTTI_DRIVERS_PSYCOPG says or else from the project itself. Those marked timing are left
// out: by the project they may fail on a slow machine.
func psycopg3Suite() Suite {
	const version, pool = "3.3.4", "3.3.1"
	from := os.Getenv("TUTTI_DRIVERS_PSYCOPG")
	if from == "" {
		from = "https://github.com/psycopg/psycopg"
	}
	var parts []string
	for _, f := range strings.Fields(psycopg3Files) {
		if strings.HasPrefix(f, "test_") {
			f += ".py"
		}
		parts = append(parts, "tests/"+f)
	}
	return Suite{
		Name: "psycopg3", What: "psycopg[binary] " + version + ", psycopg-pool " + pool + ", their tests",
		Limit: 10 * time.Minute, Parts: parts, Apart: true,
		Setup: []string{"CREATE EXTENSION hstore"},
		fetch: installed("psycopg-tests-"+version,
			[]string{"git", "-c", "advice.detachedHead=false", "clone", "-q", "--depth", "1", "--branch", version, from,
				"source"},
			[]string{"python3", "-m", "venv", "env"},
			[]string{"env/bin/python", "-m", "pip", "install", "-q", "psycopg[binary]==" + version,
				"psycopg-pool==" + pool, "pytest==8.3.5", "anyio==4.9.0", "pproxy==2.7.9"}),
		report: true, parse: parseXML,
		command: func(a *Arm, dir string) (argv, env []string) {
			return []string{"sh", "-c", `cd "$0/source" && exec "$0/env/bin/python" -P -m pytest "$@"`, dir, "-q", "-m",
					"not timing", "-o", "cache_dir=" + filepath.Join(a.Dir, "cache"), "--junitxml=" + a.Report()},
				[]string{
					"PYTHONDONTWRITEBYTECODE=1", fmt.Sprintf("PSYCOPG_TEST_DSN=host=%s port=%d user=%s dbname=%s",
						a.Host,
						a.Port, role, database)}
		},
	}
}

// asyncpgSuite is asyncpg's own suite, without the tests that start servers of their own. The
// package beside the tests lacks its compiled parts: the one that is installed is tested.
func asyncpgSuite() Suite {
	return Suite{
		Name: "asyncpg", What: "asyncpg 0.30.0, its tests", Limit: 10 * time.Minute,
		fetch:  pythonSource("asyncpg", "0.30.0", "asyncpg==0.30.0", "pytest==8.3.5", "distro==1.9.0"),
		report: true, parse: parseXML,
		command: func(a *Arm, dir string) (argv, env []string) {
			return []string{"sh", "-c", `cd "$0/source/tests" && exec "$0/env/bin/python" -P -m pytest "$@"`, dir, "-q",
					"-p", "no:cacheprovider", "--import-mode=importlib", "--junitxml=" + a.Report()},
				[]string{"PYTHONDONTWRITEBYTECODE=1"}
		},
	}
}

// psycopg2Suite is psycopg2's own suite.
func psycopg2Suite() Suite {
	return Suite{
		Name: "psycopg2", What: "psycopg2 2.9.10, its tests", Limit: 10 * time.Minute,
		Setup:  []string{"CREATE EXTENSION hstore"},
		fetch:  pythonSource("psycopg2", "2.9.10", "psycopg2-binary==2.9.10", "pytest==8.3.5"),
		report: true, parse: parseXML,
		command: func(a *Arm, dir string) (argv, env []string) {
			return []string{"sh", "-c", `cd "$0/source/tests" && exec "$0/env/bin/python" -P -m pytest "$@"`, dir, "-q",
					"-p", "no:cacheprovider", "--import-mode=importlib", "--junitxml=" + a.Report()}, []string{
					"PYTHONDONTWRITEBYTECODE=1", "PSYCOPG2_TESTDB=" + database, "PSYCOPG2_TESTDB_HOST=" + a.Host,
					fmt.Sprintf("PSYCOPG2_TESTDB_PORT=%d", a.Port), "PSYCOPG2_TESTDB_USER=" + role}
		},
	}
}

// djangoSettings is a settings module, and a test runner that says a line for each test.
//
//go:embed programs/django_settings.py
var djangoSettings []byte

// djangoLabels are the parts of Django's tests that are about its object-relational mapper.
const djangoLabels = "aggregation aggregation_regress annotations backends basic bulk_create composite_pk " +
	"constraints custom_columns custom_lookups custom_pk " +
	"datatypes dates datetimes db_functions db_typecasts db_utils defer delete delete_regress distinct_on_fields " +
	"expressions expressions_case expressions_window " +
	"fixtures fixtures_model_package foreign_object from_db_value generic_relations get_or_create indexes inspectdb " +
	"introspection known_related_objects lookup " +
	"m2m_and_m2o m2m_intermediary m2m_recursive m2m_through many_to_many many_to_one many_to_one_null max_lengths " +
	"migrate_signals migrations model_fields " +
	"model_inheritance null_fk null_fk_ordering null_queries nested_foreign_keys one_to_one or_lookups " +
	"order_with_respect_to ordering pagination postgres_tests " +
	"prefetch_related properties queries queryset_pickle raw_query reserved_names save_delete_hooks schema " +
	"select_for_update select_related " +
	"select_related_onetoone select_related_regress sessions_tests timezones transaction_hooks transactions " +
	"unmanaged_models update update_only_fields xor_lookups"

// djangoSuite is Django's tests of its object-relational mapper. Its runner would make databases
// of its own; it is told to keep the one there is.
func djangoSuite() Suite {
	return Suite{
		Name: "django", What: "Django 5.2.4 with psycopg 3, tests of the ORM", Limit: 60 * time.Minute,
		Parts: strings.Fields(djangoLabels), Apart: true,
		fetch: pythonSource("django", "5.2.4", "psycopg[binary]==3.2.9", "asgiref==3.8.1", "sqlparse==0.5.3", "jinja2",
			"tblib", "pyyaml", "pytz", "tzdata"),
		parse: parseLines,
		command: func(a *Arm, dir string) (argv, env []string) {
			if err := os.WriteFile(filepath.Join(a.Dir, "tutti_settings.py"), djangoSettings, 0o644); err != nil {
				return []string{"sh", "-c", "echo " + err.Error()}, nil
			}
			return []string{"sh", "-c", `cd "$0/source/tests" && exec "$0/env/bin/python" runtests.py "$@"`, dir,
					"--settings=tutti_settings", "--keepdb", "--noinput", "--parallel=1", "--verbosity=1"},
				[]string{"PYTHONPATH=" + a.Dir + ":" + filepath.Join(dir, "source"), "PYTHONDONTWRITEBYTECODE=1"}
		},
	}
}
