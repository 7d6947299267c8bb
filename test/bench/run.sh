#!/usr/bin/env bash
# A first figure for speed: pgbench against one durable PostgreSQL and against three Tutti
# nodes on this machine, in alternating rounds, as ratios. Needs pgbench and a PostgreSQL of
# this machine. ROUNDS, SECONDS_EACH, CLIENTS and SCALE change the defaults.
set -euo pipefail
cd "$(dirname "$0")/../.."
rounds=${ROUNDS:-3} seconds=${SECONDS_EACH:-8} clients=${CLIENTS:-"1 8 24"} scale=${SCALE:-10}
bin=$(ls -d /usr/lib/postgresql/*/bin 2>/dev/null | sort -V | tail -1 || true)
[ -n "$bin" ] && command -v pgbench >/dev/null || { echo "bench: install postgresql (server and pgbench) first" >&2; exit 1; }
work=$(mktemp -d /tmp/tutti-bench.XXXXXX)
chmod 755 "$work"
as_postgres() { if [ "$(id -u)" = 0 ]; then runuser -u postgres -- "$@"; else "$@"; fi; }
demo=
stop() {
  [ -z "$demo" ] || { kill -TERM "$demo" 2>/dev/null || true; wait "$demo" 2>/dev/null || true; }
  [ ! -f "$work/one/postmaster.pid" ] || as_postgres "$bin/pg_ctl" -D "$work/one" -m fast stop >/dev/null || true
  rm -rf "$work"
}
trap stop EXIT
port=$((20000 + RANDOM % 20000))

mkdir "$work/sock" "$work/one" "$work/demo"
[ "$(id -u)" != 0 ] || chown postgres "$work/sock" "$work/one"
as_postgres "$bin/initdb" -D "$work/one" -U postgres -A trust --data-checksums >/dev/null
as_postgres "$bin/pg_ctl" -D "$work/one" -w -l "$work/sock/log" \
  -o "-c listen_addresses=127.0.0.1 -p $((port + 9)) -c unix_socket_directories=$work/sock -c shared_buffers=128MB -c max_connections=200" start >/dev/null
./bin/tutti demo --dir "$work/demo" --base-port "$port" >"$work/demo.out" 2>&1 &
demo=$!
for _ in $(seq 300); do grep -q Ctrl-C "$work/demo.out" && break; sleep 0.2; done

export PGUSER=postgres PGDATABASE=postgres PGHOST=127.0.0.1
pgbench -p $((port + 9)) -i -q -s "$scale" 2>/dev/null
pgbench -p "$port" -i -q -s "$scale" 2>/dev/null
for k in 0 1 2; do # until every node has all of it
  until [ "$(psql -XAt -p $((port + k)) -c 'select count(*) from pgbench_branches')" = "$scale" ]; do sleep 0.2; done
done

tps() { awk '/^tps/ {s += $3} END {print s}' "$@"; }
one() { pgbench -n -p $((port + 9)) -M prepared -T "$seconds" -c "$1" -j 1 "$2" >"$work/o.out" 2>/dev/null; tps "$work/o.out"; }
three() { # clients spread over the nodes; a single client talks to the first
  local pids=() k n
  for k in 0 1 2; do
    n=$(($1 / 3)); [ "$1" -ge 3 ] || n=$((k == 0 ? $1 : 0)); [ "$1" -lt 3 ] || [ "$k" -ge $(($1 % 3)) ] || n=$((n + 1))
    : >"$work/t$k.out"
    [ "$n" = 0 ] || { pgbench -n -p $((port + k)) -M prepared -T "$seconds" -c "$n" -j 1 --max-tries=1000 "$2" >"$work/t$k.out" 2>/dev/null & pids+=($!); }
  done
  wait "${pids[@]}"
  tps "$work"/t?.out
}
printf '%-6s %-8s %-7s %12s %12s %7s\n' load clients round "one tps" "three tps" ratio
for load in -N -S; do
  for c in $clients; do
    for r in $(seq "$rounds"); do
      a=$(one "$c" "$load"); b=$(three "$c" "$load")
      printf '%-6s %-8s %-7s %12.0f %12.0f %7.2f\n' "$load" "$c" "$r" "$a" "$b" "$(awk "BEGIN {print $b / $a}")"
    done
  done
done
