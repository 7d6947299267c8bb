// What pgjdbc can do with a connection, a line for each step with its result. A line that is
// not the same through Tutti is a difference.

import java.io.*;
import java.lang.reflect.Method;
import java.math.BigDecimal;
import java.nio.charset.StandardCharsets;
import java.sql.*;
import java.time.*;
import java.util.*;
import java.util.concurrent.*;
import org.postgresql.PGConnection;
import org.postgresql.PGNotification;
import org.postgresql.copy.*;
import org.postgresql.util.*;
import org.postgresql.xa.PGXADataSource;

public class PgjdbcSteps {
    static final String AT = System.getenv("PGHOST") + ":" + System.getenv("PGPORT");
    static final String DATABASE = System.getenv("PGDATABASE");
    static String step;
    static int line;

    interface Work { Object run() throws Exception; }
    interface Step { void run() throws Exception; }

    static Connection open(String... options) throws SQLException {
        return DriverManager.getConnection(url(AT, options));
    }

    static String url(String hosts, String... options) {
        return "jdbc:postgresql://" + hosts + "/" + DATABASE + "?user=" + System.getenv("PGUSER")
            + "&sslmode=disable" + (options.length > 0 ? "&" : "") + String.join("&", options);
    }

    static String show(Object o) throws Exception {
        if (o instanceof byte[]) return HexFormat.of().formatHex((byte[]) o);
        if (o instanceof int[]) return Arrays.toString((int[]) o);
        if (o instanceof long[]) return Arrays.toString((long[]) o);
        if (o instanceof Object[]) return Arrays.deepToString((Object[]) o);
        if (o instanceof ResultSet) return rows((ResultSet) o);
        if (o instanceof java.sql.Array) return show(((java.sql.Array) o).getArray());
        return String.valueOf(o);
    }

    static void say(Object o) throws Exception {
        System.out.println("ok - " + step + " " + line++ + ": " + show(o).replace("\n", "\\n").replace("\r", "\\r"));
    }

    static String told(SQLException e) {
        StringBuilder out = new StringBuilder(e.getClass().getSimpleName() + " " + e.getSQLState() + " " + e.getMessage());
        if (e instanceof PSQLException && ((PSQLException) e).getServerErrorMessage() != null) {
            ServerErrorMessage m = ((PSQLException) e).getServerErrorMessage();
            out.append(" [" + m.getSeverity() + " table=" + m.getTable() + " constraint=" + m.getConstraint() + " column=" + m.getColumn()
                + " routine=" + m.getRoutine() + " position=" + m.getPosition() + "]");
        }
        if (e instanceof BatchUpdateException) out.append(" counts=" + Arrays.toString(((BatchUpdateException) e).getUpdateCounts()));
        if (e.getNextException() != null && e.getNextException() != e) out.append(" then " + told(e.getNextException()));
        return out.toString();
    }

    static void attempt(Work w) throws Exception {
        try {
            say(w.run());
        } catch (SQLException e) {
            say(told(e));
        }
    }

    static String rows(ResultSet r) throws Exception {
        StringBuilder out = new StringBuilder();
        int n = r.getMetaData().getColumnCount();
        while (r.next()) {
            out.append("(");
            for (int i = 1; i <= n; i++) out.append(i > 1 ? ", " : "").append(show(r.getObject(i)));
            out.append(")");
        }
        r.close();
        return out.toString();
    }

    static List<String> column(ResultSet r, String name) throws SQLException {
        List<String> out = new ArrayList<>();
        while (r.next()) out.add(r.getString(name));
        return out;
    }

    static String query(Connection c, String sql, Object... args) throws Exception {
        try (PreparedStatement p = c.prepareStatement(sql)) {
            for (int i = 0; i < args.length; i++) p.setObject(i + 1, args[i]);
            return rows(p.executeQuery());
        }
    }

    static int run(Connection c, String sql) throws SQLException {
        try (Statement s = c.createStatement()) {
            return s.executeUpdate(sql);
        }
    }

    static void fresh(Connection c, String name) throws SQLException {
        run(c, "DROP TABLE IF EXISTS " + name);
        run(c, "CREATE TABLE " + name + " (id int PRIMARY KEY, v text, n numeric, u int UNIQUE)");
    }

    static void serverPrepare() throws Exception {
        for (String threshold : new String[] {"-1", "0", "1", "5"})
            for (String autosave : new String[] {"never", "conservative", "always"}) {
                try (Connection c = open("prepareThreshold=" + threshold, "autosave=" + autosave)) {
                    fresh(c, "jp");
                    run(c, "INSERT INTO jp (id, u) SELECT g, g FROM generate_series(1, 20) g");
                    c.setAutoCommit(false);
                    try (PreparedStatement p = c.prepareStatement("SELECT * FROM jp WHERE id = ?")) {
                        for (int i = 1; i < 8; i++) {
                            p.setInt(1, i);
                            rows(p.executeQuery());
                        }
                        say(p.unwrap(org.postgresql.PGStatement.class).isUseServerPrepare());
                        c.commit();
                        run(c, "ALTER TABLE jp ADD COLUMN more int DEFAULT 7");
                        attempt(p::executeQuery);
                        attempt(() -> query(c, "SELECT count(*) FROM jp"));
                        c.rollback();
                        run(c, "DEALLOCATE ALL");
                        attempt(p::executeQuery);
                        c.rollback();
                        attempt(p::executeQuery);
                        run(c, "DISCARD PLANS");
                        attempt(p::executeQuery);
                        c.rollback();
                    }
                }
            }
    }

