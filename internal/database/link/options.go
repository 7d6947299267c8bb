package link

import "strings"

// OwnOptions goes on with a connection string for sessions of Tutti's own. ALTER DATABASE and ALTER ROLE … SET are for
// clients: they must not end these sessions, or keep a member from starting. What says what a session executes is in
// apply.SessionSettings. major is the version of PostgreSQL.
func OwnOptions(major int) string {
	if major >= 17 {
		return strings.TrimSuffix(ownOptions, "'") + " -c transaction_timeout=0'"
	}
	return ownOptions
}

const ownOptions = ` options='-c session_preload_libraries= -c local_preload_libraries= -c role=none -c ` +
	`statement_timeout=0 -c lock_timeout=0` +
	` -c idle_session_timeout=0 -c idle_in_transaction_session_timeout=0 -c default_transaction_read_only=off` +
	` -c temp_file_limit=-1` +
	` -c default_transaction_isolation=read\\ committed -c default_transaction_deferrable=off -c ` +
	`standard_conforming_strings=on` +
	` -c transform_null_equals=off -c array_nulls=on -c quote_all_identifiers=off'`
