// What node-postgres and its companions can do with a connection, a line for each step with its
// result. A line that is not the same through Tutti is a difference.

const { Client, Pool, types } = require('pg')
const Cursor = require('pg-cursor')
const QueryStream = require('pg-query-stream')
const copy = require('pg-copy-streams')
const { pipeline } = require('node:stream/promises')
const { Readable, Writable } = require('node:stream')

process.env.TZ = 'UTC'
let step
let line

function say(value) {
  const text = JSON.stringify(value, (_, v) => (typeof v === 'bigint' ? `${v}n` : v === undefined ? 'undefined' : v))
  console.log(`ok - ${step} ${line++}: ${text}`)
}

function told(e) {
  const { code, severity, message, detail, hint, position, table, column, constraint, routine, where } = e
  return { code, severity, message, detail, hint, position, table, column, constraint, routine, where }
}

async function attempt(work) {
  try {
    say(await work())
  } catch (e) {
    say(told(e))
  }
}

async function connected(work, more = {}) {
  const c = new Client(more)
  c.on('error', () => {})
  await c.connect()
  try {
    return await work(c)
  } finally {
    await c.end().catch(() => {})
  }
}

const rows = async (c, ...q) => (await c.query(...q)).rows
const wait = (ms) => new Promise((done) => setTimeout(done, ms))

async function fresh(c, name) {
  await c.query(`DROP TABLE IF EXISTS ${name}`)
  await c.query(`CREATE TABLE ${name} (id int PRIMARY KEY, v text, n numeric, u int UNIQUE)`)
}

