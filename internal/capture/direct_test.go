package capture

import "testing"

// TestSteady: strings whose meaning depends on settings are told from those that are always read alike. Those of arrays
// depend on array_nulls.
func TestSteady(t *testing.T) {
	for oid, want := range map[uint32]bool{23: true, 25: true, 1700: true, 1082: false, 1184: false, 1007: false,
		1009: false, 1231: false} {
		d := &TableDesc{Columns: []Column{{Name: "a", OID: oid}}}
		if got := d.Steady(nil, nil, nil); got != want {
			t.Errorf("a column of type %d: %v", oid, got)
		}
		if got := (&TableDesc{}).Steady(nil, nil, []uint32{oid}); got != want {
			t.Errorf("a parameter of type %d: %v", oid, got)
		}
	}
}
