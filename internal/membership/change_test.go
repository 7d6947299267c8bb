package membership

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/tuttidb/tutti/internal/config"
	"github.com/tuttidb/tutti/internal/pgtest"
	"github.com/tuttidb/tutti/internal/semantics"
	"github.com/tuttidb/tutti/internal/session"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

func adds(name, address string) semantics.Membership {
	return semantics.Membership{Does: semantics.AddsMember, Name: name, Address: address}
}

func removes(name string) semantics.Membership {
	return semantics.Membership{Does: semantics.RemovesMember, Name: name}
}

func moves(name, address string) semantics.Membership {
	return semantics.Membership{Does: semantics.MovesMember, Name: name, Address: address}
}

var first = []config.Member{{Member: 2, Name: "b", Address: "b:1"},
	{Member: 1, Name: "a", Address: "a:1", Clients: "a:2"}}

func began() (list []session.FirstMember) {
	for _, m := range first {
		list = append(list, session.FirstMember{Number: m.Member, Name: m.Name, Address: m.Address, Clients: m.Clients})
	}
	return list
}

// shown is a list as text: numbers, names and addresses of the members, who was added, who is gone, with whom it began.
func shown(r *config.Roster) string {
	var b strings.Builder
	for _, list := range [][]config.Member{r.Members, r.Gone} {
		for _, m := range list {
			fmt.Fprintf(&b, "%d=%s@%s ", m.Member, m.Name, m.Address)
		}
		b.WriteString("| ")
	}
	fmt.Fprint(&b, r.Later, r.First, r.Ordinal)
	return b.String()
}

// TestNext: one change after the other, of a cluster that has four numbers for members: none is used again.
func TestNext(t *testing.T) {
	list := beginning(began())
	for i, x := range []struct {
		m       semantics.Membership
		want    string // the list
		refused string // or why not
	}{
		{adds("c", "c:1"), "1=a@a:1 2=b@b:1 3=c@c:1 | | [3] [1 2] 1", ""},
		{adds("c", "d:1"), "", `member "c" already exists`},
		{removes("d"), "", `member "d" does not exist`},
		{removes("b"), "1=a@a:1 3=c@c:1 | 2=b@b:1 | [3] [1 2] 4", ""},
		{removes("b"), "", `member "b" does not exist`},
		{adds("d", "c:1"), "", `address "c:1" is that of member "c"`},
		{adds("d", "nowhere"), "", `address "nowhere" is not host:port`},
		{adds("", "d:1"), "", "a member needs a name"},
		{moves("c", "c:9"), "1=a@a:1 3=c@c:9 | 2=b@b:1 | [3] [1 2] 9", ""},
		{moves("c", "a:1"), "", `address "a:1" is that of member "a"`},
		{adds("b", "b:1"), "1=a@a:1 3=c@c:9 4=b@b:1 | 2=b@b:1 | [3 4] [1 2] 11", ""}, // not the number that it had
		{adds("d", "d:1"), "", "all 4 numbers of members have been used"},
		{removes("a"), "3=c@c:9 4=b@b:1 | 1=a@a:1 2=b@b:1 | [3 4] [1 2] 13", ""},
		{removes("c"), "4=b@b:1 | 1=a@a:1 2=b@b:1 3=c@c:9 | [4] [1 2] 14", ""},
		{removes("b"), "", `member "b" is the last one`},
		{does(semantics.DemotesMember, "b"), "", `member "b" is the last one`},
	} {
		c := change{Membership: x.m, ordinal: uint64(i + 1), step: 4, super: true}
		next, refused := c.next(list)
		if refused != nil {
			if x.refused == "" || !strings.Contains(refused.Message, x.refused) {
				t.Errorf("%d %+v: refused, %q", i, x.m, refused.Message)
			}
			continue
		}
		if got := shown(roster(next)); x.refused != "" || got != x.want {
			t.Errorf("%d %+v: %s, want %s%s", i, x.m, got, x.want, x.refused)
		}
		list = next
	}
	if _, refused := (&change{Membership: adds("x", "x:1"), step: 9}).next(list); refused == nil ||
		refused.Code != "42501" {
		t.Errorf("who is no superuser adds a member: %v", refused)
	}
}

func does(d semantics.MemberChange, name string) semantics.Membership {
	return semantics.Membership{Does: d, Name: name}
}

