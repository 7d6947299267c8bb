package check

import (
	"math/rand/v2"
	"strings"
	"testing"
)

// anomalies are hand-made histories, one at least for each class. L stands for the level of
// those that the verdict is about; want is the verdict for READ COMMITTED, snapshot isolation
// and SERIALIZABLE. A dash is none.
var anomalies = []struct{ name, want, history string }{
	{"G0: dirty write", "G0 G0 G0", `
		1 L ok a1=1 a2=1
		2 L ok a1=2 a2=2
		3 rc ok r1=1,2 r2=2,1`},
	{"G0 by an append that nobody read: it comes last", "G0 G0 G0", `
		1 L ok a1=1 a2=1
		2 L ok a1=2 a2=2
		3 rc ok r1=1,2 r2=2`},
	{"G1a: aborted read", "G1a G1a G1a", `
		1 L fail a1=1
		2 L ok r1=1`},
	{"G1a under a later append", "G1a G1a G1a", `
		1 L fail a1=1
		2 L ok a1=2
		3 L ok r1=1,2`},
	{"G1b: intermediate read", "G1b G1b G1b", `
		1 L ok a1=1 a1=2
		2 L ok r1=1
		3 rc ok r1=1,2`},
	{"G1c: circle of reads", "G1c G1c G1c", `
		1 L ok a1=1 r2=2
		2 L ok a2=2 r1=1`},
	{"G1c: circle of three", "G1c G1c G1c", `
		1 L ok a1=1 r3=3
		2 L ok a2=2 r1=1
		3 L ok a3=3 r2=2`},
	{"G1c: write and read", "G1c G1c G1c", `
		1 L ok a1=1 r2=2
		2 L ok a1=2 a2=2
		3 rc ok r1=1,2`},
	{"lost update", "- lost_update lost_update", `
		1 L ok r1= a1=1
		2 L ok r1= a1=2
		3 rc ok r1=1,2`},
	{"lost update, one of the values was never read", "- lost_update lost_update", `
		1 L ok r1= a1=1
		2 L ok r1= a1=2
		3 rc ok r1=1`},
	{"lost update, no value was ever read", "- lost_update lost_update", `
		1 L ok r1= a1=1
		2 L ok r1= a1=2`},
	{"lost update of somebody else's overwritten value", "- lost_update lost_update", `
		1 rc ok a1=1
		2 L ok r1=1 a1=2
		3 L ok r1=1 a1=3
		4 rc ok r1=1,3,2`},
	{"the second of two that build on one read may have failed", "- - -", `
		1 L ok r1= a1=1
		2 L info r1= a1=2
		3 L fail r1= a1=3
		4 rc ok r1=1`},
	{"G-single: read skew", "- G-single G-single", `
		1 L ok a1=1 a2=1
		2 L ok r1= r2=1
		3 rc ok r1=1 r2=1`},
	{"G-single with a write that nobody read", "- G-single G-single", `
		1 L ok a1=1 a2=1
		2 L ok r1= r2=1`},
	{"G-single through three", "- G-single G-single", `
		1 L ok a1=1
		2 L ok r1=1 a2=2
		3 L ok r1= r2=2
		4 rc ok r1=1 r2=2`},
	{"long fork", "- G-nonadjacent G-nonadjacent", `
		1 L ok a1=1
		2 L ok a2=2
		3 L ok r1=1 r2=
		4 L ok r1= r2=2
		5 rc ok r1=1 r2=2`},
	{"long fork with appends in between", "- G-nonadjacent G-nonadjacent", `
		1 L ok a1=1
		2 L ok a2=2
		3 L ok r1=1 r2= a3=3
		4 L ok r1= r2=2 a4=4
		5 rc ok r1=1 r2=2 r3=3 r4=4`},
	{"G2-item: write skew", "- - G2-item", `
		1 L ok r1= a2=1
		2 L ok r2= a1=2
		3 rc ok r1=2 r2=1`},
	{"G2-item of three", "- - G2-item", `
		1 L ok r1= a2=1
		2 L ok r2= a3=2
		3 L ok r3= a1=3
		4 rc ok r1=3 r2=1 r3=2`},
	{"a read-only transaction closes the circle", "- - G2-item", `
		1 L ok r1= r2= a1=1
		2 L ok r2= a2=2
		3 L ok r1= r2=2
		4 rc ok r1=1 r2=2`},
	{"incompatible orders", "incompatible_order incompatible_order incompatible_order", `
		1 rc ok a1=1
		2 rc ok a1=2
		3 L ok r1=1,2
		4 L ok r1=2`},
	{"a value disappears", "incompatible_order incompatible_order incompatible_order", `
		1 rc ok a1=1
		2 rc ok a1=2
		3 rc ok a1=3
		4 L ok r1=1,2
		5 L ok r1=1,3,2`},
	{"duplicate", "duplicate duplicate duplicate", `
		1 rc ok a1=1
		2 L ok r1=1,1`},
	{"garbage", "garbage garbage garbage", `
		1 L ok r1=7`},
	{"own append not seen", "internal internal internal", `
		1 L ok a1=1 r1=
		2 rc ok r1=1`},
	{"own append seen too early", "internal internal internal", `
		1 L ok r1=1 a1=1`},
	{"somebody else's after the own one", "internal internal internal", `
		1 L ok a1=1 r1=1,2
		2 L ok a1=2`},
	{"a snapshot that moves", "- internal internal", `
		1 rc ok a1=1
		2 L ok r1= r1=1`},
	{"a statement that goes backwards", "session internal internal", `
		1 rc ok a1=1
		2 L ok r1=1 r1=`},
	{"a session does not see its own write", "session session session", `
		1 L ok a1=1
		1 L ok r1=
		2 rc ok r1=1`},
	{"a session does not see its own write, and nobody does", "session session session", `
		1 L ok a1=1
		1 L ok r1=`},
	{"a session reads backwards", "session session session", `
		1 rc ok a1=1
		2 L ok r1=1
		2 L ok r1=`},
	{"a session goes back to before what it wrote elsewhere", "- G-single G-single", `
		1 L ok a1=1
		1 L ok a2=1
		2 L ok r2=1 r1=
		3 rc ok r1=1`},
	{"a new session may be behind", "- - -", `
		1 L ok a1=1
		2 L ok r1=
		3 rc ok r1=1`},
	{"an unknown outcome that was seen", "- - -", `
		1 L info a1=1
		2 L ok r1=1`},
	{"an unknown outcome binds once it was seen", "- G-single G-single", `
		1 L info a1=1 a2=1
		2 L ok r1=1 r2=
		3 rc ok r2=1`},
}