const steps = {
  async simple_queries() {
    await connected(async (c) => {
      await fresh(c, 'np')
      const r = await c.query('INSERT INTO np (id, v) VALUES (1, \'a\'), (2, \'b\') RETURNING id, v')
      say([r.command, r.rowCount, r.rows, r.fields.map((f) => [f.name, f.dataTypeID, f.format])])
      say((await c.query('SELECT 1 AS a; SELECT 2 AS b, 3 AS b; UPDATE np SET v = v;;')).map((r) => [r.command, r.rowCount, r.rows]))
      await attempt(() => c.query('INSERT INTO np (id) VALUES (3); SELECT 1/0; INSERT INTO np (id) VALUES (4)'))
      await attempt(() => c.query('BEGIN; INSERT INTO np (id) VALUES (5); COMMIT; INSERT INTO np (id) VALUES (6); SELECT 1/0'))
      await attempt(() => c.query('CREATE TABLE np2 (a int); INSERT INTO np2 VALUES (1); SELECT * FROM np2; DROP TABLE np2').then((r) => r.map((x) => [x.command, x.rows])))
      await attempt(() => c.query(''))
      await attempt(() => c.query('-- nothing'))
      say(await rows(c, { text: 'SELECT array_agg(id ORDER BY id) FROM np', rowMode: 'array' }))
      for (const q of ['SHOW server_version_num', 'EXPLAIN (COSTS off) SELECT * FROM np', 'VALUES (1), (2)', 'TABLE np', 'SET work_mem = \'5MB\'', 'SHOW work_mem', 'RESET ALL', 'SHOW work_mem', 'DISCARD ALL', 'CHECKPOINT', 'ANALYZE np', 'VACUUM np'])
        await attempt(async () => { const r = await c.query(q); return [r.command, r.rowCount, r.rows] })
    })
  },

  async parameters() {
    await connected(async (c) => {
      const values = [1, 'ä\n\'', null, true, new Date(Date.UTC(2024, 1, 29, 12)), Buffer.from([0, 1, 255]), [1, null, 3], ['a,b', '"', null], { a: [1, null] }, 1.5, 2n ** 60n, '1 day']
      const text = 'SELECT $1::int AS a, $2::text AS b, $3::text AS c, $4::bool AS d, $5::timestamptz AS e, $6::bytea AS f, $7::int[] AS g, $8::text[] AS h, $9::jsonb AS i, $10::float8 AS j, $11::bigint AS k, $12::interval AS l'
      await attempt(() => rows(c, text, values))
      await attempt(() => rows(c, { text, values, binary: true }))
      await attempt(() => rows(c, 'SELECT $1::int', ['x']))
      await attempt(() => rows(c, 'SELECT $1', [1]))
      await attempt(() => rows(c, 'SELECT $1::int + $2::int', [1]))
      await attempt(() => rows(c, 'SELECT 1; SELECT $1', [1]))
      await attempt(() => rows(c, 'SELECT count(*) FROM unnest($1::int[])', [Array.from({ length: 50000 }, (_, k) => k)]))
      await attempt(() => rows(c, 'SELECT length($1), md5($1)', ['x'.repeat(5000000)]))
      await attempt(async () => (await rows(c, 'SELECT repeat($1, 3000000) AS r', ['y']))[0].r.length)
    })
  },

  async named_statements() {
    await connected(async (c) => {
      await fresh(c, 'np')
      for (let k = 0; k < 10; k++) await c.query({ name: 'put', text: 'INSERT INTO np (id, v) VALUES ($1, $2)', values: [k, `v${k}`] })
      await attempt(() => c.query({ name: 'put', text: 'INSERT INTO np (id, v) VALUES ($1, $2)', values: [3, 'x'] }))
      await attempt(() => c.query({ name: 'put', text: 'SELECT 1' }))
      for (let k = 0; k < 7; k++) await c.query({ name: 'get', text: 'SELECT * FROM np WHERE id = $1', values: [k] })
      await c.query('ALTER TABLE np ADD COLUMN w int DEFAULT 7')
      await attempt(() => rows(c, { name: 'get', text: 'SELECT * FROM np WHERE id = $1', values: [1] }))
      await c.query('BEGIN')
      await attempt(() => rows(c, { name: 'get', text: 'SELECT * FROM np WHERE id = $1', values: [1] }))
      await attempt(() => c.query('SELECT 1'))
      await c.query('ROLLBACK')
      await attempt(() => rows(c, 'SELECT name, statement, parameter_types FROM pg_prepared_statements WHERE name IN (\'get\', \'put\') ORDER BY name'))
      await c.query('DEALLOCATE ALL')
      await attempt(() => c.query({ name: 'put', text: 'INSERT INTO np (id, v) VALUES ($1, $2)', values: [30, 'x'] }))
      await attempt(() => c.query({ name: 'bad', text: 'SELECT * FROM none_such' }))
      await attempt(() => c.query({ name: 'bad', text: 'SELECT 2 AS x' }).then((r) => r.rows))
      await c.query('DROP TABLE np')
      await attempt(() => c.query({ name: 'get', text: 'SELECT * FROM np WHERE id = $1', values: [1] }))
    })
  },

  async queued_without_waiting() {
    await connected(async (c) => {
      await fresh(c, 'np')
      const all = await Promise.allSettled([
        c.query('INSERT INTO np (id) VALUES (1)'), c.query('INSERT INTO np (id) VALUES ($1)', [1]), c.query('INSERT INTO np (id) VALUES ($1)', [2]),
        c.query('BEGIN'), c.query('INSERT INTO np (id) VALUES (3)'), c.query('SELECT 1/0'), c.query('INSERT INTO np (id) VALUES (4)'), c.query('COMMIT'),
        c.query('SELECT array_agg(id ORDER BY id) FROM np'),
      ])
      say(all.map((r) => (r.status === 'fulfilled' ? [r.value.command, r.value.rows] : told(r.reason))))
    })
  },

  async cursors() {
    await connected(async (c) => {
      const cur = c.query(new Cursor('SELECT g FROM generate_series(1, $1) g', [25]))
      say((await cur.read(10)).length)
      say((await cur.read(10)).length)
      say(await cur.read(10))
      say(await cur.read(10))
      await cur.close()
      await fresh(c, 'np')
      await c.query('INSERT INTO np (id) SELECT generate_series(1, 100)')
      await c.query('BEGIN')
      const up = c.query(new Cursor('UPDATE np SET v = \'up\' WHERE id <= $1 RETURNING id', [50]))
      say((await up.read(5)).length)
      await up.close()
      await c.query('COMMIT')
      say(await rows(c, 'SELECT count(*) FROM np WHERE v = \'up\''))
      const outside = c.query(new Cursor('INSERT INTO np (id) SELECT g FROM generate_series(200, 210) g RETURNING id'))
      say((await outside.read(3)).length)
      await outside.close()
      say(await rows(c, 'SELECT count(*) FROM np'))
      const bad = c.query(new Cursor('SELECT 1 / (5 - g) FROM generate_series(1, 10) g'))
      await attempt(() => bad.read(3))
      await attempt(() => bad.read(3))
      await bad.close().catch(() => {})
      await attempt(() => rows(c, 'SELECT 1 AS a'))
      const early = c.query(new Cursor('SELECT g FROM generate_series(1, 1000000) g'))
      await early.read(1)
      await early.close()
      const wrong = c.query(new Cursor('SELECT * FROM none_such'))
      await attempt(() => wrong.read(1))
      await attempt(() => rows(c, 'SELECT 2 AS a'))
    })
  },

  async streams() {
    await connected(async (c) => {
      let n = 0
      let sum = 0
      for await (const row of c.query(new QueryStream('SELECT g FROM generate_series(1, $1) g', [3000], { batchSize: 7, highWaterMark: 10 }))) {
        n++
        sum += row.g
      }
      say([n, sum])
      n = 0
      for await (const row of c.query(new QueryStream('SELECT g FROM generate_series(1, 100000) g', [], { batchSize: 50 }))) {
        if (++n === 120) break
      }
      say(n)
      await attempt(async () => {
        for await (const row of c.query(new QueryStream('SELECT 1 / (500 - g) FROM generate_series(1, 1000) g', [], { batchSize: 100 }))) n++
      })
      say(n)
      await attempt(() => rows(c, 'SELECT 3 AS a'))
    })
  },

  async copies() {
    await connected(async (c) => {
      await fresh(c, 'nc')
      const lines = function * (from, to) { for (let k = from; k < to; k++) yield `${k}\tline ${k}\n` }
      const copyIn = async (sql, source) => {
        const s = c.query(copy.from(sql))
        await pipeline(source, s)
        return s.rowCount
      }
      await attempt(() => copyIn('COPY nc (id, v) FROM STDIN', Readable.from(lines(0, 20000))))
      await attempt(() => copyIn('COPY nc (id, v) FROM STDIN (FORMAT csv)', Readable.from(['20001,"a, b"\n20002,\n'])))
      await attempt(() => copyIn('COPY nc (id, v) FROM STDIN', Readable.from(lines(19999, 20003))))
      await attempt(() => copyIn('COPY nc (id, v) FROM STDIN', Readable.from(['no number\tx\n'])))
      await attempt(() => copyIn('COPY none_such FROM STDIN', Readable.from(['1\n'])))
      await attempt(() => copyIn('COPY nc (id, v) FROM STDIN', Readable.from((function * () { yield '30000\tx\n'; throw new Error('changed my mind') })())))
      await attempt(() => rows(c, 'SELECT count(*), sum(id), max(v) FROM nc'))
      await c.query('BEGIN')
      await attempt(() => copyIn('COPY nc (id, v) FROM STDIN', Readable.from(lines(40000, 40010))))
      await attempt(() => rows(c, 'SELECT count(*) FROM nc'))
      await c.query('ROLLBACK')
      const out = async (sql, limit = Infinity) => {
        let size = 0
        const head = []
        await pipeline(c.query(copy.to(sql)), new Writable({ write(chunk, _, next) { size += chunk.length; if (head.length < 3) head.push(chunk.toString().slice(0, 30)); next() } }))
        return [size, size < 100 ? head.join('') : head[0].slice(0, 10)]
      }
      await attempt(() => out('COPY (SELECT id, v FROM nc ORDER BY id LIMIT 3) TO STDOUT (FORMAT csv)'))
      await attempt(() => out('COPY (SELECT generate_series(1, 200000)) TO STDOUT'))
      await attempt(() => out('COPY (SELECT 1 / (50 - g) FROM generate_series(1, 60) g) TO STDOUT'))
      await attempt(() => out('COPY none_such TO STDOUT'))
      await attempt(() => rows(c, 'SELECT count(*) FROM nc'))
      await connected(async (d) => {
        await fresh(d, 'nc2')
        await pipeline(c.query(copy.to('COPY nc TO STDOUT')), d.query(copy.from('COPY nc2 FROM STDIN')))
        await attempt(() => rows(d, 'SELECT count(*), sum(id) FROM nc2'))
      })
      await connected(async (d) => {
        await pipeline(c.query(copy.to('COPY (SELECT id FROM nc ORDER BY id LIMIT 10) TO STDOUT (FORMAT binary)')), d.query(copy.from('COPY nc2 (id) FROM STDIN (FORMAT binary)'))).catch((e) => say(told(e)))
        await attempt(() => rows(d, 'SELECT count(*) FROM nc2'))
      })
    })
  },

  async pools() {
    const pool = new Pool({ max: 6, idleTimeoutMillis: 1000 })
    pool.on('error', () => {})
    await pool.query('DROP TABLE IF EXISTS nl')
    await pool.query('CREATE TABLE nl (id int PRIMARY KEY, n int)')
    await pool.query('INSERT INTO nl SELECT g, 0 FROM generate_series(1, 3) g')
    await Promise.all(Array.from({ length: 200 }, (_, k) => pool.query('UPDATE nl SET n = n + 1 WHERE id = $1', [1 + (k % 3)])))
    say((await pool.query('SELECT id, n FROM nl ORDER BY id')).rows)
    const transfer = async (k) => {
      const c = await pool.connect()
      try {
        await c.query('BEGIN')
        await c.query('SELECT n FROM nl WHERE id = 1 FOR UPDATE')
        await c.query('UPDATE nl SET n = n - 1 WHERE id = 1')
        await c.query('UPDATE nl SET n = n + 1 WHERE id = $1', [2 + (k % 2)])
        await c.query('COMMIT')
        return 1
      } catch (e) {
        await c.query('ROLLBACK')
        throw e
      } finally {
        c.release()
      }
    }
    const done = await Promise.allSettled(Array.from({ length: 40 }, (_, k) => transfer(k)))
    say(done.map((d) => (d.status === 'fulfilled' ? 1 : told(d.reason))).filter((d) => d !== 1))
    say((await pool.query('SELECT sum(n), min(n) < 60 FROM nl')).rows)
    const c = await pool.connect()
    const pid = (await rows(c, 'SELECT pg_backend_pid() AS pid'))[0].pid
    const broken = new Promise((done) => c.on('error', (e) => done(told(e))))
    say((await pool.query('SELECT pg_terminate_backend($1)', [pid])).rows)
    say(await broken)
    await attempt(() => c.query('SELECT 1'))
    c.release(true)
    say((await pool.query('SELECT count(*) FROM nl')).rows)
    await pool.end()
  },

  async transactions() {
    await connected(async (c) => {
      await fresh(c, 'nt')
      for (const level of ['READ UNCOMMITTED', 'READ COMMITTED', 'REPEATABLE READ', 'SERIALIZABLE', 'SERIALIZABLE READ ONLY', 'SERIALIZABLE READ ONLY DEFERRABLE', 'READ WRITE']) {
        await c.query(`BEGIN ${level.includes('READ WRITE') ? level : 'ISOLATION LEVEL ' + level}`)
        await attempt(() => rows(c, 'SELECT current_setting(\'transaction_isolation\') AS i, current_setting(\'transaction_read_only\') AS r'))
        await attempt(async () => (await c.query('INSERT INTO nt (id) SELECT count(*) FROM nt')).rowCount)
        await attempt(async () => (await c.query('COMMIT')).command)
      }
      await c.query('START TRANSACTION')
      await c.query('SAVEPOINT a')
      await attempt(() => c.query('INSERT INTO nt (id) VALUES (0)'))
      await attempt(() => c.query('SELECT 1'))
      await c.query('ROLLBACK TO SAVEPOINT a')
      await attempt(async () => (await c.query('INSERT INTO nt (id) VALUES (77)')).rowCount)
      await attempt(async () => (await c.query('RELEASE a')).command)
      await attempt(async () => (await c.query('COMMIT AND CHAIN')).command)
      await attempt(() => c.query('SELECT 1/0'))
      await attempt(async () => (await c.query('COMMIT')).command)
      await attempt(async () => (await c.query('COMMIT')).command)
      await attempt(async () => (await c.query('PREPARE TRANSACTION \'x\'')).command)
      say(await rows(c, 'SELECT array_agg(id ORDER BY id) FROM nt'))
    })
  },

  async notifications() {
    await connected((a) => connected(async (b) => {
      const got = []
      a.on('notification', (m) => got.push([m.channel, m.payload, m.processId === b.processID]))
      await a.query('LISTEN nnews')
      await b.query('NOTIFY nnews, \'one\'')
      await b.query('SELECT pg_notify($1, $2)', ['nnews', 'two'])
      await b.query('BEGIN; NOTIFY nnews, \'three\'; NOTIFY nnews, \'three\'; COMMIT')
      await b.query('BEGIN; NOTIFY nnews, \'never\'; ROLLBACK')
      await b.query('NOTIFY nnews')
      for (let k = 0; k < 100 && got.length < 4; k++) await wait(50)
      say(got)
      await a.query('UNLISTEN *')
      await b.query('NOTIFY nnews, \'late\'')
      await wait(200)
      say(got.length)
    }))
  },

  async notices() {
    await connected(async (c) => {
      const got = []
      c.on('notice', (n) => got.push([n.severity, n.code, n.message, n.where]))
      await c.query('DO $$ BEGIN RAISE NOTICE \'here %\', 1; RAISE WARNING \'there\'; END $$')
      await c.query('DROP TABLE IF EXISTS none_such')
      await c.query('COMMIT')
      await c.query('SET client_min_messages = error')
      await c.query('DROP TABLE IF EXISTS none_such')
      say(got)
    })
  },

  async cancelling() {
    await connected((c) => connected(async (holder) => {
      await fresh(c, 'nx')
      await c.query('INSERT INTO nx (id) VALUES (1)')
      await holder.query('BEGIN; UPDATE nx SET v = \'held\'')
      for (const q of ['SELECT pg_sleep(60)', 'UPDATE nx SET v = \'waits\'', 'SELECT * FROM nx FOR UPDATE', 'ALTER TABLE nx ADD COLUMN w int', 'LOCK TABLE nx'])
        for (const inside of [false, true]) {
          if (inside) await c.query('BEGIN')
          const began = Date.now()
          const running = attempt(() => c.query(q))
          await wait(300)
          await rows(holder, 'SELECT pg_cancel_backend($1)', [c.processID])
          await running
          say(Date.now() - began < 20000)
          if (inside) await attempt(async () => (await c.query('COMMIT')).command)
        }
      await holder.query('ROLLBACK')
      const active = new Cursor('SELECT pg_sleep(20)')
      c.query(active)
      const failed = attempt(() => active.read(1))
      await wait(200)
      const other = new Client()
      other.cancel(c, active)
      await Promise.race([failed, wait(5000)])
      await attempt(() => rows(c, 'SELECT id, v FROM nx'))
    }))
    await connected(async (c) => {
      await attempt(() => c.query('SELECT pg_sleep(5)'))
      await attempt(() => rows(c, 'SELECT 1 AS a'))
    }, { statement_timeout: 300 })
    await connected(async (c) => {
      await attempt(() => c.query('SELECT pg_sleep(2)'))
    }, { query_timeout: 300 })
    await connected(async (c) => {
      await c.query('BEGIN')
      await wait(900)
      await attempt(() => rows(c, 'SELECT 1 AS a'))
    }, { idle_in_transaction_session_timeout: 200 })
    await connected((c) => connected(async (d) => {
      await c.query('BEGIN; UPDATE nx SET v = \'a\'')
      await attempt(() => d.query('UPDATE nx SET v = \'b\''))
      await c.query('ROLLBACK')
    }, { lock_timeout: 200 }))
  },

  async deadlocks() {
    await connected((a) => connected(async (b) => {
      await fresh(a, 'nd')
      await a.query('INSERT INTO nd (id) VALUES (1), (2)')
      await a.query('BEGIN; SET LOCAL deadlock_timeout = 100; UPDATE nd SET v = \'a\' WHERE id = 1')
      await b.query('BEGIN; SET LOCAL deadlock_timeout = \'10s\'; UPDATE nd SET v = \'b\' WHERE id = 2')
      const second = b.query('UPDATE nd SET v = \'b\' WHERE id = 1').then((r) => r.rowCount, (e) => e.code)
      await wait(100)
      const first = a.query('UPDATE nd SET v = \'a\' WHERE id = 2').then((r) => r.rowCount, (e) => e.code)
      say([await first, await a.query('ROLLBACK').then((r) => r.command), await second, await b.query('COMMIT').then((r) => r.command)])
      say(await rows(a, 'SELECT id, v FROM nd ORDER BY id'))
    }))
  },

  async connections() {
    for (const more of [{ application_name: 'nsteps' }, { options: '-c work_mem=5MB' }, { options: '-c search_path=pg_catalog -c datestyle=german' }, { client_encoding: 'latin1' }, { ssl: { rejectUnauthorized: false } }, { ssl: { rejectUnauthorized: false }, sslnegotiation: 'direct' },
      { database: 'none_such' }, { user: 'none_such' }, { user: 'node_scram', password: 'right' }, { user: 'node_scram', password: 'wrong' }, { user: 'node_md5', password: 'right' }, { user: 'node_md5', password: 'wrong' }, { user: 'node_clear', password: 'right' }, { user: 'node_clear', password: 'wrong' },
      { options: '-c none_such=1' }, { options: '-c work_mem=much' }, { replication: 'database' }, { keepAlive: true, connectionTimeoutMillis: 3000 }])
      await attempt(async () => {
        const said = { ...more }
        return [said, await connected((c) => rows(c, 'SELECT current_setting(\'application_name\') AS a, current_setting(\'work_mem\') AS w, current_setting(\'search_path\') AS s, current_setting(\'datestyle\') AS d, current_setting(\'client_encoding\') AS e, current_user AS u'), more)]
      })
    await connected(async (c) => {
      say(await rows(c, 'SELECT length(\'äöü€\'), octet_length(\'äöü€\'), $1::text AS t', ['äöü€']))
      await attempt(() => c.query('SELECT \'\0\''))
      await attempt(() => c.query('SELECT $1::text', ['\0']))
    })
  },

  async definitions() {
    await connected(async (c) => {
      await c.query('DROP TABLE IF EXISTS ndef')
      for (const q of ['CREATE TABLE ndef (id serial PRIMARY KEY, v text)', 'INSERT INTO ndef (v) VALUES (\'a\'), (\'b\')', 'ALTER TABLE ndef ADD COLUMN made timestamptz NOT NULL DEFAULT now()', 'ALTER TABLE ndef ADD COLUMN more int NOT NULL DEFAULT 7', 'CREATE UNIQUE INDEX CONCURRENTLY ndef_v ON ndef (v)',
        'ALTER TABLE ndef RENAME v TO w', 'COMMENT ON TABLE ndef IS \'x\'', 'CREATE VIEW ndefv AS SELECT * FROM ndef', 'DROP TABLE ndef', 'DROP TABLE ndef CASCADE', 'CREATE TEMP TABLE ntemp (a int) ON COMMIT DROP', 'SELECT * FROM ntemp'])
        await attempt(async () => { const r = await c.query(q); return [r.command, r.rowCount, r.rows] })
      await c.query('BEGIN')
      await c.query('CREATE TABLE ndef (id int PRIMARY KEY)')
      await c.query('INSERT INTO ndef VALUES ($1)', [1])
      await c.query('ALTER TABLE ndef ADD COLUMN v text')
      await c.query('UPDATE ndef SET v = $1', ['x'])
      await c.query('ROLLBACK')
      await attempt(() => c.query('SELECT * FROM ndef'))
    })
  },
}

async function main() {
  types.setTypeParser(1700, (v) => v)
  const only = process.argv.slice(2)
  for (const [name, f] of Object.entries(steps)) {
    if (only.length && !only.includes(name)) continue
    step = name
    line = 0
    try {
      await f()
    } catch (e) { // what a step raises is its result
      say({ raised: told(e) })
    }
  }
  process.exit(0)
}

main()
