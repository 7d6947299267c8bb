package capture

// A definition that fills rows of its own at each member must fill them alike. What its text shows is refused by
// semantics; what it runs of users' code is looked up in the catalogs when it has run. Where it is ordered by itself
// this is so at every member, and all refuse it; of others, their own member does before they are ordered.

// driftFunction: functions that are marked IMMUTABLE or STABLE are believed.
func driftFunction() string {
	return install("drift.sql", words{
		"session": SessionSetting,
		"applies": SessionApplies,
		"ddl":     DDLSetting,
		"on":      DDLOn,
	})
}

// viewsFunctions: rows of a table that a function makes are captured when it has ended. So a materialized view that it
// fills meanwhile is filled at the other members from the rows that there are then, which must be those that there
// were. PostgreSQL's counts tell.
func viewsFunctions() string {
	return install("views.sql", words{"locked": lockedRelations, "trigger": TriggerName})
}