    static void types() throws Exception {
        for (String binary : new String[] {"true", "false"}) {
            try (Connection c = open("binaryTransfer=" + binary, "prepareThreshold=1", "options=-c%20TimeZone=UTC")) {
                run(c, "DROP TABLE IF EXISTS jt; DROP TYPE IF EXISTS jmood; CREATE TYPE jmood AS ENUM ('sad', 'happy')");
                run(c, "CREATE TABLE jt (id int PRIMARY KEY, b boolean, i2 smallint, i8 bigint, f4 real, f8 double precision, n numeric(20,5), c char(5), v varchar(20), t text, "
                    + "by bytea, d date, ti time, tz timestamptz, ts timestamp, iv interval, u uuid, j json, jb jsonb, x xml, ia int[], ta text[], m jmood, r int4range, p point, net inet, bits bit(5), mo money)");
                String sql = "INSERT INTO jt VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?::json, ?::jsonb, ?::xml, ?, ?, ?::jmood, ?::int4range, ?, ?::inet, ?::bit(5), ?::money)";
                try (PreparedStatement p = c.prepareStatement(sql)) {
                    for (int id = 1; id <= 3; id++) {
                        Object[] row = {id, id == 1, (short) -3, 1L << 60, 1.5f, -2.25, new BigDecimal("123456789.12345"), "ab", "vär", "text\n'\\", new byte[] {0, 1, -1},
                            LocalDate.of(2024, 2, 29), LocalTime.of(23, 59, 59), OffsetDateTime.of(2024, 2, 29, 12, 0, 0, 0, ZoneOffset.ofHours(2)), LocalDateTime.of(1999, 12, 31, 1, 2, 3, 4000),
                            new PGInterval("1 mon 2 days 03:04:05"), UUID.fromString("00112233-4455-6677-8899-aabbccddeeff"), "{\"a\": 1}", "{\"b\":[1,null]}", "<a/>",
                            c.createArrayOf("int4", new Integer[] {1, null, 3}), c.createArrayOf("text", new String[] {"a,b", null, "\"q\""}), "happy", "[1,5)",
                            new org.postgresql.geometric.PGpoint(1, 2), "10.0.0.1", "10101", "12.34"};
                        for (int k = 0; k < row.length; k++) p.setObject(k + 1, id == 3 && k > 0 ? null : row[k]);
                        attempt(p::executeUpdate);
                    }
                    ParameterMetaData d = p.getParameterMetaData();
                    StringBuilder of = new StringBuilder();
                    for (int k = 1; k <= d.getParameterCount(); k++) of.append(d.getParameterTypeName(k)).append(" ");
                    say(of);
                }
                try (PreparedStatement p = c.prepareStatement("SELECT * FROM jt ORDER BY id")) {
                    for (int k = 0; k < 3; k++) say(p.executeQuery());
                    ResultSetMetaData d = p.getMetaData();
                    for (int k = 1; k <= d.getColumnCount(); k++)
                        say(List.of(d.getColumnName(k), d.getColumnTypeName(k), d.getPrecision(k), d.getScale(k), d.isNullable(k), d.getTableName(k), d.isAutoIncrement(k)));
                }
                attempt(() -> query(c, "SELECT tz, d FROM jt WHERE m = ?::jmood AND ia @> ? ORDER BY id", "happy", c.createArrayOf("int4", new Integer[] {3})));
                attempt(() -> query(c, "SELECT ROW(1, 'a'), ARRAY[ROW(1, 2)], '{}'::int[], 'NaN'::float8, 'infinity'::timestamptz::text"));
            }
        }
    }

    static void batch(Connection c, int... ids) throws Exception {
        try (PreparedStatement p = c.prepareStatement("INSERT INTO jb (id, v, u) VALUES (?, ?, ?)")) {
            for (int id : ids) {
                p.setInt(1, id);
                p.setString(2, "v" + id);
                p.setInt(3, id);
                p.addBatch();
            }
            attempt(p::executeBatch);
        }
        if (!c.getAutoCommit()) attempt(() -> query(c, "SELECT count(*) FROM jb"));
    }

    static void batches() throws Exception {
        for (String mode : new String[] {"preferQueryMode=extended", "reWriteBatchedInserts=true", "preferQueryMode=simple", "prepareThreshold=-1", "preferQueryMode=extendedCacheEverything", "autosave=always"})
            try (Connection c = open(mode)) {
                fresh(c, "jb");
                batch(c, 1, 2, 3);
                batch(c, 4, 5, 1, 6, 7);
                say(query(c, "SELECT array_agg(id ORDER BY id) FROM jb"));
                c.setAutoCommit(false);
                batch(c, 8, 9, 2, 10);
                c.rollback();
                batch(c, 11, 12);
                c.commit();
                say(query(c, "SELECT array_agg(id ORDER BY id) FROM jb"));
                try (Statement s = c.createStatement()) {
                    s.addBatch("UPDATE jb SET n = 1 WHERE id < 5");
                    s.addBatch("DELETE FROM jb WHERE id = 2");
                    s.addBatch("SELECT 1/0");
                    s.addBatch("DELETE FROM jb");
                    attempt(s::executeBatch);
                    c.rollback();
                    s.clearBatch();
                    s.addBatch("UPDATE jb SET n = 1 WHERE id < 5");
                    s.addBatch("INSERT INTO jb (id) VALUES (100)");
                    attempt(s::executeLargeBatch);
                    c.commit();
                }
                c.setAutoCommit(true);
                try (PreparedStatement p = c.prepareStatement("INSERT INTO jb (id, v) VALUES (?, ?)", new String[] {"id", "v"})) {
                    for (int i = 1000; i < 4000; i++) {
                        p.setInt(1, i);
                        p.setString(2, "x".repeat(i % 50));
                        p.addBatch();
                    }
                    int[] counts = p.executeBatch();
                    ResultSet keys = p.getGeneratedKeys();
                    int n = 0;
                    while (keys.next()) n++;
                    say(counts.length + " " + n);
                }
                say(query(c, "SELECT count(*), sum(id), sum(length(v)) FROM jb"));
            }
    }

