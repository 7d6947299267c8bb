package check

import "testing"

func r(key, version uint64) Access { return Access{Key: key, Version: version} }
func w(key, version uint64) Access { return Access{Key: key, Version: version, Write: true} }
func makes(key, version uint64) Access {
	return Access{Key: key, Version: version, Write: true, Makes: true}
}

func TestWhiteBox(t *testing.T) {
	tx := func(session int, level Level, snap, seq uint64, as ...Access) Transaction {
		return Transaction{Session: session, Level: level, Outcome: OK, Snap: snap, Seq: seq, Accesses: as}
	}
	failed := func(x Transaction) Transaction { x.Outcome = Fail; return x }
	unknown := func(x Transaction) Transaction { x.Outcome = Unknown; return x }
	for _, c := range []struct {
		name, want string
		h          []Transaction
	}{
		{"nothing wrong", "", []Transaction{
			tx(1, Snapshot, 0, 1, r(1, 9), w(1, 1)),
			tx(2, Snapshot, 1, 2, r(1, 1), w(1, 2), r(1, 2)),
			tx(3, Snapshot, 1, 0, r(1, 1)),
			tx(4, ReadCommitted, 0, 3, r(1, 2), w(2, 3)),
		}},
		{"reads beside the snapshot", "snapshot", []Transaction{
			tx(1, Snapshot, 0, 1, w(1, 1)), tx(2, Snapshot, 1, 0, r(1, 9))}},
		{"reads ahead of the snapshot", "snapshot", []Transaction{
			tx(1, Snapshot, 0, 1, w(1, 1)), tx(2, Snapshot, 0, 0, r(1, 1))}},
		{"lost update", "lost update", []Transaction{
			tx(1, Snapshot, 0, 1, w(1, 1)), tx(2, Snapshot, 0, 2, w(1, 2))}},
		{"made after it had gone", "", []Transaction{
			tx(1, Snapshot, 0, 1, w(1, 0)), tx(2, Snapshot, 0, 2, makes(1, 2), w(1, 3))}},
		{"made over another", "lost update", []Transaction{
			tx(1, Snapshot, 0, 1, w(1, 1)), tx(2, Snapshot, 0, 2, makes(1, 2))}},
		{"serializable reads just before its ordinal", "snapshot", []Transaction{
			tx(1, Snapshot, 0, 1, w(1, 1)), tx(2, Serializable, 0, 2, r(1, 9), w(2, 2))}},
		{"READ COMMITTED may write later", "", []Transaction{
			tx(1, Snapshot, 0, 1, w(1, 1)), tx(2, ReadCommitted, 0, 2, w(1, 2))}},
		{"dirty read", "G1a", []Transaction{
			failed(tx(1, Snapshot, 0, 0, w(1, 1))), tx(2, ReadCommitted, 0, 0, r(1, 1))}},
		{"own write unseen", "internal", []Transaction{tx(1, ReadCommitted, 0, 1, w(1, 1), r(1, 9))}},
		{"lost commit", "lost commit", []Transaction{tx(1, ReadCommitted, 0, 0, w(1, 1))}},
		{"unknown may be lost", "", []Transaction{unknown(tx(1, ReadCommitted, 0, 0, w(1, 1)))}},
		{"failed but there", "failed commit", []Transaction{failed(tx(1, ReadCommitted, 0, 1, w(1, 1)))}},
		{"same ordinal", "ordinal", []Transaction{
			tx(1, ReadCommitted, 0, 1, w(1, 1)), tx(2, ReadCommitted, 0, 1, w(2, 2))}},
		{"snapshot after itself", "future", []Transaction{tx(1, Snapshot, 2, 1, w(1, 1))}},
		{"session goes back", "session", []Transaction{
			tx(1, Snapshot, 0, 1, w(1, 1)), tx(1, Snapshot, 0, 0, r(1, 9))}},
	} {
		t.Run(c.name, func(t *testing.T) {
			expect(t, WhiteBox(c.h, WhiteBoxOptions{Initial: map[uint64]uint64{1: 9}}), c.want)
		})
	}
}

func TestWhiteBoxStrong(t *testing.T) {
	h := []Transaction{
		{Session: 1, Level: Snapshot, Outcome: OK, Seq: 1, Accesses: []Access{w(1, 1)}, Start: 0, End: 1},
		{Session: 2, Level: Snapshot, Outcome: OK, Snap: 0, Accesses: []Access{r(1, 0)}, Start: 2, End: 3},
	}
	expect(t, WhiteBox(h, WhiteBoxOptions{Strong: true}), "stale")
	h[1].Start = 1
	expect(t, WhiteBox(h, WhiteBoxOptions{Strong: true}), "")
}
