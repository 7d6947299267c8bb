package captest

import (
	"encoding/hex"
	"fmt"
	"math"
	"math/rand/v2"
	"strconv"
	"strings"
	"time"
)

// values makes literals of a type, in pairs that are often equal in another spelling, or nearly equal.
type values struct {
	some func(r *rand.Rand) string           // a value
	same func(r *rand.Rand, v string) string // maybe the same in another spelling; nil: as it is
	near func(r *rand.Rand, v string) string // maybe another value that looks like it; nil: some
}

func (v values) pair(r *rand.Rand) (a, b string) {
	a = v.some(r)
	switch n := r.IntN(8); {
	case n < 4 && v.same != nil:
		return a, v.same(r, a)
	case n < 4:
		return a, a
	case n < 7 && v.near != nil:
		return a, v.near(r, a)
	}
	return a, v.some(r)
}

func pick(list ...string) func(*rand.Rand) string {
	return func(r *rand.Rand) string { return list[r.IntN(len(list))] }
}

// either draws from boundaries, or else.
func either(else_ func(*rand.Rand) string, list ...string) func(*rand.Rand) string {
	return func(r *rand.Rand) string {
		if r.IntN(3) == 0 {
			return list[r.IntN(len(list))]
		}
		return else_(r)
	}
}

func integers(bits int) values {
	limit := int64(1)<<(bits-1) - 1
	fit := func(n int64) string {
		if bits < 64 {
			n = max(min(n, limit), -limit-1)
		}
		return strconv.FormatInt(n, 10)
	}
	return values{
		some: func(r *rand.Rand) string {
			switch r.IntN(4) {
			case 0:
				return fit([]int64{limit, -limit - 1, 0, 1, -1, 1 << 15, 1 << 31, 1 << 32, -1 << 31,
					limit - 1}[r.IntN(10)])
			case 1:
				return fit(int64(r.IntN(20) - 10))
			}
			return strconv.FormatInt(int64(r.Uint64())>>(64-bits), 10)
		},
		same: func(_ *rand.Rand, v string) string {
			if d, ok := strings.CutPrefix(v, "-"); ok {
				return " -00" + d
			}
			return "+0" + v + " "
		},
		near: func(r *rand.Rand, v string) string {
			n, _ := strconv.ParseInt(v, 10, 64)
			switch r.IntN(4) {
			case 0:
				if n > -limit {
					return fit(-n)
				}
			case 1:
				return fit(n>>32 | n<<32) // halves that PostgreSQL's own hash folds into one
			case 2:
				return fit(n ^ -1)
			}
			return fit(n ^ 1<<r.IntN(bits-1))
		},
	}
}

func unsigned(bits int) values {
	return values{some: func(r *rand.Rand) string {
		if r.IntN(3) == 0 {
			return strconv.FormatUint([]uint64{0, 1, 1<<bits - 1, 1 << (bits - 1), 1 << (bits / 2)}[r.IntN(5)], 10)
		}
		return strconv.FormatUint(r.Uint64()>>(64-bits)>>r.IntN(bits), 10)
	}, near: func(r *rand.Rand, v string) string {
		n, _ := strconv.ParseUint(v, 10, 64)
		if r.IntN(2) == 0 && bits == 64 {
			return strconv.FormatUint(n>>32|n<<32, 10)
		}
		return strconv.FormatUint(n^1<<r.IntN(bits), 10)
	}}
}

func digits(r *rand.Rand, n int) string {
	var b strings.Builder
	for range 1 + r.IntN(n) {
		b.WriteByte("0000123456789"[r.IntN(13)])
	}
	return b.String()
}