    static void portals() throws Exception {
        try (Connection c = open()) {
            c.setAutoCommit(false);
            fresh(c, "jf");
            run(c, "INSERT INTO jf (id, u) SELECT g, g FROM generate_series(1, 1000) g");
            c.commit();
            Statement a = c.createStatement(), b = c.createStatement();
            a.setFetchSize(7);
            b.setFetchSize(50);
            ResultSet ra = a.executeQuery("SELECT id FROM jf ORDER BY id"), rb = b.executeQuery("SELECT id FROM jf ORDER BY id DESC");
            long sum = 0;
            int n = 0;
            while (ra.next() && rb.next()) {
                sum += (long) ra.getInt(1) * rb.getInt(1);
                if (++n % 100 == 0) run(c, "UPDATE jf SET v = 'seen' WHERE id = " + n);
            }
            say(sum + " " + n);
            c.commit();
            try (PreparedStatement p = c.prepareStatement("SELECT id FROM jf WHERE id > ? ORDER BY id")) {
                p.setFetchSize(10);
                p.setInt(1, 5);
                ResultSet r = p.executeQuery();
                for (int i = 0; i < 15; i++) r.next();
                c.commit();
                attempt(() -> {
                    int k = 0;
                    while (r.next()) k++;
                    return k;
                });
                c.rollback();
                p.setInt(1, 990);
                say(p.executeQuery());
                p.setMaxRows(3);
                p.setFetchSize(2);
                p.setInt(1, 0);
                say(p.executeQuery());
            }
            c.commit();
            try (Statement s = c.createStatement()) {
                s.setFetchSize(4);
                ResultSet r = s.executeQuery("SELECT 1 / (g - 10) FROM generate_series(1, 20) g");
                attempt(() -> {
                    int k = 0;
                    while (r.next()) k++;
                    return k;
                });
                attempt(() -> query(c, "SELECT 1"));
                c.rollback();
            }
            try (Statement s = c.createStatement(ResultSet.TYPE_SCROLL_INSENSITIVE, ResultSet.CONCUR_UPDATABLE)) {
                ResultSet r = s.executeQuery("SELECT id, v, u FROM jf WHERE id <= 10 ORDER BY id");
                r.absolute(3);
                r.updateString("v", "updated");
                r.updateRow();
                r.moveToInsertRow();
                r.updateInt("id", 5000);
                r.updateString("v", "inserted");
                r.insertRow();
                r.last();
                r.deleteRow();
                r.first();
                r.refreshRow();
                say(r.getInt(1) + " " + r.getString(2));
                r.beforeFirst();
                say(r);
            }
            c.commit();
            try (Statement s = c.createStatement(ResultSet.TYPE_FORWARD_ONLY, ResultSet.CONCUR_READ_ONLY, ResultSet.HOLD_CURSORS_OVER_COMMIT)) {
                s.setFetchSize(10);
                ResultSet r = s.executeQuery("SELECT id FROM jf");
                r.next();
                c.commit();
                attempt(() -> {
                    int k = 0;
                    while (r.next()) k++;
                    return k;
                });
            }
            run(c, "DECLARE held SCROLL CURSOR WITH HOLD FOR SELECT id FROM jf ORDER BY id");
            c.commit();
            for (String f : new String[] {"FETCH 2 FROM held", "FETCH LAST FROM held", "FETCH ABSOLUTE 5 FROM held", "FETCH BACKWARD 2 FROM held", "CLOSE held", "FETCH 1 FROM held"})
                attempt(() -> {
                    try (Statement s = c.createStatement()) {
                        return s.execute(f) ? rows(s.getResultSet()) : s.getUpdateCount();
                    }
                });
            c.rollback();
            run(c, "DECLARE here CURSOR FOR SELECT id FROM jf WHERE id < 4 ORDER BY id FOR UPDATE");
            attempt(() -> query(c, "FETCH 1 FROM here"));
            say(run(c, "UPDATE jf SET v = 'current' WHERE CURRENT OF here"));
            c.commit();
            say(query(c, "SELECT id FROM jf WHERE v = 'current'"));
            try (Connection d = open("defaultRowFetchSize=100", "adaptiveFetch=true", "maxResultBuffer=1M")) {
                d.setAutoCommit(false);
                try (Statement s = d.createStatement()) {
                    ResultSet r = s.executeQuery("SELECT g, repeat('x', g % 1000) FROM generate_series(1, 20000) g");
                    int k = 0;
                    long length = 0;
                    while (r.next()) {
                        k++;
                        length += r.getString(2).length();
                    }
                    say(k + " " + length);
                }
            }
        }
    }

    static InputStream bytes(String s) { return new ByteArrayInputStream(s.getBytes(StandardCharsets.UTF_8)); }

    static void copies() throws Exception {
        for (boolean auto : new boolean[] {true, false})
            try (Connection c = open()) {
                fresh(c, "jc");
                c.setAutoCommit(auto);
                CopyManager m = c.unwrap(PGConnection.class).getCopyAPI();
                attempt(() -> m.copyIn("COPY jc (id, v) FROM STDIN", bytes("1\tone\n2\ttwo\n")));
                if (!auto) c.commit();
                attempt(() -> m.copyIn("COPY jc (id, v) FROM STDIN (FORMAT csv, HEADER)", new StringReader("id,v\n3,\"th,ree\"\n4,\n")));
                if (!auto) c.commit();
                attempt(() -> m.copyIn("COPY jc (id, v) FROM STDIN", bytes("5\tfive\n1\tagain\n")));
                c.setAutoCommit(true);
                c.setAutoCommit(auto);
                attempt(() -> m.copyIn("COPY jc (id, v) FROM STDIN", bytes("no number\tfive\n")));
                c.setAutoCommit(true);
                c.setAutoCommit(auto);
                attempt(() -> m.copyIn("COPY none_such FROM STDIN", bytes("1\n")));
                c.setAutoCommit(true);
                c.setAutoCommit(auto);
                attempt(() -> m.copyIn("SELECT 1", bytes("1\n")));
                c.setAutoCommit(true);
                c.setAutoCommit(auto);
                attempt(() -> {
                    CopyIn in = m.copyIn("COPY jc (id, v) FROM STDIN");
                    byte[] b = "6\tsix\n".getBytes();
                    in.writeToCopy(b, 0, b.length);
                    in.cancelCopy();
                    return in.isActive() + " " + in.getHandledRowCount();
                });
                c.setAutoCommit(true);
                c.setAutoCommit(auto);
                attempt(() -> {
                    CopyIn in = m.copyIn("COPY jc (id, v) FROM STDIN");
                    for (int i = 100; i < 20000; i++) {
                        byte[] b = (i + "\tline " + i + "\n").getBytes();
                        in.writeToCopy(b, 0, b.length);
                    }
                    in.flushCopy();
                    return in.endCopy() + " " + in.getFormat() + " " + in.getFieldCount();
                });
                if (!auto) c.commit();
                attempt(() -> {
                    CopyIn in = m.copyIn("COPY jc (id, v) FROM STDIN (FORMAT binary)");
                    ByteArrayOutputStream all = new ByteArrayOutputStream();
                    DataOutputStream d = new DataOutputStream(all);
                    d.write("PGCOPY\n\377\r\n\0".getBytes(StandardCharsets.ISO_8859_1));
                    d.writeInt(0);
                    d.writeInt(0);
                    d.writeShort(2);
                    d.writeInt(4);
                    d.writeInt(30000);
                    d.writeInt(-1);
                    d.writeShort(-1);
                    in.writeToCopy(all.toByteArray(), 0, all.size());
                    return in.endCopy();
                });
                if (!auto) c.commit();
                ByteArrayOutputStream out = new ByteArrayOutputStream();
                attempt(() -> m.copyOut("COPY (SELECT id, v FROM jc ORDER BY id LIMIT 4) TO STDOUT (FORMAT csv, FORCE_QUOTE *)", out) + " " + out);
                attempt(() -> {
                    ByteArrayOutputStream b = new ByteArrayOutputStream();
                    return m.copyOut("COPY (SELECT id FROM jc ORDER BY id LIMIT 3) TO STDOUT (FORMAT binary)", b) + " " + b.size();
                });
                attempt(() -> {
                    CopyOut o = m.copyOut("COPY (SELECT generate_series(1, 1000000)) TO STDOUT");
                    o.readFromCopy();
                    o.cancelCopy();
                    return o.isActive();
                });
                c.setAutoCommit(true);
                c.setAutoCommit(auto);
                attempt(() -> m.copyOut("COPY (SELECT 1 / (50 - g) FROM generate_series(1, 60) g) TO STDOUT", new StringWriter()));
                c.setAutoCommit(true);
                attempt(() -> query(c, "SELECT count(*), sum(id), max(v) FROM jc"));
            }
    }

