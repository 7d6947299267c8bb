package cluster

import (
	"fmt"
	"strings"
	"testing"
)

// leavings are statements, by paragraphs, of which each leaves nothing but the table leftover.
const leavings = `
CREATE TABLE left_gone(k int PRIMARY KEY)
DROP TABLE left_gone

CREATE SCHEMA left_gone
CREATE TABLE left_gone.a(k int PRIMARY KEY)
CREATE TABLE left_gone.b(k int PRIMARY KEY)
DROP SCHEMA left_gone CASCADE

CREATE TABLE left_gone(k int PRIMARY KEY)
BEGIN
DROP TABLE left_gone
CREATE TABLE left_gone(v int PRIMARY KEY, k int)
INSERT INTO left_gone VALUES (1, 2)
COMMIT
INSERT INTO left_gone VALUES (2, 3)
DROP TABLE left_gone

CREATE TABLE left_gone(k int PRIMARY KEY)
CREATE TABLE left_other(k int PRIMARY KEY, v int)
BEGIN
ALTER TABLE left_gone RENAME TO left_third
ALTER TABLE left_other RENAME TO left_gone
ALTER TABLE left_third RENAME TO left_other
COMMIT
INSERT INTO left_gone VALUES (1, 2)
INSERT INTO left_other VALUES (1)
DROP TABLE left_gone, left_other

CREATE TABLE left_gone(k int PRIMARY KEY)
ALTER TABLE left_gone RENAME TO left_else
INSERT INTO left_else VALUES (1)
UPDATE left_else SET k = 2
DROP TABLE left_else

CREATE TABLE left_gone(k int PRIMARY KEY)
CREATE SCHEMA left_apart
ALTER TABLE left_gone SET SCHEMA left_apart
INSERT INTO left_apart.left_gone VALUES (1)
ALTER SCHEMA left_apart RENAME TO left_aside
INSERT INTO left_aside.left_gone VALUES (2)
DROP SCHEMA left_aside CASCADE

CREATE TABLE left_gone(k int PRIMARY KEY)
ALTER TABLE left_gone SET UNLOGGED
INSERT INTO left_gone VALUES (1)
DROP TABLE left_gone

CREATE TABLE left_gone(k int PRIMARY KEY)
ALTER TABLE left_gone SET SCHEMA pg_catalog
ALTER TABLE pg_catalog.left_gone RENAME TO left_else
INSERT INTO pg_catalog.left_else VALUES (1)
UPDATE pg_catalog.left_else SET k = 2
ALTER TABLE pg_catalog.left_else SET SCHEMA public
INSERT INTO public.left_else VALUES (3)
DROP TABLE public.left_else

CREATE TABLE left_gone(k int)
CREATE RULE "_RETURN" AS ON SELECT TO left_gone DO INSTEAD SELECT 1 AS k
DROP VIEW left_gone

CREATE TYPE left_kind AS (k int)
CREATE TABLE left_gone OF left_kind
DROP TYPE left_kind CASCADE

CREATE TABLE left_gone(k int) PARTITION BY LIST (k)
CREATE TABLE left_part PARTITION OF left_gone FOR VALUES IN (1)
ALTER TABLE left_gone DETACH PARTITION left_part
DROP TABLE left_gone
DROP TABLE left_part

CREATE FUNCTION left_now() RETURNS void LANGUAGE plpgsql AS 'BEGIN CREATE TABLE left_a(); DROP TABLE left_a; END'
SELECT left_now()
DROP FUNCTION left_now()

CREATE TABLE left_gone(k int PRIMARY KEY)
DO 'BEGIN DROP TABLE left_gone; END'

BEGIN
CREATE TABLE left_gone(k int PRIMARY KEY)
SAVEPOINT a
DROP TABLE left_gone
ROLLBACK TO a
INSERT INTO left_gone VALUES (1)
COMMIT
UPDATE left_gone SET k = 3
DROP TABLE left_gone

CREATE TABLE left_gone(k int PRIMARY KEY)
ALTER TABLE left_gone ADD w int UNIQUE
INSERT INTO left_gone VALUES (1, 3)
ALTER TABLE left_gone DROP CONSTRAINT left_gone_pkey
DROP TABLE left_gone

CREATE TABLE left_gone(k int PRIMARY KEY)
BEGIN
ALTER TABLE left_gone RENAME TO left_else
ALTER TABLE left_else SET UNLOGGED
COMMIT
INSERT INTO left_else VALUES (1)
DROP TABLE left_else

CREATE TABLE left_gone(k int PRIMARY KEY)
BEGIN
ALTER TABLE left_gone RENAME TO left_else
DROP TABLE left_else
CREATE TABLE left_gone(k int, v int)
COMMIT
INSERT INTO left_gone VALUES (1, 2)
DROP TABLE left_gone

CREATE TABLE left_gone(k int)
BEGIN
CREATE RULE "_RETURN" AS ON SELECT TO left_gone DO INSTEAD SELECT 1 AS k
DROP VIEW left_gone
COMMIT

CREATE SCHEMA left_apart
CREATE TABLE left_apart.a(k int PRIMARY KEY)
BEGIN
ALTER SCHEMA left_apart RENAME TO left_aside
CREATE TABLE left_other(k int)
INSERT INTO left_aside.a VALUES (1)
COMMIT
UPDATE left_aside.a SET k = 2
DROP SCHEMA left_aside CASCADE
DROP TABLE left_other

DO 'BEGIN PERFORM set_config(''tutti.gone'', ''[{"schema":"public","name":"leftover"}]'', false); END'
CREATE TABLE left_gone()
DO 'BEGIN PERFORM set_config(''tutti.gone'', ''[{"key":"0"}, {"oid":0}]'', false); END'
ALTER TABLE left_gone ADD k int
DO 'BEGIN PERFORM set_config(''tutti.gone'', ''[1, {'', false); END'
CREATE INDEX ON left_gone(k)
DO 'BEGIN PERFORM set_config(''tutti.gone'', '''', false); END'
DROP TABLE left_gone
`

