package capture

import (
	"fmt"
	"strings"
)

// PostgreSQL's advisory lock functions are given other names, and functions of the old ones take their
// place: they take the lock here, as PostgreSQL's do, and then ask the session to have it confirmed by the
// cluster, or tell it what was given back. So it does not matter where in a statement they are called.
//
// A function asks with an INFO, which leaves at once and cannot be filtered. The answer comes as advisory
// locks in a reserved range that the node takes for a moment: nothing else can be seen by a running statement
// whatever its snapshot is.

const (
	// LockState is the SQLSTATE of the INFO with which a function asks.
	LockState = "TT003"
	// SessionSetting is 'on' in a session of Tutti's: somebody hears what is asked there. It is SessionApplies where
	// what others have done is carried out: they have had the locks. It is SessionDefines where a definition runs in
	// its place in the order, which would stand still if it had to wait for one.
	SessionSetting = "tutti.session"
	SessionApplies = "applies"
	SessionDefines = "defines"

	lockTag = 0x5475 // the first 16 bits of reserved keys
	// nothing in PostgreSQL has process ids of more bits; the number of a request fills the rest.
	lockPIDShift, lockNumberShift, lockNumberMax = 26, 2, 1 << 24

	// lockAskerShift: what asks is named by its process, which may be a parallel worker of the session's, and its
	// number.
	lockAskerShift = 24
)

// An answer to a request. All but Granted stand for themselves as bits.
const (
	LockGranted     = 0
	LockBusy        = 1
	LockDeadlock    = 2
	LockUnavailable = 3
)

// lockKey is the first of four reserved keys: answered, the two bits of the answer, and one that is held while
// the function shall wait.
func lockKey(pid, number uint32) int64 {
	return lockTag<<48 | int64(pid)<<lockPIDShift | int64(number)<<lockNumberShift
}

// LockAnswerSQL answers a request of the function that runs in the process pid.
func LockAnswerSQL(pid, number uint32, answer int) string {
	k := lockKey(pid, number)
	sql := "SELECT "
	for bit := int64(0); bit < 2; bit++ {
		if answer>>bit&1 == 1 {
			sql += fmt.Sprintf("tutti.native_lock(%d::pg_catalog.int8), ", k+1+bit)
		}
	}
	return sql + fmt.Sprintf("tutti.native_lock(%d::pg_catalog.int8);", k)
}

// LockWaitSQL makes the function wait until LockGoSQL. It gives false and does nothing if the function is about to
// look.
func LockWaitSQL(pid, number uint32) string {
	return fmt.Sprintf("SELECT tutti.native_try(%d::pg_catalog.int8);", lockKey(pid, number)+3)
}

// LockGoSQL ends that wait.
func LockGoSQL(pid, number uint32) string {
	return fmt.Sprintf("SELECT tutti.native_unlock(%d::pg_catalog.int8);", lockKey(pid, number)+3)
}

// LockForgetSQL takes back an answer that was read, or never will be.
func LockForgetSQL(pid, number uint32, answer int) string {
	return strings.ReplaceAll(LockAnswerSQL(pid, number, answer), "native_lock", "native_unlock")
}

// LockAsker splits the name of what asks; the process is zero in what is only told.
func LockAsker(name uint64) (pid, number uint32) {
	return uint32(name >> lockAskerShift), uint32(name & (1<<lockAskerShift - 1))
}

// WorkerSQL gives a row if a process is a parallel worker of a backend's.
func WorkerSQL(worker, pid uint32) string {
	return fmt.Sprintf("SELECT 1 FROM pg_catalog.pg_stat_get_activity(%d) a WHERE a.leader_pid "+
		"OPERATOR(pg_catalog.=) %d", worker, pid)
}

// HeldLocksSQL lists the advisory locks that a backend and its parallel workers hold: classid, objid, objsubid, mode.
// Whose worker a holder is, is looked up after the locks were read: one that has ended meanwhile holds nothing any
// more.
func HeldLocksSQL(pid uint32) string {
	return fmt.Sprintf(`SELECT l.classid, l.objid, l.objsubid, l.mode FROM pg_catalog.pg_locks l WHERE
  l.locktype OPERATOR(pg_catalog.=) 'advisory' AND l.granted AND NOT (l.objsubid OPERATOR(pg_catalog.=) 1::pg_catalog.int2 AND l.classid::pg_catalog.int8 OPERATOR(pg_catalog.>>) 16 OPERATOR(pg_catalog.=) %[2]d::pg_catalog.int8)
  AND (l.pid OPERATOR(pg_catalog.=) %[1]d OR EXISTS (SELECT FROM pg_catalog.pg_stat_get_activity(l.pid) a WHERE a.leader_pid OPERATOR(pg_catalog.=) %[1]d))`, pid, lockTag)
}