// TestRoles: witnesses are members without a database, learners have one; whoever else votes, one with a database must
// (MB5). Rank and site are kept whatever the role.
func TestRoles(t *testing.T) {
	list := beginning(began())
	for i, x := range []struct {
		m       semantics.Membership
		want    string // name, role, rank and site of each, members before witnesses
		refused string // or why not
	}{
		{semantics.Membership{Does: semantics.AddsWitness, Name: "w", Address: "w:1"}, "a///0 b///0 w/witness//0", ""},
		{semantics.Membership{Does: semantics.AddsWitness, Name: "b", Address: "x:1"}, "", `"b" already exists`},
		{semantics.Membership{Does: semantics.AddsWitness, Name: "x"}, "", `address "" is not host:port`},
		{does(semantics.DemotesMember, "w"), "", `member "w" is a witness`},
		{does(semantics.PromotesMember, "w"), "", `member "w" is a witness`},
		{does(semantics.DemotesMember, "x"), "", `member "x" does not exist`},
		{does(semantics.DemotesMember, "a"), "a/learner//0 b///0 w/witness//0", ""},
		{does(semantics.DemotesMember, "a"), "a/learner//0 b///0 w/witness//0", ""}, // it is one already
		{does(semantics.DemotesMember, "b"), "", `member "b" is the last one that votes`},
		{removes("b"), "", `member "b" is the last one that votes`},
		{semantics.Membership{Does: semantics.RanksMember, Name: "a", Rank: -3},
			"a/learner//-3 b///0 w/witness//0", ""},
		{semantics.Membership{Does: semantics.SitesMember, Name: "w", Site: "x"},
			"a/learner//-3 b///0 w/witness/x/0", ""},
		{moves("w", "w:2"), "a/learner//-3 b///0 w/witness/x/0", ""},
		{does(semantics.PromotesMember, "a"), "a///-3 b///0 w/witness/x/0", ""},
		{removes("b"), "a///-3 w/witness/x/0", ""},
		{removes("w"), "a///-3", ""},
	} {
		c := change{Membership: x.m, ordinal: uint64(i + 1), step: 4, super: true}
		next, refused := c.next(list)
		if refused != nil {
			if x.refused == "" || !strings.Contains(refused.Message, x.refused) {
				t.Errorf("%d %+v: refused, %q", i, x.m, refused.Message)
			}
			continue
		}
		var got []string
		r := roster(next)
		for _, m := range slices.Concat(r.Members, r.Witnesses) {
			got = append(got, fmt.Sprintf("%s/%s/%s/%d", m.Name, m.Role, m.Site, m.Rank))
		}
		if is := strings.Join(got, " "); x.refused != "" || is != x.want || r.Ordinal != uint64(i+1) {
			t.Errorf("%d %+v: %s, want %s%s", i, x.m, is, x.want, x.refused)
		}
		list = next
	}
}

const memberTable = `CREATE TABLE tutti.member (number int4 PRIMARY KEY, name text, address text, clients text,
	first bool, since int8, changed int8, removed bool, role text, rank int4, site text)`

// TestCarry: the table has what is decided, with the progress; what is refused changes nothing but the progress.
func TestCarry(t *testing.T) {
	ctx, server := context.Background(), pgtest.Shared(t)
	name := server.NewDatabase(t)
	if r, err := Read(ctx, server.ConnString(name)); r != nil || err != nil {
		t.Fatalf("before there is a table: %v, %v", r, err)
	}
	server.Exec(t, name, "CREATE SCHEMA tutti", memberTable)
	conn, progress := server.Connect(t, name), uint64(0)
	note := func(_ context.Context, last uint64) error {
		progress = last
		return nil
	}
	c := &config.Config{SequenceStep: 16}
	o := Options{Config: c, Conn: conn, NoteProgress: note,
		Note: func(ctx context.Context, last uint64, sql string, args ...any) error {
			if _, err := conn.Exec(ctx, sql, args...); err != nil {
				return err
			}
			return note(ctx, last)
		}}
	carry := func(ordinal uint64, m semantics.Membership) (*config.Roster, session.Result) {
		t.Helper()
		r, result, err := Carry(ctx, o, ordinal, ordinal, session.Definition{
			Cluster: semantics.Cluster{Membership: m}, Began: began(),
			Settings: []session.Setting{{Name: session.RoleSetting, Value: "postgres"}}})
		if err != nil || progress != ordinal {
			t.Fatalf("%+v: %v, progress %d", m, err, progress)
		}
		return r, result
	}
	if r, err := Read(ctx, server.ConnString(name)); r != nil || err != nil {
		t.Errorf("of an empty table: %v, %v", r, err)
	}
	if r, result := carry(5, removes("x")); r != nil || result.Err == nil || result.Err.Code != "42704" {
		t.Errorf("an unknown member is removed: %v, %+v", r, result)
	}
	const want = "1=a@a:1 3=c@c:1 | 2=b@b:1 | [3] [1 2] 8"
	carry(6, adds("c", "c:1"))
	carry(7, semantics.Membership{Does: semantics.RanksMember, Name: "c", Rank: -2})
	r, _ := carry(8, removes("b"))
	read, err := Read(ctx, server.ConnString(name))
	if err != nil || shown(r) != want || shown(read) != want || read.Members[1].Rank != -2 {
		t.Errorf("%s, and %s is read, %v; want %s", shown(r), shown(read), err, want)
	}
}
