package lint

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// shrink writes the list of offenders anew: lower figures replace higher ones, entries that no
// longer offend go. It adds nothing and raises nothing.
var shrink = flag.Bool("shrink", false, "lower and remove entries of testdata/offenders.txt")

// rule is one limit on a figure that is measured of many subjects (R4).
type rule struct {
	name  string
	limit int
	floor bool   // the figure may not be below the limit; otherwise not above it
	slack int    // how much worse than its entry a listed subject may be
	what  string // ends the sentence "p.S has 41 …"
}

const (
	methodsMax     = 40
	fieldsMax      = 25
	interfaceMax   = 12
	branchesMax    = 15
	columnsMax     = 120
	testPercentMin = 50
	nodeLinesMax   = 4500
)

// rules are all ratchets, in the order of the list.
var rules = []rule{
	{"size", nodeLinesMax, false, 1000, "lines of source"},
	{"tests", testPercentMin, true, 10, "percent of its lines as tests of its own"},
	{"columns", 0, false, 0, fmt.Sprintf("lines of more than %d columns", columnsMax)},
	{"methods", methodsMax, false, 0, "methods"},
	{"fields", fieldsMax, false, 0, "fields with what it embeds"},
	{"interface", interfaceMax, false, 0, "methods with what it embeds"},
	{"branches", branchesMax, false, 0, "branches"},
	{"word", 0, false, 0, "declarations with this word, which docs/GLOSSARY.md has retired"},
}

// ruleOf is the index of a rule, or -1.
func ruleOf(name string) int {
	return slices.IndexFunc(rules, func(r rule) bool { return r.name == name })
}

// subject is what a figure is of: a package, and a name in it.
type subject struct{ rule, pkg, name string }

func (s subject) String() string {
	if s.name == "" {
		return s.pkg
	}
	return s.pkg + " " + s.name
}

// offends says whether figure n breaks the rule's limit, were the limit l.
func (r *rule) offends(n, l int) bool {
	if r.floor {
		return n < l
	}
	return n > l
}

const remove = "remove its entry (go test ./internal/lint -run Ratchets -shrink)"

// checkRatchets compares what was measured with the list of known offenders.
func checkRatchets(measured, listed map[subject]int) (out []string) {
	for i := range rules {
		r := &rules[i]
		for s, n := range measured {
			if s.rule != r.name {
				continue
			}
			was, known := listed[s]
			worst := was + r.slack
			if r.floor {
				worst = was - r.slack
			}
			switch {
			case !r.offends(n, r.limit) && known:
				out = append(out, fmt.Sprintf("%s %v has %d %s and offends no longer: %s", s.rule, s, n, r.what,
					remove))
			case r.offends(n, r.limit) && !known:
				out = append(out, fmt.Sprintf("%s %v has %d %s; the limit is %d", s.rule, s, n, r.what, r.limit))
			case known && r.offends(n, worst):
				out = append(out, fmt.Sprintf("%s %v has %d %s; its entry allows %d: it may only get better",
					s.rule, s, n, r.what, worst))
			}
		}
	}
	for s := range listed {
		if _, ok := measured[s]; !ok {
			out = append(out, fmt.Sprintf("%s %v is in testdata/offenders.txt and does not exist: %s", s.rule, s,
				remove))
		}
	}
	slices.Sort(out)
	return out
}

// readOffenders parses the list: rule, package, name if it has one, figure.
func readOffenders(text string) (map[subject]int, error) {
	out := map[subject]int{}
	for line := range strings.Lines(text) {
		f := strings.Fields(line)
		if len(f) == 0 || f[0] == "#" {
			continue
		}
		if len(f) != 3 && len(f) != 4 {
			return nil, fmt.Errorf("an entry is: package, rule, name if it has one, figure; not %q", line)
		}
		n, err := strconv.Atoi(f[len(f)-1])
		s := subject{pkg: f[0], rule: f[1]}
		if len(f) == 4 {
			s.name = f[2]
		}
		if _, twice := out[s]; err != nil || twice || ruleOf(s.rule) < 0 {
			return nil, fmt.Errorf("no entry, or one that is there twice: %q", line)
		}
		out[s] = n
	}
	return out, nil
}

const offendersHead = `# What breaks a rule of ratchet_test.go today, and by which figure: package, rule, name, figure.
# An entry may only get better. Nothing is added; who moves what is listed moves its entry.
# go test ./internal/lint -run Ratchets -shrink    lowers figures and removes what offends no longer
`

// writeOffenders keeps of the list what still offends, with today's figures where they are better.
func writeOffenders(measured, listed map[subject]int) string {
	var kept []subject
	for s := range listed {
		r := &rules[ruleOf(s.rule)]
		if n, ok := measured[s]; ok && r.offends(n, r.limit) {
			kept = append(kept, s)
			if r.offends(listed[s], n) {
				listed[s] = n
			}
		}
	}
	slices.SortFunc(kept, func(a, b subject) int {
		if a.pkg != b.pkg {
			return strings.Compare(a.pkg, b.pkg)
		}
		if a.rule != b.rule {
			return ruleOf(a.rule) - ruleOf(b.rule)
		}
		return strings.Compare(a.name, b.name)
	})
	var out bytes.Buffer
	out.WriteString(offendersHead)
	for i, s := range kept {
		if i == 0 || kept[i-1].pkg != s.pkg {
			out.WriteString("\n")
		}
		out.WriteString(strings.Join(strings.Fields(fmt.Sprint(s.pkg, " ", s.rule, " ", s.name, " ", listed[s])), " ") +
			"\n")
	}
	return out.String()
}

// checkWords: a word has one row, in the order of the alphabet, and is used or retired.
func checkWords(words, retired []string) (out []string) {
	for i, w := range words {
		if i > 0 && words[i-1] > w {
			out = append(out, fmt.Sprintf("docs/GLOSSARY.md: %q stands behind %q", w, words[i-1]))
		}
		if slices.Contains(words[:i], w) {
			out = append(out, fmt.Sprintf("docs/GLOSSARY.md: %q has two rows", w))
		}
		if slices.Contains(retired, w) {
			out = append(out, fmt.Sprintf("docs/GLOSSARY.md: %q has a meaning and is retired", w))
		}
	}
	return out
}

func TestRatchets(t *testing.T) {
	path := filepath.Join("testdata", "offenders.txt")
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	listed, err := readOffenders(string(text))
	if err != nil {
		t.Fatal(err)
	}
	glossary, err := os.ReadFile(filepath.Join(root(), "docs", "GLOSSARY.md"))
	if err != nil {
		t.Fatal(err)
	}
	words, retired := glossaryWords(string(glossary))
	if len(words) < 50 || len(retired) < 10 {
		t.Fatalf("docs/GLOSSARY.md has %d words and %d retired ones: the table is not read", len(words), len(retired))
	}
	report(t, checkWords(words, retired))
	measured := measure(append(tree(t), below(t, "test")...), retired)
	if *shrink {
		shrunk := writeOffenders(measured, listed)
		if err := os.WriteFile(path, []byte(shrunk), 0o644); err != nil {
			t.Fatal(err)
		}
		if listed, err = readOffenders(shrunk); err != nil {
			t.Fatal(err)
		}
	}
	report(t, checkRatchets(measured, listed))
}
