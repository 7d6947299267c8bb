"""What psycopg 3 can do with a connection, a line for each step with its result. A line that
is not the same through Tutti is a difference."""

import asyncio
import threading
import time

import psycopg
from psycopg import sql
from psycopg.rows import dict_row
from psycopg.types.json import Jsonb

STEPS = []


def step(f):
    STEPS.append(f)
    return f


def connect(**more):
    return psycopg.connect("", **more)


def told(e):
    d = e.diag
    return f"{e.sqlstate} {d.severity} {d.message_primary} table={d.table_name} constraint={d.constraint_name} position={d.statement_position}"


def attempt(f, *args, **kwargs):
    try:
        return f(*args, **kwargs)
    except psycopg.Error as e:
        return f"{type(e).__name__} {told(e)}"


def fresh(c, name):
    c.execute(f"DROP TABLE IF EXISTS {name}")
    c.execute(f"CREATE TABLE {name} (id int PRIMARY KEY, v text, n numeric, j jsonb, a int[], b bytea, t timestamptz)")


@step
def parameters_and_binary():
    out = []
    with connect(autocommit=True) as c:
        fresh(c, "pp")
        for binary in (False, True):
            row = (1 + binary, "ä\n'", 1.5, Jsonb({"a": [1, None]}), [1, None, 3], b"\x00\xff", "2024-02-29 12:00:00+00")
            c.execute("INSERT INTO pp VALUES (%s, %s, %s, %s, %s, %s, %s)", row)
            cur = c.execute("SELECT id, v, n, j, a, b, extract(epoch FROM t) FROM pp WHERE id = %s", (1 + binary,), binary=binary)
            out.append((cur.fetchone(), [(d.name, d.type_code, d.internal_size) for d in cur.description], cur.statusmessage))
    return out


@step
def server_prepared_survives_ddl():
    with connect(autocommit=True) as c:
        fresh(c, "pp")
        c.execute("INSERT INTO pp (id) VALUES (1), (2)")
        c.prepare_threshold = 0
        out = [c.execute("SELECT * FROM pp WHERE id = %s", (1,)).fetchone()]
        c.execute("ALTER TABLE pp ADD COLUMN w int DEFAULT 7")
        out.append(attempt(lambda: c.execute("SELECT * FROM pp WHERE id = %s", (1,)).fetchone()))
        out.append(attempt(lambda: c.execute("SELECT id, w FROM pp WHERE id = %s", (2,)).fetchone()))
        c.execute("DEALLOCATE ALL")
        out.append(attempt(lambda: c.execute("SELECT count(*) FROM pp").fetchone()))
        return out


@step
def pipeline_with_errors():
    out = []
    with connect(autocommit=True) as c:
        fresh(c, "pp")
        with c.pipeline() as p:
            a = c.execute("INSERT INTO pp (id) VALUES (1) RETURNING id")
            p.sync()
            b = c.execute("INSERT INTO pp (id) VALUES (1)")
            d = c.execute("INSERT INTO pp (id) VALUES (2)")
            out.append(a.fetchone())
            out.append(attempt(p.sync))
            e = c.execute("INSERT INTO pp (id) VALUES (3)")
            p.sync()
            out.append((b.statusmessage, d.statusmessage, e.statusmessage))
        out.append(c.execute("SELECT array_agg(id ORDER BY id) FROM pp").fetchone())
        with c.pipeline():
            with c.transaction():
                c.execute("INSERT INTO pp (id) VALUES (4)")
                cur = c.execute("SELECT count(*) FROM pp")
            out.append(cur.fetchone())
        out.append(attempt(failing_pipeline, c))
        out.append(c.execute("SELECT array_agg(id ORDER BY id) FROM pp").fetchone())
    return out


def failing_pipeline(c):
    with c.pipeline():
        with c.transaction():
            c.execute("INSERT INTO pp (id) VALUES (5)")
            c.execute("INSERT INTO pp (id) VALUES (5)")


