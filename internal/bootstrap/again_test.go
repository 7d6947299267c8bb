package bootstrap

import (
	"reflect"
	"strings"
	"testing"
)

func answer(m uint32, known, copied uint64, terms map[uint64]uint64) *Answer {
	return &Answer{Member: m, Known: known, Copied: copied, Terms: terms}
}

// TestBeginAgain: a majority of all must have answered, without the one that asks, and each database must be readmitted
// for by somebody (B6).
func TestBeginAgain(t *testing.T) {
	main := map[uint64]uint64{0: 9}
	levels := func(a *Answer, of map[uint32]uint32) *Answer { a.Levels = of; return a }
	for _, c := range []struct {
		what    string
		members int
		answers []*Answer
		want    *Again
		why     string
	}{
		{"nobody", 3, nil, nil, "2 of the 2 other members must answer, and 0 do ()"},
		{"one of two", 3, []*Answer{answer(2, 4, 0, main)}, nil, "and 1 do (node2)"},
		{"two of four", 5, []*Answer{answer(2, 4, 0, main), answer(3, 4, 0, main)}, nil,
			"3 of the 4 other members must answer, and 2 do (node2, node3)"},
		{"the only other one of two, which votes alone", 2, []*Answer{answer(2, 4, 0, main)},
			&Again{main, 4 + incarnationsAhead, 0, nil}, ""},
		{"the only other one of two, which cannot", 2, []*Answer{answer(2, 4, 0, map[uint64]uint64{0: 0})}, nil,
			"1 of 1 databases have no leader yet"},
		{"one leads", 3, []*Answer{answer(2, 4, 0, main), answer(3, 6, 0, map[uint64]uint64{0: 0})},
			&Again{main, 6 + incarnationsAhead, 0, nil}, ""},
		{"nobody leads", 3,
			[]*Answer{answer(2, 4, 0, map[uint64]uint64{0: 0}), answer(3, 4, 0, map[uint64]uint64{0: 0})}, nil,
			"1 of 1 databases have no leader yet"},
		{"different leaders, and a database that one does not know", 3,
			[]*Answer{answer(2, 4, 2, map[uint64]uint64{0: 9, 5: 0, 7: 3}),
				answer(3, 6, 1, map[uint64]uint64{0: 0, 5: 8})},
			&Again{map[uint64]uint64{0: 9, 5: 8, 7: 3}, 6 + incarnationsAhead, 2, nil}, ""},
		{"what members understand, as each has heard of it last", 3,
			[]*Answer{levels(answer(2, 4, 0, main), map[uint32]uint32{3: 4, 4: 2}),
				levels(answer(3, 4, 0, main), map[uint32]uint32{2: 4, 4: 1})},
			&Again{main, 4 + incarnationsAhead, 0, map[uint32]uint32{2: 4, 3: 4, 4: 1}}, ""},
		{"a database without a leader", 3,
			[]*Answer{answer(2, 4, 0, map[uint64]uint64{0: 9, 5: 0}), answer(3, 4, 0, map[uint64]uint64{0: 0})},
			nil, "1 of 2 databases have no leader yet"},
		{"nobody has a database", 3, []*Answer{answer(2, 4, 0, nil), answer(3, 4, 0, nil)}, nil, "0 of 0 databases"},
	} {
		got, why := BeginAgain(c.members, c.answers, name)
		if !reflect.DeepEqual(got, c.want) || !strings.Contains(why, c.why) || (why == "") != (c.want != nil) {
			t.Errorf("%s: %+v, %q; want %+v, %q", c.what, got, why, c.want, c.why)
		}
	}
}

// TestAnswerCodec: what is sent is what is read, and damage is an error.
func TestAnswerCodec(t *testing.T) {
	a := answer(2, 4, 1, map[uint64]uint64{0: 9, 5: 0})
	got, err := DecodeAnswer(a.Append(nil))
	if err != nil || !reflect.DeepEqual(got, a) {
		t.Errorf("%+v, %v", got, err)
	}
	if _, err := DecodeAnswer(a.Append(nil)[:9]); err == nil {
		t.Error("half an answer is read")
	}
}