    static void cancelling() throws Exception {
        ScheduledExecutorService later = Executors.newScheduledThreadPool(1);
        try (Connection c = open(); Connection holder = open()) {
            fresh(c, "jx");
            run(c, "INSERT INTO jx (id) VALUES (1)");
            holder.setAutoCommit(false);
            run(holder, "UPDATE jx SET v = 'held' WHERE id = 1");
            for (String sql : new String[] {"SELECT pg_sleep(60)", "UPDATE jx SET v = 'waits' WHERE id = 1", "SELECT * FROM jx FOR UPDATE", "ALTER TABLE jx ADD COLUMN w int", "LOCK TABLE jx"})
                for (boolean auto : new boolean[] {true, false})
                    try (Statement s = c.createStatement()) {
                        c.setAutoCommit(auto);
                        long began = System.nanoTime();
                        Future<?> f = later.schedule(() -> { s.cancel(); return null; }, 400, TimeUnit.MILLISECONDS);
                        attempt(() -> s.execute(sql));
                        f.get();
                        say(System.nanoTime() - began < 20_000_000_000L);
                        c.setAutoCommit(true);
                    }
            holder.rollback();
            try (Statement s = c.createStatement()) {
                s.cancel();
                s.setQueryTimeout(1);
                attempt(() -> s.execute("SELECT pg_sleep(30)"));
                s.setQueryTimeout(0);
                run(c, "SET statement_timeout = 300");
                attempt(() -> s.execute("SELECT pg_sleep(30)"));
                run(c, "RESET statement_timeout");
                attempt(() -> query(c, "SELECT * FROM jx"));
            }
            c.setNetworkTimeout(later, 500);
            attempt(() -> query(c, "SELECT pg_sleep(10)"));
            say(c.isClosed());
        } finally {
            later.shutdown();
        }
    }

    static void savepoints() throws Exception {
        for (String autosave : new String[] {"never", "always", "conservative"})
            try (Connection c = open("autosave=" + autosave, "cleanupSavepoints=true")) {
                fresh(c, "js");
                c.setAutoCommit(false);
                run(c, "INSERT INTO js (id) VALUES (1)");
                Savepoint named = c.setSavepoint("one two"), plain = c.setSavepoint();
                run(c, "INSERT INTO js (id) VALUES (2)");
                attempt(() -> run(c, "INSERT INTO js (id) VALUES (1)"));
                attempt(() -> run(c, "INSERT INTO js (id) VALUES (3)"));
                c.rollback(plain);
                run(c, "INSERT INTO js (id) VALUES (4)");
                c.releaseSavepoint(named);
                attempt(() -> { c.rollback(named); return "back"; });
                attempt(() -> { run(c, "ROLLBACK TO nowhere"); return "back"; });
                attempt(() -> query(c, "SELECT array_agg(id ORDER BY id) FROM js"));
                attempt(() -> { c.commit(); return "committed"; });
                c.rollback();
                attempt(() -> query(c, "SELECT array_agg(id ORDER BY id) FROM js"));
                attempt(() -> run(c, "SELECT 1/0"));
                attempt(() -> { c.commit(); return "committed"; });
            }
    }

    static void all(Statement s, boolean first) throws Exception {
        for (boolean set = first; ; set = s.getMoreResults()) {
            if (set) say(s.getResultSet());
            else if (s.getUpdateCount() < 0) return;
            else say(s.getUpdateCount());
        }
    }

    static void severalResults() throws Exception {
        for (String mode : new String[] {"extended", "simple", "extendedForPrepared"})
            try (Connection c = open("preferQueryMode=" + mode)) {
                fresh(c, "jm");
                try (Statement s = c.createStatement()) {
                    all(s, s.execute("INSERT INTO jm (id) VALUES (1), (2); SELECT id FROM jm ORDER BY id; UPDATE jm SET v = 'x' WHERE id = 1; SELECT v FROM jm ORDER BY id;;"));
                    attempt(() -> s.execute("INSERT INTO jm (id) VALUES (3); SELECT 1/0; INSERT INTO jm (id) VALUES (4)"));
                    attempt(() -> s.execute("BEGIN; INSERT INTO jm (id) VALUES (5); COMMIT; INSERT INTO jm (id) VALUES (6); SELECT 1/0"));
                    attempt(() -> s.execute("CREATE TABLE jm2 (a int); INSERT INTO jm2 VALUES (1); DROP TABLE jm2"));
                    attempt(() -> s.execute(""));
                }
                try (PreparedStatement p = c.prepareStatement("UPDATE jm SET v = ? WHERE id = ?; SELECT id, v FROM jm WHERE v = ?")) {
                    p.setString(1, "y");
                    p.setInt(2, 2);
                    p.setString(3, "y");
                    all(p, p.execute());
                }
                say(query(c, "SELECT array_agg(id ORDER BY id) FROM jm"));
            }
    }

    static void callables() throws Exception {
        try (Connection c = open("escapeSyntaxCallMode=callIfNoReturn")) {
            fresh(c, "jl");
            run(c, "CREATE OR REPLACE FUNCTION jadd(a int, b int) RETURNS int LANGUAGE plpgsql AS 'BEGIN INSERT INTO jl (id) VALUES (a + b); RETURN a + b; END'");
            run(c, "CREATE OR REPLACE FUNCTION jout(a int, OUT b int, OUT t text) LANGUAGE plpgsql AS 'BEGIN b := a * 2; t := ''t'' || a; END'");
            run(c, "CREATE OR REPLACE PROCEDURE jproc(a int, INOUT b int) LANGUAGE plpgsql AS 'BEGIN INSERT INTO jl (id) VALUES (a); b := b + a; END'");
            run(c, "CREATE OR REPLACE PROCEDURE jcommits(a int) LANGUAGE plpgsql AS 'BEGIN INSERT INTO jl (id) VALUES (a); COMMIT; END'");
            run(c, "CREATE OR REPLACE FUNCTION jcursor() RETURNS refcursor LANGUAGE plpgsql AS 'DECLARE r refcursor; BEGIN OPEN r FOR SELECT id FROM jl ORDER BY id; RETURN r; END'");
            try (CallableStatement f = c.prepareCall("{? = call jadd(?, ?)}")) {
                f.registerOutParameter(1, Types.INTEGER);
                for (int i = 0; i < 7; i++) {
                    f.setInt(2, i);
                    f.setInt(3, 10);
                    f.execute();
                }
                say(f.getInt(1));
                attempt(f::execute);
            }
            try (CallableStatement f = c.prepareCall("{call jout(?, ?, ?)}")) {
                f.setInt(1, 21);
                f.registerOutParameter(2, Types.INTEGER);
                f.registerOutParameter(3, Types.VARCHAR);
                attempt(() -> { f.execute(); return f.getInt(2) + f.getString(3); });
            }
            try (CallableStatement f = c.prepareCall("call jproc(?, ?)")) {
                f.setInt(1, 50);
                f.setInt(2, 4);
                f.registerOutParameter(2, Types.INTEGER);
                attempt(() -> { f.execute(); return f.getInt(2); });
            }
            attempt(() -> run(c, "CALL jcommits(60)"));
            c.setAutoCommit(false);
            attempt(() -> run(c, "CALL jcommits(61)"));
            c.rollback();
            try (CallableStatement f = c.prepareCall("{? = call jcursor()}")) {
                f.registerOutParameter(1, Types.REF_CURSOR);
                attempt(() -> { f.execute(); return f.getObject(1); });
            }
            c.commit();
            say(query(c, "SELECT array_agg(id ORDER BY id) FROM jl"));
        }
    }