@step
def nested_transactions():
    with connect() as c:
        c.autocommit = True
        fresh(c, "pp")
        out = []
        with c.transaction():
            c.execute("INSERT INTO pp (id) VALUES (1)")
            out.append(attempt(inner, c))
            with c.transaction(force_rollback=True):
                c.execute("INSERT INTO pp (id) VALUES (9)")
            c.execute("INSERT INTO pp (id) VALUES (2)")
            out.append(c.info.transaction_status.name)
        out.append(c.execute("SELECT array_agg(id ORDER BY id) FROM pp").fetchone())
        return out


def inner(c):
    with c.transaction():
        c.execute("INSERT INTO pp (id) VALUES (1)")


@step
def isolation_and_modes():
    out = []
    for level in psycopg.IsolationLevel:
        with connect() as c:
            c.isolation_level, c.read_only, c.deferrable = level, True, True
            out.append(c.execute("SELECT current_setting('transaction_isolation'), current_setting('transaction_read_only'), current_setting('transaction_deferrable')").fetchone())
            out.append(attempt(c.execute, "CREATE TABLE never (a int)"))
    return out


@step
def failed_transaction():
    with connect() as c:
        out = [attempt(c.execute, "SELECT 1/0"), attempt(c.execute, "SELECT 1"), c.info.transaction_status.name]
        c.rollback()
        return out + [c.execute("SELECT 1").fetchone()]


@step
def named_cursors():
    with connect() as c:
        out = []
        with c.cursor("first") as cur:
            cur.execute("SELECT g FROM generate_series(1, 7) g")
            cur.itersize = 3
            out += [cur.fetchone(), cur.fetchmany(2), [r for r in cur]]
        with c.cursor("second", scrollable=True, withhold=True) as cur:
            cur.execute("SELECT g FROM generate_series(1, 5) g")
            c.commit()
            cur.scroll(3)
            out.append(cur.fetchone())
            cur.scroll(0, mode="absolute")
            out.append(cur.fetchall())
        return out


@step
def streaming():
    with connect() as c, c.cursor(row_factory=dict_row) as cur:
        return [len(list(cur.stream("SELECT g FROM generate_series(1, %s) g", (1000,)))), list(cur.stream("SELECT 1 AS a"))]


@step
def copies():
    out = []
    with connect(autocommit=True) as c:
        fresh(c, "pp")
        cur = c.cursor()
        with cur.copy("COPY pp (id, v) FROM STDIN") as copy:
            for i in range(5000):
                copy.write_row((i, f"row {i}\t\n"))
        out.append(cur.rowcount)
        with cur.copy("COPY pp (id, v) FROM STDIN (FORMAT binary)") as copy:
            copy.set_types(["int4", "text"])
            copy.write_row((5000, "binary"))
        out.append(cur.rowcount)
        out.append(attempt(copy_twice, c))
        out.append(attempt(copy_bad, c))
        out.append(abandoned(c))
        out.append(c.execute("SELECT count(*), sum(id), max(v) FROM pp").fetchone())
        with cur.copy("COPY (SELECT id, v FROM pp ORDER BY id LIMIT 2) TO STDOUT") as copy:
            out.append([bytes(b) for b in copy])
        with cur.copy("COPY (SELECT id FROM pp ORDER BY id LIMIT 3) TO STDOUT (FORMAT binary)") as copy:
            copy.set_types(["int4"])
            out.append(list(copy.rows()))
        with cur.copy("COPY (SELECT generate_series(1, 100000)) TO STDOUT") as copy:
            out.append(sum(len(b) for b in copy))
    return out


def copy_twice(c):
    with c.cursor().copy("COPY pp (id) FROM STDIN") as copy:
        copy.write_row((9000,))
        copy.write_row((1,))


def copy_bad(c):
    with c.cursor().copy("COPY pp (id) FROM STDIN") as copy:
        copy.write("no number\n")


def abandoned(c):
    try:
        with c.cursor().copy("COPY pp (id) FROM STDIN") as copy:
            copy.write_row((9001,))
            raise KeyError("changed my mind")
    except KeyError as e:
        return str(e)
    except psycopg.Error as e:
        return told(e)