// BlockedSQL lists who waits at this server for whom: the waiting backend, or that of which the waiting process is a
// parallel worker; since when; and the backend it waits for. A wait that has just begun may be missing.
const BlockedSQL = `SELECT coalesce(a.leader_pid, l.pid), l.pid, l.waitstart, b
  FROM pg_catalog.pg_locks l, pg_catalog.pg_stat_get_activity(l.pid) a, pg_catalog.unnest(pg_catalog.pg_blocking_pids(l.pid)) b WHERE NOT l.granted AND l.waitstart IS NOT NULL`

// lockForm is one of the two forms of keys.
type lockForm struct {
	number         int
	types, args    string // of the function, and as they are passed on
	class, object  string
	internalSuffix string
}

var lockForms = []lockForm{
	{1, "pg_catalog.int8", "$1", "($1 >> 32) & 4294967295", "$1 & 4294967295", "int8"},
	{2, "pg_catalog.int4, pg_catalog.int4", "$1, $2", "$1::int8 & 4294967295", "$2::int8 & 4294967295", "int4"},
}

// nativeLocks are PostgreSQL's own under names of ours, by their names' parts in its source.
var nativeLocks = [][3]string{
	{"lock", "pg_advisory_lock", "void"}, {"lock_shared", "pg_advisory_lock_shared", "void"},
	{"try", "pg_try_advisory_lock", "bool"}, {"try_shared", "pg_try_advisory_lock_shared", "bool"},
	{"unlock", "pg_advisory_unlock", "bool"}, {"unlock_shared", "pg_advisory_unlock_shared", "bool"},
	{"xact_lock", "pg_advisory_xact_lock", "void"}, {"xact_lock_shared", "pg_advisory_xact_lock_shared", "void"},
}

// lockFunction is a function that takes the place of one of PostgreSQL's.
func lockFunction(name, types, returns, body string) string {
	return expand("lock_function.sql", words{
		"name":    name,
		"types":   types,
		"returns": returns,
		"body":    body,
	})
}

func lockSchema() string {
	var b strings.Builder
	b.WriteString(install("rename_locks.sql", nil))
	for _, f := range lockForms {
		for _, n := range nativeLocks {
			b.WriteString(expand("native_lock.sql", words{
				"name":    n[0],
				"types":   f.types,
				"returns": n[2],
				"native":  n[1] + "_" + f.internalSuffix,
			}))
		}
	}
	b.WriteString(install("ask.sql", words{
		"number_max":      lockNumberMax,
		"tag":             lockTag,
		"pid_shift":       lockPIDShift,
		"number_shift":    lockNumberShift,
		"lock_state":      LockState,
		"asker_shift":     lockAskerShift,
		"session_setting": SessionSetting,
		"defines":         SessionDefines,
		"applies":         SessionApplies,
	}))
	for _, f := range lockForms {
		for mode, suffix := range []string{"_shared", ""} {
			lock := fmt.Sprintf("%d, %d, %s, %s", 1+mode, f.number, f.class, f.object)
			for _, x := range [][3]string{
				{"pg_advisory_lock", "void", takeBody}, {"pg_advisory_xact_lock", "void", takeXactBody},
				{"pg_try_advisory_lock", "bool", tryBody}, {"pg_try_advisory_xact_lock", "bool", tryXactBody},
				{"pg_advisory_unlock", "bool", unlockBody},
			} {
				body := strings.NewReplacer("@args", f.args, "@suffix", suffix, "@lock", lock).Replace(x[2])
				check := elsewhereBody
				if x[1] == "bool" {
					check = elsewhereTrueBody
				}
				if f.number == 1 {
					check += "  PERFORM tutti.unreserved($1);\n"
				}
				b.WriteString(lockFunction(x[0]+suffix, f.types, x[1], check+body))
			}
		}
	}
	b.WriteString(lockFunction("pg_advisory_unlock_all", "", "void", elsewhereBody+unlockAllBody))
	return b.String()
}

// sql/rename_locks.sql gives PostgreSQL's own functions, known by the OIDs below those of users, other names.

// sql/ask.sql: tutti.ask says what it wants, with a number that no other request of this backend has soon
// before or after, and waits for the answer: shortly by looking again, for long by a lock that the node holds.