    @SuppressWarnings("deprecation")
    static void functionCalls() throws Exception {
        try (Connection c = open()) {
            fresh(c, "jfp");
            run(c, "CREATE OR REPLACE FUNCTION jfpf(a int) RETURNS int LANGUAGE plpgsql AS 'BEGIN INSERT INTO jfp (id) VALUES (a); RETURN a * 2; END'");
            org.postgresql.fastpath.Fastpath f = c.unwrap(PGConnection.class).getFastpathAPI();
            try (Statement s = c.createStatement()) {
                f.addFunctions(s.executeQuery("SELECT proname, oid FROM pg_proc WHERE proname IN ('int4pl', 'jfpf', 'int4div', 'current_database')"));
            }
            for (boolean auto : new boolean[] {true, false}) {
                c.setAutoCommit(auto);
                org.postgresql.fastpath.FastpathArg one = new org.postgresql.fastpath.FastpathArg(auto ? 1 : 2), zero = new org.postgresql.fastpath.FastpathArg(0);
                attempt(() -> f.getInteger("int4pl", new org.postgresql.fastpath.FastpathArg[] {one, one}));
                attempt(() -> f.getInteger("jfpf", new org.postgresql.fastpath.FastpathArg[] {one}));
                if (!auto) c.commit();
                attempt(() -> f.getInteger("jfpf", new org.postgresql.fastpath.FastpathArg[] {one}));
                if (!auto) c.rollback();
                attempt(() -> f.getInteger("int4div", new org.postgresql.fastpath.FastpathArg[] {one, zero}));
                attempt(() -> query(c, "SELECT count(*) FROM jfp"));
                if (!auto) c.rollback();
                attempt(() -> f.fastpath(999999999, new org.postgresql.fastpath.FastpathArg[] {one}));
            }
            c.rollback();
            say(query(c, "SELECT array_agg(id ORDER BY id) FROM jfp"));
        }
    }

    static void isolationLevels() throws Exception {
        for (int level : new int[] {Connection.TRANSACTION_READ_UNCOMMITTED, Connection.TRANSACTION_READ_COMMITTED, Connection.TRANSACTION_REPEATABLE_READ, Connection.TRANSACTION_SERIALIZABLE})
            for (String mode : new String[] {"ignore", "transaction", "always"})
                try (Connection c = open("readOnlyMode=" + mode)) {
                    fresh(c, "ji");
                    c.setTransactionIsolation(level);
                    c.setReadOnly(true);
                    c.setAutoCommit(false);
                    say(c.getTransactionIsolation() + " " + query(c, "SELECT current_setting('transaction_isolation'), current_setting('transaction_read_only'), current_setting('default_transaction_isolation')"));
                    attempt(() -> run(c, "INSERT INTO ji (id) VALUES (1)"));
                    attempt(() -> { c.setTransactionIsolation(Connection.TRANSACTION_SERIALIZABLE); return "changed"; });
                    attempt(() -> { c.setReadOnly(false); return "changed"; });
                    c.rollback();
                    attempt(() -> { c.setReadOnly(false); return run(c, "INSERT INTO ji (id) VALUES (2)"); });
                    c.commit();
                    run(c, "SET TRANSACTION ISOLATION LEVEL REPEATABLE READ READ ONLY");
                    attempt(() -> run(c, "INSERT INTO ji (id) VALUES (3)"));
                    c.rollback();
                    c.setAutoCommit(true);
                    say(query(c, "SELECT count(*) FROM ji"));
                }
    }

    static void generatedKeys() throws Exception {
        try (Connection c = open()) {
            run(c, "DROP TABLE IF EXISTS jg");
            run(c, "CREATE TABLE jg (id int GENERATED BY DEFAULT AS IDENTITY (START WITH 5) PRIMARY KEY, s serial, v text, d timestamp DEFAULT '2020-01-01', up text GENERATED ALWAYS AS (upper(v)) STORED)");
            try (Statement s = c.createStatement()) {
                s.executeUpdate("INSERT INTO jg (id, s, v) VALUES (1, 1, 'a'), (2, 2, 'b')", Statement.RETURN_GENERATED_KEYS);
                say(s.getGeneratedKeys());
                s.executeUpdate("INSERT INTO jg (id, v) VALUES (3, 'c')", new String[] {"id", "up"});
                say(s.getGeneratedKeys());
                s.executeUpdate("UPDATE jg SET v = 'z' WHERE id < 3", new String[] {"v", "up"});
                say(s.getGeneratedKeys());
                s.executeUpdate("DELETE FROM jg WHERE id = 3", Statement.RETURN_GENERATED_KEYS);
                say(s.getGeneratedKeys().next());
            }
            try (PreparedStatement p = c.prepareStatement("INSERT INTO jg (v) VALUES (?)", new String[] {"id"})) {
                int before = 0;
                for (int i = 0; i < 8; i++) {
                    p.setString(1, "v" + i);
                    p.executeUpdate();
                    ResultSet r = p.getGeneratedKeys();
                    r.next();
                    if (r.getInt(1) > before) before = r.getInt(1);
                    else say("not rising");
                }
                say(query(c, "SELECT count(DISTINCT id) FROM jg"));
            }
            attempt(() -> {
                try (PreparedStatement p = c.prepareStatement("INSERT INTO jg (id, v) VALUES (?, ?) ON CONFLICT (id) DO UPDATE SET v = excluded.v || 'again' RETURNING id, v, xmax <> 0")) {
                    p.setInt(1, 1);
                    p.setString(2, "w");
                    return rows(p.executeQuery());
                }
            });
        }
    }