// TestFunctionsGoWithTables: what captures the rows of a table goes with it at every member, however it goes, and stays
// with one that has another name. It is looked for by the names of what was dropped, not among everything.
func TestFunctionsGoWithTables(t *testing.T) {
	c := use(t)
	s := c.Connect(1)
	// those whose table has no trigger
	const functions = "SELECT count(*) FROM pg_proc p WHERE pronamespace = 'tutti'::regnamespace AND proname ~ " +
		"'^(capture|bulk|direct|final)_[0-9a-f]{16}' AND split_part(proname::text, '_', 2) NOT IN (SELECT " +
		"split_part(q.proname::text, '_', 2) FROM pg_proc q JOIN pg_trigger ON tgfoid = q.oid WHERE q.pronamespace = " +
		"'tutti'::regnamespace)"
	s.Do("CREATE TABLE leftover(k int)")
	for i, paragraph := range strings.Split(strings.TrimSpace(leavings), "\n\n") {
		for _, sql := range strings.Split(paragraph, "\n") {
			if err := s.Try(sql); err != nil {
				t.Fatalf("%s, of %q: %v", sql, paragraph, Explain(err))
			}
		}
		s.Do("INSERT INTO leftover VALUES (1)")
		c.Everywhere("SELECT count(*) FROM leftover", fmt.Sprint(i+1))
		t.Logf("after %q", paragraph)
		c.Everywhere(functions, "0")
	}
	c.Check()
	s.Do("DROP TABLE leftover")
}

// TestSchemaRenamedInBlock: what a definition of a block has changed is described at the other members whatever comes
// behind it in the block.
func TestSchemaRenamedInBlock(t *testing.T) {
	c := use(t)
	s := c.Connect(1)
	s.Do("CREATE SCHEMA block_was", "CREATE TABLE block_was.a(k int PRIMARY KEY)")
	s.Do("BEGIN", "ALTER SCHEMA block_was RENAME TO block_is", "CREATE TABLE block_is.b(k int)", "COMMIT")
	c.Everywhere("SELECT count(*) FROM block_is.b", "0")
	for _, k := range c.All() {
		c.Connect(k).Do(fmt.Sprintf("INSERT INTO block_is.a VALUES (%d)", k))
	}
	c.Everywhere("SELECT count(*) FROM block_is.a", fmt.Sprint(len(c.All())))
	c.Check()
	s.Do("DROP SCHEMA block_is CASCADE")
}
