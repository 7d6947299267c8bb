package capture

import (
	"slices"
	"strings"
	"testing"
)

// Hashes are in the log and must agree between members of different releases: these never change.
func TestSeedsAreForEver(t *testing.T) {
	for _, c := range []struct {
		name string
		got  uint64
		want uint64
	}{
		{"table", TableKey("public", "t"), 0x587ee3d76c2d40f8},
		{"primary", seed("public", "t", true, "t_pkey", nil), 0xd9b480c335ced188},
		{"unique", seed("public", "t", false, "t_a_b_key", []string{"a", "b"}), 0x6cdbaea5d3597e7d},
		{"named", seed("public", "t", false, "t_lower_idx", nil), 0xd2875ee9de84d7d1},
	} {
		if c.got != c.want {
			t.Errorf("%s is %#x, want %#x", c.name, c.got, c.want)
		}
	}
	if seed("a", "bc", true, "", nil) == seed("ab", "c", true, "", nil) {
		t.Error("names run into each other")
	}
}

func TestMixedNetEffectIsRefused(t *testing.T) {
	ch := change{times: 2, ins: 2, found: true}
	if _, err := ch.net(); err == nil {
		t.Error("a row that came twice is accepted")
	}
}

func TestRefreshDoesNothingTwice(t *testing.T) {
	d := TableDesc{Schema: "s", Name: "t", Columns: []Column{{Name: "i", Num: 1, Binary: true}}}
	if got := Refresh(Catalog{Tables: []TableDesc{d}}); len(got) == 0 {
		t.Fatal("no trigger is made")
	}
	d.Trigger = Signature(d)
	got := Refresh(Catalog{Tables: []TableDesc{d}, Functions: []string{d.Trigger, "final_0123456789abcdef"}})
	if len(got) != 1 || got[0] != "SELECT tutti.drop_functions('{final_0123456789abcdef}')" {
		t.Fatalf("statements are %q", got)
	}
	// Of a partial description, what tables had that are gone, or changed, or had another name, is looked for.
	here, there := keyText("s", "t"), keyText("s", "u")
	for _, x := range []struct {
		trigger string
		gone    []Gone
		left    []string
	}{
		{d.Trigger, nil, nil},
		{d.Trigger, []Gone{{Schema: "s", Name: "u"}}, []string{there}},
		{d.Trigger, []Gone{{Schema: "s", Name: "t", Key: there}}, []string{there}},
		{d.Trigger, []Gone{{Key: "}'); DROP TABLE t; --"}, {Key: there + "\n"}, {Key: "0"}}, nil},
		{"", nil, []string{here}},
		{"capture_" + there + strings.TrimPrefix(d.Trigger, "capture_"+here), nil, []string{there}},
		{"capture_" + there + "_0_0", nil, []string{here, there}},
		{"capture_" + here + "_0_0", nil, []string{here}},
	} {
		d.Trigger = x.trigger
		all := Refresh(Catalog{Partial: true, Tables: []TableDesc{d}, Gone: x.gone})
		got = slices.DeleteFunc(all, func(s string) bool { return !strings.Contains(s, "drop_functions") })
		slices.Sort(x.left)
		want := "SELECT tutti.drop_functions_of('{" + strings.Join(x.left, ",") + "}', '{" + Signature(d)
		if x.left == nil && len(got) > 0 || x.left != nil && (len(got) != 1 || !strings.HasPrefix(got[0], want)) {
			t.Errorf("with trigger %s and gone %v, statements are %q, want %s", x.trigger, x.gone, got, want)
		}
	}
	d.Trigger = Signature(d)
	if got = Refresh(Catalog{Tables: []TableDesc{d}, Functions: []string{d.Trigger}}); got != nil {
		t.Fatalf("there is nothing to do, but statements are %q", got)
	}
}
