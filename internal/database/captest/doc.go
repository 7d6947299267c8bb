// Package captest holds the tests of capture, apply and catalog against real PostgreSQL: what a
// transaction did in one database is captured, encoded, decoded, planned and executed in
// another, and the two must be equal. It has no code of its own outside tests.
package captest
