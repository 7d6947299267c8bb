package regress

import (
	"fmt"
	"strings"
	"time"
)

// Verdict is what became of one file.
type Verdict string

// The verdicts, from good to bad.
const (
	Equal    Verdict = "equal"
	Agreed   Verdict = "accepted"
	Differs  Verdict = "differs"
	Hangs    Verdict = "hangs"
	Kills    Verdict = "ends members" // a member's process ended meanwhile
	NoAnswer Verdict = "no control"   // it hangs on plain PostgreSQL too, so nothing can be said
)

// Result is one file's.
type Result struct {
	File    string
	Verdict Verdict
	Lines   int           // of difference
	Plain   time.Duration // how long it took there
	Tutti   time.Duration
	Notes   []string // what members did meanwhile: ended, differ
}

// Good reports whether nothing is to be done.
func (r *Result) Good() bool {
	return (r.Verdict == Equal || r.Verdict == Agreed) && len(r.Notes) == 0
}

func (r *Result) String() string {
	s := fmt.Sprintf("%-14s %-32s %6d lines  plain %5.1f s  tutti %6.1f s", r.Verdict, r.File, r.Lines,
		r.Plain.Seconds(), r.Tutti.Seconds())
	for _, n := range r.Notes {
		s += "\n    " + strings.ReplaceAll(n, "\n", "\n    ")
	}
	return s
}

// Summary counts the verdicts in a sentence.
func Summary(results []Result) string {
	n := map[Verdict]int{}
	for _, r := range results {
		n[r.Verdict]++
	}
	s := fmt.Sprintf("%d files", len(results))
	for _, v := range []Verdict{Equal, Agreed, Differs, Hangs, Kills, NoAnswer} {
		if n[v] > 0 {
			s += fmt.Sprintf(", %d %s", n[v], v)
		}
	}
	return s
}

// scoreTable is a suite's part of the page.
func scoreTable(title string, results []Result, members string) string {
	var out strings.Builder
	fmt.Fprintf(&out, "%s: %s. %s\n\n| file | result | lines of difference |\n|---|---|---|\n", title, Summary(results),
		members)
	for _, r := range results {
		lines := ""
		if r.Lines > 0 {
			lines = fmt.Sprint(r.Lines)
		}
		fmt.Fprintf(&out, "| %s | %s | %s |\n", r.File, r.Verdict, lines)
	}
	return out.String()
}

// splice replaces what stands between the marks of a suite on the page.
func splice(page, suite, text string) (string, error) {
	begin, end := "<!-- "+suite+": begin -->\n", "<!-- "+suite+": end -->"
	before, rest, ok := strings.Cut(page, begin)
	_, after, ok2 := strings.Cut(rest, end)
	if !ok || !ok2 {
		return "", fmt.Errorf("the page lacks the marks %q and %q", strings.TrimSpace(begin), end)
	}
	return before + begin + text + end + after, nil
}