    static void notifications() throws Exception {
        try (Connection a = open(); Connection b = open()) {
            run(a, "LISTEN jnews");
            run(b, "NOTIFY jnews, 'one'");
            b.setAutoCommit(false);
            run(b, "NOTIFY jnews, 'two'");
            query(b, "SELECT pg_notify('jnews', ?)", "three");
            run(b, "SAVEPOINT s");
            run(b, "NOTIFY jnews, 'never'");
            run(b, "ROLLBACK TO s");
            b.commit();
            run(b, "NOTIFY jnews, 'never'");
            b.rollback();
            PGConnection pa = a.unwrap(PGConnection.class), pb = b.unwrap(PGConnection.class);
            List<String> got = new ArrayList<>();
            for (long until = System.nanoTime() + 10_000_000_000L; got.size() < 3 && System.nanoTime() < until; ) {
                PGNotification[] more = pa.getNotifications(100);
                if (more != null) for (PGNotification n : more) got.add(n.getName() + " " + n.getParameter() + " " + (n.getPID() == pb.getBackendPID()));
            }
            say(got);
            a.setAutoCommit(false);
            run(a, "NOTIFY jnews, 'mine'");
            a.commit();
            PGNotification[] own = pa.getNotifications(5000);
            say(own == null ? "none" : own.length + own[0].getParameter());
            run(a, "UNLISTEN *");
            a.commit();
            run(b, "NOTIFY jnews, 'late'");
            b.commit();
            PGNotification[] late = pa.getNotifications(200);
            say(late == null ? 0 : late.length);
        }
    }

    static void targets() throws Exception {
        for (String type : new String[] {"any", "primary", "master", "secondary", "slave", "preferSecondary", "preferPrimary"})
            try (Connection c = DriverManager.getConnection(url("127.0.0.1:1," + AT, "targetServerType=" + type, "hostRecheckSeconds=0"))) {
                say(type + " " + query(c, "SELECT pg_is_in_recovery()") + query(c, "SHOW transaction_read_only") + query(c, "SHOW in_hot_standby"));
            } catch (SQLException e) {
                say(type + " " + e.getSQLState() + " " + e.getMessage().replaceAll("\\d{4,5}", "PORT"));
            }
        for (String more : new String[] {"ApplicationName=jsteps", "assumeMinServerVersion=12", "currentSchema=pg_catalog,public", "options=-c%20work_mem=5MB%20-c%20search_path=public", "tcpKeepAlive=true",
            "sslmode=prefer", "sslmode=allow", "sslmode=require", "sslmode=prefer&sslNegotiation=direct", "sslmode=require&sslNegotiation=direct", "gssEncMode=prefer", "gssEncMode=require", "channelBinding=prefer", "channelBinding=require",
            "protocolVersion=3", "protocolVersion=3.2", "stringtype=unspecified", "loginTimeout=5", "connectTimeout=3", "replication=database", "database=none_such", "user=none_such", "options=-c%20none_such=1", "options=-c%20work_mem=much"}) {
            Properties p = new Properties();
            String base = "jdbc:postgresql://" + AT + "/" + (more.startsWith("database=") ? "none_such" : DATABASE) + "?" + more
                + (more.startsWith("user=") ? "" : "&user=" + System.getenv("PGUSER")) + (more.contains("sslmode") ? "" : "&sslmode=disable");
            try (Connection c = DriverManager.getConnection(base, p)) {
                say(more + " " + query(c, "SELECT current_setting('application_name'), current_setting('work_mem'), current_setting('search_path')") + c.unwrap(PGConnection.class).getParameterStatus("application_name"));
            } catch (SQLException e) {
                say(more + " " + e.getSQLState() + " " + e.getMessage().replaceAll("\\d{4,5}", "PORT"));
            }
        }
        try (Connection c = open()) {
            TreeMap<String, String> status = new TreeMap<>(c.unwrap(PGConnection.class).getParameterStatuses());
            say(status);
            attempt(() -> run(c, "SET application_name = 'renamed'"));
            say(c.unwrap(PGConnection.class).getParameterStatus("application_name"));
            c.setSchema("pg_catalog");
            say(c.getSchema() + " " + c.getCatalog());
            attempt(() -> { c.setClientInfo("ApplicationName", "client info"); return c.getClientInfo(); });
            attempt(() -> run(c, "SET client_encoding = 'LATIN1'"));
        }
    }

    static void metadata() throws Exception {
        try (Connection c = open()) {
            run(c, "DROP SCHEMA IF EXISTS jmeta CASCADE");
            run(c, "CREATE SCHEMA jmeta");
            run(c, "CREATE TABLE jmeta.parent (a int, b text, s serial, i int GENERATED ALWAYS AS IDENTITY, e int GENERATED ALWAYS AS (a + 1) STORED, PRIMARY KEY (a, b))");
            run(c, "CREATE TABLE jmeta.child (id bigint PRIMARY KEY, a int, b text DEFAULT 'x', CONSTRAINT fk FOREIGN KEY (a, b) REFERENCES jmeta.parent ON DELETE CASCADE DEFERRABLE)");
            run(c, "CREATE INDEX child_i ON jmeta.child (b DESC, lower(b)) WHERE id > 3");
            run(c, "CREATE VIEW jmeta.v AS SELECT * FROM jmeta.child");
            run(c, "CREATE MATERIALIZED VIEW jmeta.mv AS SELECT 1 AS x");
            run(c, "CREATE TYPE jmeta.ct AS (x int, y text)");
            run(c, "CREATE DOMAIN jmeta.dom AS int CHECK (VALUE > 0)");
            run(c, "CREATE FUNCTION jmeta.f(a int, OUT b text) LANGUAGE sql AS 'SELECT ''x'''");
            run(c, "CREATE PROCEDURE jmeta.p(a int) LANGUAGE sql AS 'SELECT 1'");
            run(c, "CREATE SEQUENCE jmeta.q INCREMENT 5");
            run(c, "COMMENT ON TABLE jmeta.child IS 'a comment'");
            DatabaseMetaData d = c.getMetaData();
            say(d.getTables(null, "jmeta", "%", null));
            say(d.getColumns(null, "jmeta", "%", "%"));
            say(d.getPrimaryKeys(null, "jmeta", "parent"));
            say(d.getImportedKeys(null, "jmeta", "child"));
            say(d.getExportedKeys(null, "jmeta", "parent"));
            say(d.getCrossReference(null, "jmeta", "parent", null, "jmeta", "child"));
            say(d.getIndexInfo(null, "jmeta", "child", false, false));
            say(d.getBestRowIdentifier(null, "jmeta", "parent", DatabaseMetaData.bestRowSession, true));
            say(d.getVersionColumns(null, "jmeta", "parent"));
            say(d.getTablePrivileges(null, "jmeta", "%"));
            say(d.getColumnPrivileges(null, "jmeta", "child", "%"));
            say(d.getFunctions(null, "jmeta", "%").next());
            say(d.getFunctionColumns(null, "jmeta", "%", "%").next());
            say(d.getProcedures(null, "jmeta", "%").next());
            say(d.getProcedureColumns(null, "jmeta", "%", "%").next());
            say(d.getUDTs(null, "jmeta", "%", null));
            say(d.getSchemas());
            say(d.getCatalogs());
            say(d.getTableTypes());
            say(column(d.getTypeInfo(), "TYPE_NAME").stream().filter(t -> !t.startsWith("_")).sorted().toList());
            say(d.getClientInfoProperties());
            say(new TreeSet<>(column(d.getTables(null, null, "%", new String[] {"TABLE"}), "TABLE_SCHEM")));
            for (Method m : Arrays.stream(DatabaseMetaData.class.getMethods()).sorted(Comparator.comparing(Method::getName)).toList())
                if (m.getParameterCount() == 0 && (m.getReturnType() == String.class || m.getReturnType() == int.class || m.getReturnType() == boolean.class) && !m.getName().equals("getURL")) {
                    try {
                        say(m.getName() + " " + m.invoke(d));
                    } catch (java.lang.reflect.InvocationTargetException e) {
                        say(m.getName() + " " + e.getCause());
                    }
                }
            run(c, "DROP SCHEMA jmeta CASCADE");
        }
    }