// decimals: zeros at the end and the dscale do not count, all else does.
var decimals = values{
	some: either(func(r *rand.Rand) string {
		v := digits(r, 12)
		if r.IntN(2) == 0 {
			v += "." + digits(r, 10)
		}
		if r.IntN(2) == 0 {
			v = "-" + v
		}
		return v
	}, "0", "0.000", "NaN", "Infinity", "-Infinity", "1", "-1", "10000", "0.0001", "99999999999999999999.9999", "1e100",
		"1e-100", "-0.0"),
	same: func(r *rand.Rand, v string) string {
		if strings.ContainsAny(v, "NIe") {
			return v
		}
		if r.IntN(3) == 0 {
			return v + "e0"
		}
		if !strings.Contains(v, ".") {
			v += "."
		}
		return v + strings.Repeat("0", 1+r.IntN(9))
	},
	near: func(r *rand.Rand, v string) string {
		switch {
		case strings.ContainsAny(v, "N"):
			return "Infinity"
		case r.IntN(3) > 0:
			if strings.HasPrefix(v, "-") {
				return v[1:]
			}
			return "-" + v
		case strings.ContainsAny(v, "eI"):
			return "NaN"
		}
		return v + []string{"e1", "e4", "e-4", "e-1"}[r.IntN(4)]
	},
}

func floats(bits int) values {
	text := func(f float64) string { return strconv.FormatFloat(f, 'g', -1, bits) }
	read := func(v string) float64 {
		f, _ := strconv.ParseFloat(v, bits)
		return f
	}
	return values{
		some: either(func(r *rand.Rand) string {
			if bits == 32 {
				return text(float64(math.Float32frombits(r.Uint32()&^(0xff<<23) | uint32(1+r.IntN(253))<<23)))
			}
			return text(math.Float64frombits(r.Uint64()&^(0x7ff<<52) | uint64(1+r.IntN(2045))<<52))
		}, "0", "-0", "NaN", "Infinity", "-Infinity", "1", "-1",
			text(map[int]float64{32: math.SmallestNonzeroFloat32, 64: math.SmallestNonzeroFloat64}[bits])),
		same: func(_ *rand.Rand, v string) string {
			if f := read(v); f == 0 {
				return text(math.Copysign(0, -1))
			} else if !math.IsNaN(f) && !math.IsInf(f, 0) {
				return strconv.FormatFloat(f, 'e', 20, bits)
			}
			return v
		},
		near: func(r *rand.Rand, v string) string {
			f := read(v)
			switch {
			case math.IsNaN(f) || math.IsInf(f, 0):
				return text(-f)
			case r.IntN(2) == 0:
				return text(-f)
			case bits == 32:
				if g := math.Nextafter32(float32(f), 0); g != 0 {
					return text(float64(g))
				}
			default:
				return text(math.Nextafter(f, 0))
			}
			return "1"
		},
	}
}