@step
def executemany_returning():
    with connect(autocommit=True) as c:
        fresh(c, "pp")
        cur = c.cursor()
        cur.executemany("INSERT INTO pp (id, v) VALUES (%s, %s) RETURNING id", [(i, str(i)) for i in range(300)], returning=True)
        got = []
        while True:
            got.append(cur.fetchone()[0])
            if not cur.nextset():
                break
        again = attempt(c.cursor().executemany, "INSERT INTO pp (id) VALUES (%s)", [(1000,), (1,), (1001,)])
        return [len(got), got[-1], again, c.execute("SELECT count(*) FROM pp").fetchone()]


@step
def notifications():
    with connect(autocommit=True) as a, connect(autocommit=True) as b:
        a.execute("LISTEN news")
        b.execute("SELECT pg_notify('news', %s)", ("one",))
        with b.transaction():
            b.execute("NOTIFY news, 'two'")
            b.execute("NOTIFY news, 'two'")
            b.execute("NOTIFY news, 'three'")
        got = [(n.channel, n.payload, n.pid == b.info.backend_pid) for n in a.notifies(timeout=10, stop_after=3)]
        a.execute("UNLISTEN *")
        b.execute("NOTIFY news, 'four'")
        return got + [list(a.notifies(timeout=0.2))]


@step
def cancelling():
    with connect(autocommit=True) as c, connect(autocommit=True) as holder:
        fresh(c, "pp")
        c.execute("INSERT INTO pp (id) VALUES (1)")
        out = [cancelled(c, "SELECT pg_sleep(60)")]
        with holder.transaction():
            holder.execute("UPDATE pp SET v = 'held' WHERE id = 1")
            out.append(cancelled(c, "UPDATE pp SET v = 'waits' WHERE id = 1"))
            out.append(cancelled(c, "SELECT * FROM pp FOR UPDATE"))
        c.cancel_safe()
        out.append(c.execute("SELECT id, v FROM pp").fetchone())
        return out


def cancelled(c, query):
    t = threading.Timer(0.5, c.cancel_safe)
    t.start()
    began = time.monotonic()
    try:
        return attempt(lambda: c.execute(query).statusmessage), time.monotonic() - began < 30
    finally:
        t.join()


@step
def notices():
    got = []
    with connect(autocommit=True) as c:
        c.add_notice_handler(lambda d: got.append((d.severity, d.sqlstate, d.message_primary)))
        c.execute("DO $$ BEGIN RAISE NOTICE 'here'; RAISE WARNING 'there'; END $$")
        c.execute("DROP TABLE IF EXISTS none_such")
        c.execute("COMMIT")
    return got


@step
def several_statements():
    with connect(autocommit=True) as c:
        fresh(c, "pp")
        cur = c.execute("INSERT INTO pp (id) VALUES (1); SELECT count(*) FROM pp; UPDATE pp SET v = 'x'")
        out = [cur.statusmessage]
        while cur.nextset():
            out.append(cur.statusmessage)
        out.append(attempt(c.execute, "INSERT INTO pp (id) VALUES (2); SELECT 1/0; INSERT INTO pp (id) VALUES (3)"))
        out.append(attempt(c.execute, "INSERT INTO pp (id) VALUES (4); COMMIT; SELECT 1/0"))
        return out + [c.execute("SELECT array_agg(id ORDER BY id) FROM pp").fetchone()]


@step
def information():
    with connect() as c:
        i = c.info
        return [i.server_version, i.encoding, i.dbname, i.user, i.pipeline_status.name, i.transaction_status.name, i.backend_pid == c.execute("SELECT pg_backend_pid()").fetchone()[0]] + [
            (p, i.parameter_status(p)) for p in ("server_encoding", "client_encoding", "DateStyle", "IntervalStyle", "integer_datetimes", "standard_conforming_strings", "is_superuser",
                                                 "in_hot_standby", "default_transaction_read_only", "session_authorization", "application_name")]