    static void sizes() throws Exception {
        try (Connection c = open()) {
            run(c, "DROP TABLE IF EXISTS jz");
            run(c, "CREATE TABLE jz (id int PRIMARY KEY, t text, b bytea)");
            byte[] b = new byte[3_000_000];
            new Random(1).nextBytes(b);
            String t = "äbc".repeat(400_000);
            try (PreparedStatement p = c.prepareStatement("INSERT INTO jz VALUES (?, ?, ?)")) {
                for (int i = 0; i < 3; i++) {
                    p.setInt(1, i);
                    p.setCharacterStream(2, new StringReader(t), t.length());
                    p.setBinaryStream(3, new ByteArrayInputStream(b), b.length);
                    say(p.executeUpdate());
                }
            }
            say(query(c, "SELECT md5(string_agg(t, '' ORDER BY id)), md5(string_agg(b, '' ORDER BY id)), sum(length(b)) FROM jz"));
            try (PreparedStatement p = c.prepareStatement("SELECT b FROM jz WHERE id = ?")) {
                for (int i = 0; i < 7; i++) {
                    p.setInt(1, i % 3);
                    ResultSet r = p.executeQuery();
                    r.next();
                    if (!Arrays.equals(r.getBytes(1), b)) say("other bytes");
                }
            }
            StringBuilder in = new StringBuilder("SELECT count(*) FROM jz WHERE id IN (0");
            for (int i = 0; i < 30000; i++) in.append(", ?");
            attempt(() -> {
                try (PreparedStatement p = c.prepareStatement(in + ")")) {
                    for (int i = 1; i <= 30000; i++) p.setInt(i, i);
                    return p.executeQuery();
                }
            });
            say(query(c, "SELECT count(*) FROM generate_series(1, ?)", 200000));
            try (Statement s = c.createStatement()) {
                ResultSet r = s.executeQuery("SELECT g, g::text FROM generate_series(1, 200000) g");
                long sum = 0;
                while (r.next()) sum += r.getLong(1) + r.getString(2).length();
                say(sum);
            }
        }
    }

    static void xa() throws Exception {
        PGXADataSource source = new PGXADataSource();
        source.setUrl(url(AT));
        javax.sql.XAConnection x = source.getXAConnection();
        try (Connection c = x.getConnection(); Connection other = open()) {
            fresh(other, "jxa");
            javax.transaction.xa.XAResource r = x.getXAResource();
            for (int k = 0; k < 3; k++) {
                int key = k;
                javax.transaction.xa.Xid id = new javax.transaction.xa.Xid() {
                    public int getFormatId() { return 7; }
                    public byte[] getGlobalTransactionId() { return new byte[] {1, 2, (byte) key}; }
                    public byte[] getBranchQualifier() { return new byte[] {3}; }
                };
                r.start(id, javax.transaction.xa.XAResource.TMNOFLAGS);
                run(c, "INSERT INTO jxa (id) VALUES (" + k + ")");
                r.end(id, javax.transaction.xa.XAResource.TMSUCCESS);
                try {
                    if (k == 0) r.commit(id, true);
                    if (k == 1) r.rollback(id);
                    if (k == 2) say(r.prepare(id));
                    say("done");
                } catch (javax.transaction.xa.XAException e) {
                    say("XA " + e.errorCode);
                }
            }
            attempt(() -> query(other, "SELECT array_agg(id ORDER BY id) FROM jxa"));
        }
        x.close();
    }

    static void sessions() throws Exception {
        try (Connection c = open(); Connection d = open()) {
            attempt(() -> { run(c, "DO $$ BEGIN RAISE NOTICE 'here %', 1; RAISE WARNING 'there'; END $$"); return "done"; });
            try (Statement s = c.createStatement()) {
                s.execute("DO $$ BEGIN RAISE NOTICE 'here'; RAISE WARNING 'there' USING HINT = 'h', DETAIL = 'd'; END $$");
                for (SQLWarning w = s.getWarnings(); w != null; w = w.getNextWarning()) say(told(w));
            }
            run(c, "CREATE TEMP TABLE jtemp (a int)");
            run(c, "INSERT INTO jtemp VALUES (1)");
            run(c, "SET work_mem = '7MB'");
            run(c, "PREPARE jprep (int) AS SELECT $1 * 2");
            attempt(() -> query(c, "EXECUTE jprep(21)"));
            attempt(() -> query(c, "SELECT name, statement, parameter_types FROM pg_prepared_statements WHERE from_sql"));
            run(c, "DISCARD ALL");
            attempt(() -> query(c, "SELECT * FROM jtemp"));
            attempt(() -> query(c, "SHOW work_mem"));
            attempt(() -> query(c, "EXECUTE jprep(21)"));
            say(c.isValid(2));
            fresh(c, "jk");
            c.setAutoCommit(false);
            d.setAutoCommit(false);
            run(c, "INSERT INTO jk (id) VALUES (1)");
            attempt(() -> query(d, "SELECT count(*) FROM jk"));
            attempt(() -> run(d, "SET LOCAL lock_timeout = 200"));
            attempt(() -> run(d, "INSERT INTO jk (id) VALUES (1)"));
            d.rollback();
            c.commit();
            attempt(() -> run(d, "INSERT INTO jk (id) VALUES (1)"));
            attempt(() -> query(d, "SELECT count(*) FROM jk"));
            d.rollback();
            run(c, "SELECT pg_advisory_xact_lock(4711)".replace("SELECT", "DO $$ BEGIN PERFORM") + "; END $$");
            attempt(() -> query(d, "SELECT pg_try_advisory_lock(4711)"));
            c.commit();
            attempt(() -> query(d, "SELECT pg_try_advisory_lock(4711), pg_advisory_unlock(4711), pg_advisory_unlock(4711)"));
            d.commit();
            run(c, "LOCK TABLE jk IN ACCESS EXCLUSIVE MODE");
            attempt(() -> run(d, "LOCK TABLE jk IN ACCESS SHARE MODE NOWAIT"));
            d.rollback();
            c.rollback();
            query(c, "SELECT id FROM jk FOR UPDATE");
            attempt(() -> query(d, "SELECT id FROM jk FOR UPDATE NOWAIT"));
            attempt(() -> query(d, "SELECT 1"));
            d.rollback();
            attempt(() -> query(d, "SELECT id FROM jk FOR UPDATE SKIP LOCKED"));
            d.rollback();
            c.rollback();
            int pid = c.unwrap(PGConnection.class).getBackendPID();
            attempt(() -> query(d, "SELECT pid = ?, application_name, state FROM pg_stat_activity WHERE pid = ?", pid, pid));
            attempt(() -> query(d, "SELECT pg_terminate_backend(?)", pid));
            d.commit();
            Thread.sleep(500);
            attempt(() -> query(c, "SELECT 1"));
            say(c.isValid(1));
            say(c.isClosed());
        }
        try (Connection c = open()) {
            c.setAutoCommit(false);
            run(c, "SET idle_in_transaction_session_timeout = 200");
            c.commit();
            query(c, "SELECT 1");
            Thread.sleep(800);
            attempt(() -> query(c, "SELECT 1"));
        }
        Connection e = open();
        e.abort(Runnable::run);
        say(e.isClosed());
    }