// sql/lock_function.sql: PARALLEL UNSAFE, because parallel plans have no subtransactions. A function of a user's that
// is wrongly marked otherwise may still be called by a parallel worker.

const (
	elsewhereBody     = "  IF tutti.elsewhere() THEN RETURN; END IF;\n"
	elsewhereTrueBody = "  IF tutti.elsewhere() THEN RETURN true; END IF;\n"

	// What was taken for the session is given back if it is not confirmed; what was taken for the
	// transaction goes with the (sub)transaction that fails.
	//
	// In a parallel worker both go with the worker, which ends with the first error. So what it has already was
	// confirmed.
	takeBody = `  IF tutti.worker() THEN
    c := tutti.confirmed(@lock);
    PERFORM tutti.native_lock@suffix(@args);
    IF c IS NOT TRUE THEN
      PERFORM tutti.ask('take', @lock);
    END IF;
  ELSIF tutti.replicated() THEN
    BEGIN
      r := tutti.native_lock@suffix(@args) IS NOT NULL;
      PERFORM tutti.ask('take', @lock);
    EXCEPTION WHEN query_canceled OR assert_failure OR OTHERS THEN
      IF r THEN
        PERFORM tutti.native_unlock@suffix(@args);
      END IF;
      RAISE;
    END;
    RAISE INFO USING ERRCODE = '` + LockState + `', MESSAGE = concat_ws(' ', 'took', 0, @lock);
  ELSE
    PERFORM tutti.native_lock@suffix(@args);
  END IF;
`
	takeXactBody = `  c := tutti.worker() AND tutti.confirmed(@lock);
  PERFORM tutti.native_xact_lock@suffix(@args);
  IF c IS NOT TRUE AND tutti.replicated() THEN
    PERFORM tutti.ask('xtake', @lock);
  END IF;
`
	tryBody = `  IF tutti.worker() THEN
    c := tutti.confirmed(@lock);
    r := tutti.native_try@suffix(@args);
    IF r AND c IS NOT TRUE THEN
      r := tutti.ask('try', @lock);
      IF NOT r THEN
        PERFORM tutti.native_unlock@suffix(@args);
      END IF;
    END IF;
  ELSIF tutti.replicated() THEN
    BEGIN
      r := tutti.native_try@suffix(@args);
      c := r AND tutti.ask('try', @lock);
    EXCEPTION WHEN query_canceled OR assert_failure OR OTHERS THEN
      IF r THEN
        PERFORM tutti.native_unlock@suffix(@args);
      END IF;
      RAISE;
    END;
    IF c THEN
      RAISE INFO USING ERRCODE = '` + LockState + `', MESSAGE = concat_ws(' ', 'took', 0, @lock);
    ELSIF r THEN
      PERFORM tutti.native_unlock@suffix(@args);
    END IF;
    r := c;
  ELSE
    r := tutti.native_try@suffix(@args);
  END IF;
  RETURN r;
`
	// Nothing but the end of the transaction gives back what was taken for it; so it is taken for the
	// session until it is confirmed.
	tryXactBody = `  IF tutti.worker() THEN
    c := tutti.confirmed(@lock);
    r := tutti.native_try@suffix(@args);
    IF r THEN
      r := c OR tutti.ask('xtry', @lock);
      IF r THEN
        PERFORM tutti.native_xact_lock@suffix(@args);
      END IF;
      PERFORM tutti.native_unlock@suffix(@args);
    END IF;
    RETURN r;
  END IF;
  BEGIN
    r := tutti.native_try@suffix(@args);
    c := r AND (NOT tutti.replicated() OR tutti.ask('xtry', @lock));
    IF c THEN
      PERFORM tutti.native_xact_lock@suffix(@args);
    END IF;
  EXCEPTION WHEN query_canceled OR assert_failure OR OTHERS THEN
    IF r THEN
      PERFORM tutti.native_unlock@suffix(@args);
    END IF;
    RAISE;
  END;
  IF r THEN
    PERFORM tutti.native_unlock@suffix(@args);
  END IF;
  RETURN c;
`
	unlockBody = `  r := tutti.native_unlock@suffix(@args);
  IF r AND tutti.replicated() THEN
    PERFORM tutti.ask('gave', @lock);
  END IF;
  RETURN r;
`
	unlockAllBody = `  PERFORM tutti.native_unlock_all();
  IF tutti.replicated() THEN
    PERFORM tutti.ask('gaveall', 0, 0, 0::int8, 0::int8);
  END IF;
`
)