// words have letters of either case, of more than one byte, combined ones, blanks and what must be quoted.
func words(most int) values {
	letters := []string{"a", "A", "b", " ", "é", "e\u0301", "É", "ß", "ss", `\`, `"`, ",", "{", "0", "\t", "NULL", "İ"}
	some := func(r *rand.Rand) string {
		var b strings.Builder
		for range r.IntN(most) {
			b.WriteString(letters[r.IntN(len(letters))])
		}
		return b.String()
	}
	return values{some: some, near: func(r *rand.Rand, v string) string {
		switch r.IntN(5) {
		case 0:
			return v + " "
		case 1:
			return strings.TrimRight(v, " ")
		case 2:
			return strings.ToUpper(v)
		case 3:
			return strings.ReplaceAll(v, "é", "e\u0301")
		}
		return strings.ToLower(v)
	}}
}

// either2 are values that are the same in the given spellings of a moment.
func moments(layouts []string, most int64, more ...string) values {
	at := map[string]time.Time{}
	format := func(t time.Time, layout string) string {
		v := t.Format(layout)
		at[v] = t
		return v
	}
	zones := []*time.Location{time.UTC, time.FixedZone("", 3600), time.FixedZone("", -5*3600-1800),
		time.FixedZone("", 14*3600)}
	return values{
		some: either(func(r *rand.Rand) string {
			t := time.Unix(r.Int64N(most), int64(r.IntN(3))*1000).In(zones[r.IntN(len(zones))])
			return format(t, layouts[r.IntN(len(layouts))])
		}, more...),
		same: func(r *rand.Rand, v string) string {
			if t, ok := at[v]; ok {
				return format(t.In(zones[r.IntN(len(zones))]), layouts[r.IntN(len(layouts))])
			}
			return v
		},
		near: func(r *rand.Rand, v string) string {
			if t, ok := at[v]; ok {
				return format(t.Add([]time.Duration{time.Microsecond, time.Second << 32, -time.Hour,
					24 * time.Hour}[r.IntN(4)]), layouts[r.IntN(len(layouts))])
			}
			return more[r.IntN(len(more))]
		},
	}
}

func hexes(bytes int, form func(b []byte) string, same func(r *rand.Rand, v string) string) values {
	some := func(r *rand.Rand) string {
		b := make([]byte, bytes)
		for i := range b {
			b[i] = []byte{0, 0, 1, 0xff, byte(r.Uint32())}[r.IntN(5)]
		}
		return form(b)
	}
	return values{some: some, same: same, near: func(r *rand.Rand, v string) string {
		i := r.IntN(len(v))
		if v[i] == '0' {
			return v[:i] + "1" + v[i+1:]
		}
		return v
	}}
}

func addresses(network bool) values {
	some := func(r *rand.Rand) string {
		if r.IntN(3) == 0 {
			n := 8 * r.IntN(17)
			if !network {
				n = r.IntN(129)
			}
			return []string{"::", "::ffff:10.0.0.0", "2001:db8::", "fe80::"}[r.IntN(4)] + "/" +
				strconv.Itoa(max(n, map[bool]int{true: 128}[network]))
		}
		bits := []int{8, 16, 24, 32}[r.IntN(4)]
		if network {
			return fmt.Sprintf("%d.0.0.0/%d", r.IntN(3), bits)
		}
		return fmt.Sprintf("10.%d.0.%d/%d", r.IntN(2), r.IntN(2), bits)
	}
	return values{some: some, same: func(_ *rand.Rand, v string) string { return strings.TrimSuffix(v, "/32") },
		near: func(r *rand.Rand, v string) string {
			if network {
				return some(r)
			}
			a, _, _ := strings.Cut(v, "/")
			return a + "/" + strconv.Itoa(r.IntN(33))
		}}
}

func bitStrings(fixed int) values {
	some := func(r *rand.Rand) string {
		n := fixed
		if n == 0 {
			n = r.IntN(20)
		}
		var b strings.Builder
		for range n {
			b.WriteByte("01"[r.IntN(2)])
		}
		return b.String()
	}
	near := func(_ *rand.Rand, v string) string { return v + "0" }
	if fixed > 0 {
		near = nil
	}
	return values{some: some, near: near}
}

// spans of time: 30 days are a month, and 24 hours a day.
var spans = values{
	some: either(func(r *rand.Rand) string {
		return fmt.Sprintf("%d mons %d days %d:00:00.%06d", r.IntN(5)-2, r.IntN(90)-45, r.IntN(60)-30, r.IntN(3))
	}, "1 mon", "30 days", "720:00:00", "1 day", "24:00:00", "0", "-1 mon", "-30 days", "1 mon -30 days",
		"4294967296 us", "178000000 years"),
}

var documents = func() values {
	var some func(r *rand.Rand, deep int) string
	some = func(r *rand.Rand, deep int) string {
		n := 7
		if deep > 2 {
			n = 5
		}
		switch r.IntN(n) {
		case 0:
			return decimals.same(r, pick("1", "-1", "1.5", "0", "100")(r))
		case 1:
			return pick("true", "false", "null", `"1"`, `"a"`, `""`)(r)
		case 2, 3, 4:
			return pick("1", "-1", "2", "1.0", "1.00")(r)
		case 5:
			var list []string
			for range r.IntN(4) {
				list = append(list, some(r, deep+1))
			}
			return "[" + strings.Join(list, ",") + "]"
		}
		return fmt.Sprintf(`{"a": %s, "%s": %s}`, some(r, deep+1), pick("a", "b")(r), some(r, deep+1))
	}
	return values{some: func(r *rand.Rand) string { return some(r, 0) },
		same: func(_ *rand.Rand, v string) string { return strings.ReplaceAll(v, "1.0,", "1.00 ,") },
		near: func(_ *rand.Rand, v string) string { return "[" + v + "]" }}
}()

// arrays: dimensions and bounds count as the elements do.
func arrays(of values) values {
	quoted := func(v string) string { return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(v) + `"` }
	lay := func(r *rand.Rand, list []string) string {
		n := len(list)
		if n == 0 {
			return "{}"
		}
		body := "{" + strings.Join(list, ",") + "}"
		switch r.IntN(4) {
		case 0:
			at := r.IntN(3) - 1
			return fmt.Sprintf("[%d:%d]=%s", at, at+n-1, body)
		case 1:
			return "{" + body + "}"
		case 2:
			if n%2 == 0 {
				return "{{" + strings.Join(list[:n/2], ",") + "},{" + strings.Join(list[n/2:], ",") + "}}"
			}
		}
		return body
	}
	lists := map[string][2][]string{}
	return values{
		some: func(r *rand.Rand) string {
			var list, other []string
			for range r.IntN(5) {
				a, b := of.pair(r)
				a, b = quoted(a), quoted(b)
				if r.IntN(8) == 0 {
					a, b = "NULL", []string{"NULL", `"NULL"`}[0]
				}
				list, other = append(list, a), append(other, b)
			}
			v := lay(r, list)
			if len(lists) > 1000 {
				clear(lists)
			}
			lists[v] = [2][]string{list, other}
			return v
		},
		same: func(r *rand.Rand, v string) string {
			if v[0] == '[' && strings.HasPrefix(v, "[1:") {
				return v[strings.Index(v, "=")+1:]
			}
			return v
		},
		near: func(r *rand.Rand, v string) string { return lay(r, lists[v][r.IntN(2)]) },
	}
}

func ranges(of values, multi bool) values {
	one := func(r *rand.Rand, a, b string) string {
		return []string{"[", "("}[r.IntN(2)] + a + "," + b + []string{"]", ")"}[r.IntN(2)]
	}
	some := func(r *rand.Rand) string {
		if r.IntN(8) == 0 {
			return map[bool]string{false: "empty", true: "{}"}[multi]
		}
		v := of.some(r)
		lower, upper := v, ""
		if r.IntN(2) == 0 {
			lower, upper = "", v
		}
		if r.IntN(4) == 0 {
			lower, upper = v, v
			return map[bool]string{false: "[" + v + "," + v + "]", true: "{[" + v + "," + v + "]}"}[multi]
		}
		if multi {
			return "{" + one(r, lower, upper) + "}"
		}
		return one(r, lower, upper)
	}
	return values{some: some, near: func(_ *rand.Rand, v string) string {
		if strings.Contains(v, "-") {
			return v
		}
		return strings.NewReplacer("[1,", "[-1,", ",1]", ",-1]", "[2,", "[-2,").Replace(v)
	}}
}

func uuidText(b []byte) string {
	s := hex.EncodeToString(b)
	return s[:8] + "-" + s[8:12] + "-" + s[12:16] + "-" + s[16:20] + "-" + s[20:]
}

func macText(b []byte) string {
	var parts []string
	for _, c := range b {
		parts = append(parts, fmt.Sprintf("%02x", c))
	}
	return strings.Join(parts, ":")
}

func upper(_ *rand.Rand, v string) string { return strings.ToUpper(v) }