    static void threads() throws Exception {
        try (Connection c = open()) {
            fresh(c, "jh");
            run(c, "INSERT INTO jh (id, n) VALUES (1, 0)");
            ExecutorService pool = Executors.newFixedThreadPool(8);
            List<Future<Integer>> all = new ArrayList<>();
            for (int k = 0; k < 8; k++)
                all.add(pool.submit(() -> {
                    int n = 0;
                    try (Connection o = open()) {
                        try (PreparedStatement p = o.prepareStatement("UPDATE jh SET n = n + 1 WHERE id = ?")) {
                            for (int i = 0; i < 40; i++) {
                                p.setInt(1, 1);
                                n += p.executeUpdate();
                            }
                        }
                    }
                    return n;
                }));
            int sum = 0;
            for (Future<Integer> f : all) sum += f.get();
            pool.shutdown();
            say(sum + " " + query(c, "SELECT n FROM jh"));
        }
    }

    static void errors() throws Exception {
        try (Connection c = open()) {
            run(c, "DROP TABLE IF EXISTS je2; DROP TABLE IF EXISTS je");
            run(c, "CREATE TABLE je (id int PRIMARY KEY, n int NOT NULL CHECK (n > 0), u text UNIQUE, EXCLUDE USING hash (n WITH =))");
            run(c, "CREATE TABLE je2 (id int REFERENCES je DEFERRABLE INITIALLY DEFERRED)");
            run(c, "INSERT INTO je VALUES (1, 1, 'a')");
            for (String sql : new String[] {"INSERT INTO je VALUES (1, 2, 'b')", "INSERT INTO je VALUES (2, NULL, 'b')", "INSERT INTO je VALUES (2, -1, 'b')", "INSERT INTO je VALUES (2, 2, 'a')", "INSERT INTO je VALUES (2, 1, 'b')",
                "INSERT INTO je2 VALUES (9)", "SELEC 1", "SELECT nope FROM je", "SELECT * FROM nope", "SELECT 1/0", "SELECT 'x'::int", "INSERT INTO je VALUES (2, 99999999999, 'b')", "UPDATE je SET id = id + ", "DROP TABLE je", "CREATE TABLE je (a int)",
                "SELECT nofunc(1)", "COMMIT", "ROLLBACK", "SAVEPOINT x", "RELEASE x", "SET TRANSACTION ISOLATION LEVEL SERIALIZABLE", "FETCH 1 FROM nope", "EXECUTE nope", "SET nope.nope = 1", "SET nope = 1", "VACUUM je", "BEGIN; VACUUM je", "LISTEN", "NOTIFY x, ''"})
                attempt(() -> {
                    try (Statement s = c.createStatement()) {
                        return s.execute(sql) ? rows(s.getResultSet()) : s.getUpdateCount();
                    }
                });
            c.setAutoCommit(false);
            attempt(() -> run(c, "INSERT INTO je2 VALUES (9)"));
            attempt(() -> { c.commit(); return "committed"; });
            attempt(() -> run(c, "INSERT INTO je2 VALUES (9)"));
            attempt(() -> run(c, "SET CONSTRAINTS ALL IMMEDIATE"));
            attempt(() -> query(c, "SELECT 1"));
            c.rollback();
            attempt(() -> query(c, "SELECT count(*) FROM je2"));
        }
    }

    static void largeObjects() throws Exception {
        try (Connection c = open()) {
            c.setAutoCommit(false);
            attempt(() -> {
                org.postgresql.largeobject.LargeObjectManager m = c.unwrap(PGConnection.class).getLargeObjectAPI();
                long id = m.createLO();
                m.unlink(id);
                return "made";
            });
            c.rollback();
            attempt(() -> query(c, "SELECT 1"));
        }
    }

    public static void main(String[] args) throws Exception {
        Locale.setDefault(Locale.ROOT);
        TimeZone.setDefault(TimeZone.getTimeZone("UTC"));
        DriverManager.setLoginTimeout(20);
        LinkedHashMap<String, Step> steps = new LinkedHashMap<>();
        steps.put("server prepare", PgjdbcSteps::serverPrepare);
        steps.put("types", PgjdbcSteps::types);
        steps.put("batches", PgjdbcSteps::batches);
        steps.put("portals", PgjdbcSteps::portals);
        steps.put("copies", PgjdbcSteps::copies);
        steps.put("cancelling", PgjdbcSteps::cancelling);
        steps.put("savepoints", PgjdbcSteps::savepoints);
        steps.put("several results", PgjdbcSteps::severalResults);
        steps.put("callables", PgjdbcSteps::callables);
        steps.put("function calls", PgjdbcSteps::functionCalls);
        steps.put("isolation levels", PgjdbcSteps::isolationLevels);
        steps.put("generated keys", PgjdbcSteps::generatedKeys);
        steps.put("notifications", PgjdbcSteps::notifications);
        steps.put("targets", PgjdbcSteps::targets);
        steps.put("metadata", PgjdbcSteps::metadata);
        steps.put("sizes", PgjdbcSteps::sizes);
        steps.put("xa", PgjdbcSteps::xa);
        steps.put("sessions", PgjdbcSteps::sessions);
        steps.put("threads", PgjdbcSteps::threads);
        steps.put("errors", PgjdbcSteps::errors);
        steps.put("large objects", PgjdbcSteps::largeObjects);
        for (Map.Entry<String, Step> s : steps.entrySet()) {
            if (args.length > 0 && !Arrays.asList(args).contains(s.getKey().replace(' ', '_'))) continue;
            step = s.getKey();
            line = 0;
            try {
                s.getValue().run();
            } catch (Throwable e) { // what a step raises is its result
                say("raised " + (e instanceof SQLException ? told((SQLException) e) : e.toString()));
            }
        }
        System.exit(0);
    }
}