var levels = []struct {
	name  string
	level Level
}{{"rc", ReadCommitted}, {"si", Snapshot}, {"ser", Serializable}}

// wants splits the verdicts per level.
func wants(s string) (out [3]string) {
	for i, w := range strings.Fields(s) {
		if w != "-" {
			out[i] = strings.ReplaceAll(w, "_", " ")
		}
	}
	return out
}

func TestAnomalies(t *testing.T) {
	for _, c := range anomalies {
		for i, l := range levels {
			t.Run(c.name+" "+l.name, func(t *testing.T) {
				h, o := parse(t, strings.ReplaceAll(c.history, " L ", " "+l.name+" "))
				concurrent(h)
				expect(t, ListAppend(h, o), wants(c.want)[i])
			})
		}
	}
}

// TestAnomaliesAreFoundInTheCrowd hides each of them in a long correct history: the verdict is
// the same.
func TestAnomaliesAreFoundInTheCrowd(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	crowd, o := generate(r, 3000, 100)
	expect(t, ListAppend(crowd, o), "")
	for _, c := range anomalies {
		for i, l := range levels {
			t.Run(c.name+" "+l.name, func(t *testing.T) {
				few, _ := parse(t, strings.ReplaceAll(c.history, " L ", " "+l.name+" "))
				h, at := append([]ListTransaction(nil), crowd...), r.IntN(1000)
				for _, x := range few {
					for k := range x.Ops {
						x.Ops[k].Key += 1000
					}
					x.Session += 1_000_000
					h = append(h[:at], append([]ListTransaction{x}, h[at:]...)...)
					at += 1 + r.IntN(500)
				}
				expect(t, ListAppend(h, ListOptions{}), wants(c.want)[i])
			})
		}
	}
}
