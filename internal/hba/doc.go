// Package hba reads rules about clients in the form of PostgreSQL's pg_hba.conf, and finds the rule that decides on a
// client.
//
// Neighbours: config loads the rules, node asks them about each client and honours the method of the rule that is
// found. PostgreSQL's src/backend/libpq/hba.c is the model: the same file gives the same rule for the same client there
// and here.
//
// Invariants:
//
//	A1  The first rule that matches decides. A client without a rule is refused.
//	A2  A file is taken as a whole or not at all: one line that cannot be read, or cannot be honoured, refuses the
//	    file.
//	A3  Names are compared as PostgreSQL compares them: cut to 63 bytes, byte by byte, keywords only without quotes.
//	A4  A question that cannot be answered (who is a member of a role) refuses the client.
//
// What it does not do: authenticate anybody; lines of type "local", which can match no client of Tutti, are read and
// passed over.
package hba