@step
def low_level():
    with connect(autocommit=True) as c:
        g = c.pgconn
        out = []
        r = g.prepare(b"low", b"SELECT $1::int + $2::int, $3::text")
        out.append((r.status, r.error_message))
        d = g.describe_prepared(b"low")
        out.append((d.nparams, [d.param_type(k) for k in range(d.nparams)], d.nfields, [d.ftype(k) for k in range(d.nfields)]))
        r = g.exec_prepared(b"low", [b"1", b"2", None])
        out.append((r.get_value(0, 0), r.get_value(0, 1)))
        out.append(g.describe_prepared(b"none").error_message)
        out.append(g.describe_portal(b"none").error_message)
        r = g.exec_(b"")
        out.append(r.status)
        r = g.exec_params(b"SELECT 1; SELECT 2", [])
        out.append(r.error_message)
        return out


@step
def target_session_attrs():
    out = []
    for want in ("any", "read-write", "primary", "prefer-standby", "read-only", "standby"):
        try:
            with connect(target_session_attrs=want):
                out.append((want, True))
        except psycopg.OperationalError as e:
            out.append((want, str(e).split("failed: ")[-1]))
    return out


@step
def asynchronous():
    async def main():
        c = await psycopg.AsyncConnection.connect("", autocommit=True)
        async with c:
            task = asyncio.create_task(c.execute("SELECT pg_sleep(60)"))
            await asyncio.sleep(0.3)
            task.cancel()
            try:
                await task
            except asyncio.CancelledError:
                pass
            return await (await c.execute("SELECT 'still here'")).fetchone()

    return asyncio.run(main())


@step
def encodings():
    out = []
    with connect(autocommit=True, client_encoding="latin1") as c:
        fresh(c, "pp")
        c.execute("INSERT INTO pp (id, v) VALUES (1, %s)", ("äöü",))
        out.append(c.execute("SELECT v, octet_length(v) FROM pp").fetchone())
        c.execute("SET client_encoding TO utf8")
        out.append(c.execute("SELECT v || '€' FROM pp").fetchone())
    return out


@step
def rights():
    with connect(autocommit=True) as c:
        c.execute("DROP ROLE IF EXISTS pp_reader")
        c.execute("CREATE ROLE pp_reader")
        fresh(c, "pp")
        c.execute("GRANT SELECT ON pp TO pp_reader")
        c.execute("SET ROLE pp_reader")
        out = [attempt(c.execute, "INSERT INTO pp (id) VALUES (1)"), c.execute("SELECT count(*) FROM pp").fetchone(), attempt(c.execute, "CREATE TABLE tutti_x (a int)")]
        c.execute("RESET ROLE")
        c.execute("DROP OWNED BY pp_reader")
        c.execute("DROP ROLE pp_reader")
        return out


@step
def sequences():
    with connect(autocommit=True) as c:
        c.execute("DROP TABLE IF EXISTS ps")
        c.execute("CREATE TABLE ps (id int GENERATED ALWAYS AS IDENTITY, v int)")
        out = [attempt(lambda: c.execute("SELECT setval(pg_get_serial_sequence('ps', 'id'), 100)").fetchall())]
        with c.transaction():
            out.append(attempt(lambda: c.execute("SELECT setval(pg_get_serial_sequence('ps', 'id'), 200)").fetchall()))
        out.append(attempt(lambda: c.execute("SELECT setval(pg_get_serial_sequence('ps', 'id'), %s)", (300,)).fetchall()))
        return out


@step
def identifiers():
    with connect(autocommit=True) as c:
        name = sql.Identifier('Odd "name; --')
        c.execute(sql.SQL("DROP TABLE IF EXISTS {}").format(name))
        c.execute(sql.SQL("CREATE TABLE {} ({} int PRIMARY KEY)").format(name, sql.Identifier("SELECT")))
        c.execute(sql.SQL("INSERT INTO {} VALUES (1)").format(name))
        return attempt(c.execute, sql.SQL("INSERT INTO {} VALUES (1)").format(name))


def main():
    for f in STEPS:
        try:
            result = f()
        except Exception as e:  # what a step raises is its result
            result = f"{type(e).__name__} {e}"
        if isinstance(result, (list, tuple)):
            for k, r in enumerate(result):
                print(f"ok - {f.__name__} {k}: {r!r}".replace("\n", "\\n"), flush=True)
        else:
            print(f"ok - {f.__name__}: {result!r}".replace("\n", "\\n"), flush=True)


main()
