package replay

import (
	"errors"
	"reflect"
	"testing"

	"github.com/tuttidb/tutti/internal/semantics"
	"github.com/tuttidb/tutti/internal/session"
	"github.com/tuttidb/tutti/internal/writeset"
)

func TestDefinitionsAreReadAsWritten(t *testing.T) {
	settings := []session.Setting{{Name: "role", Value: "r"}, {Name: "search_path", Value: ""}}
	for _, d := range []session.Definition{
		{SQL: "CREATE TABLE t()", Settings: settings},
		{SQL: "CREATE INDEX CONCURRENTLY i ON t(a)", Settings: settings,
			Index: session.Index{Schema: "s", Table: "t", Name: "i"}},
		{SQL: "ALTER TABLE p DETACH PARTITION c CONCURRENTLY", Settings: settings,
			Detach: session.Detach{Parent: [2]string{"s", "p"}, Partition: [2]string{"r", "c"}, Ends: true}},
		{SQL: "DROP DATABASE d", Settings: settings,
			Cluster: semantics.Cluster{
				Database: semantics.Database{Does: semantics.DropsDatabase, Name: "d", IfExists: true}}},
		{SQL: "CALL tutti.add_member('d', 'h:1')", Settings: settings,
			Cluster: semantics.Cluster{
				Membership: semantics.Membership{Does: semantics.AddsMember, Name: "d", Address: "h:1"}},
			Began: []session.FirstMember{{Number: 1, Name: "a", Address: "h:2", Clients: "h:3"},
				{Number: 200, Name: "b"}}},
		{SQL: "CALL tutti.rank_member('d', -3)", Settings: settings, Cluster: semantics.Cluster{
			Membership: semantics.Membership{Does: semantics.RanksMember, Name: "d", Rank: -3}},
			Began: []session.FirstMember{{Number: 1, Name: "a"}}},
		{SQL: "CALL tutti.site_member('d', 'x')", Settings: settings, Cluster: semantics.Cluster{
			Membership: semantics.Membership{Does: semantics.SitesMember, Name: "d", Site: "x"}}},
		{SQL: "CALL tutti.finish_upgrade()", Settings: settings,
			Cluster: semantics.Cluster{Record: semantics.Record{Does: semantics.FinishesUpgrade, Level: 5, MinCopies: 2,
				ExpelAfter: "10s"}}},
	} {
		b := EncodeDefinition(d)
		if got, meeting, err := DecodeDefinition(b); err != nil || meeting != 0 || !reflect.DeepEqual(got, d) {
			t.Errorf("%+v is read as %+v, %d, %v", d, got, meeting, err)
		}
		for i := range b {
			if _, _, err := DecodeDefinition(b[:i]); err == nil {
				t.Errorf("%d of %d bytes of %+v are read without an error", i, len(b), d)
			}
		}
	}
	if _, meeting, err := DecodeDefinition(EncodeMeeting(7)); err != nil || meeting != 7 {
		t.Errorf("a meeting is read as %d, %v", meeting, err)
	}
}

// TestNewerDefinitions: what a newer release may have written is told from what is damaged.
func TestNewerDefinitions(t *testing.T) {
	members := EncodeDefinition(session.Definition{Cluster: semantics.Cluster{
		Membership: semantics.Membership{Does: 99, Name: "d"}}})
	record := EncodeDefinition(session.Definition{Cluster: semantics.Cluster{Record: semantics.Record{Does: 99}}})
	database := EncodeDefinition(session.Definition{Cluster: semantics.Cluster{
		Database: semantics.Database{Does: 99, Name: "d"}}})
	for what, b := range map[string][]byte{ // order-free: each for itself
		"a version": {99}, "of members": members, "of the record": record, "of a database": database,
	} {
		if _, _, err := DecodeDefinition(b); !errors.Is(err, writeset.ErrUnknown) {
			t.Errorf("%s: %v", what, err)
		}
	}
}
