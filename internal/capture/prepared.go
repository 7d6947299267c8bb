package capture

// A function could remove one of the session's own prepared statements, prepare another under its name, and so decide
// what is collected. Their names end with a secret of the node's. What tells names, pg_prepared_statement(), is given
// another name, as are functions that write large objects (decision 0032), and a function of the old one that leaves
// them out takes its place, also in the view.
