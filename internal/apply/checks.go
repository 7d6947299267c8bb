package apply

// A CHECK constraint may call code that does something else later, or at another member: now(), or a
// function that reads other tables. A row that its origin has committed is in the database
// whatever the constraint says of it here.

// WithoutChecks makes the operations one after another such that the CHECK constraints of their
// tables are passed over. They are to be executed in one transaction, as a superuser. The lock
// keeps off whoever adds or removes a constraint meanwhile, but no reader or writer.
func WithoutChecks(ops []Operation) []Operation {
	var before, after []Operation
	seen := map[string]bool{}
	for _, o := range ops {
		if o.Relation == "" || seen[o.Relation] {
			continue
		}
		seen[o.Relation] = true
		this := " WHERE c.oid OPERATOR(pg_catalog.=) '" + escape(o.Relation) + "'::pg_catalog.regclass::pg_catalog.oid"
		before = append(before,
			Operation{Table: o.Table, SQL: "LOCK TABLE ONLY " + o.Relation + " IN SHARE UPDATE EXCLUSIVE MODE",
				Rows: AnyRows},
			Operation{Table: o.Table, SQL: "UPDATE pg_catalog.pg_class AS c SET relchecks = 0" + this, Rows: 1})
		after = append(after, Operation{Table: o.Table,
			SQL: "UPDATE pg_catalog.pg_class AS c SET relchecks = (SELECT pg_catalog.count(*) FROM " +
				"pg_catalog.pg_constraint AS k" +
				" WHERE k.conrelid OPERATOR(pg_catalog.=) c.oid AND k.contype OPERATOR(pg_catalog.=) 'c')" + this,
			Rows: 1})
	}
	return append(append(before, ops...), after...)
}
