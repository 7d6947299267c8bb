package drivers

import (
	"bytes"
	"encoding/json"
	"encoding/xml"
	"fmt"
	"io"
	"maps"
	"regexp"
	"slices"
	"strings"
)

// Outcome is what became of one test in one arm.
type Outcome string

// The outcomes.
const (
	Pass    Outcome = "pass"
	Fail    Outcome = "fail"
	Skip    Outcome = "skip"
	Missing Outcome = "missing" // the other arm ran it, this one did not
)

// Outcomes are those of a suite's tests, by name.
type Outcomes map[string]Outcome

// note keeps the worst outcome of tests of the same name.
func (o Outcomes) note(name string, is Outcome) {
	if o[name] != Fail {
		o[name] = is
	}
}

// Count says how many tests had an outcome.
func (o Outcomes) Count(is Outcome) (n int) {
	for _, got := range o {
		if got == is {
			n++
		}
	}
	return n
}

func (o Outcomes) String() string {
	return fmt.Sprintf("%d pass, %d fail, %d skip", o.Count(Pass), o.Count(Fail), o.Count(Skip))
}

// Difference is a test whose outcome is not the same in both arms.
type Difference struct {
	Test         string
	Plain, Tutti Outcome
}

func (d Difference) String() string { return fmt.Sprintf("%s %s %s", d.Plain, d.Tutti, d.Test) }

// Compare lists the tests that differ, by name.
func Compare(plain, tutti Outcomes) (out []Difference) {
	names := maps.Clone(plain)
	maps.Copy(names, tutti)
	of := func(o Outcomes, name string) Outcome {
		if is, ok := o[name]; ok {
			return is
		}
		return Missing
	}
	for _, name := range slices.Sorted(maps.Keys(names)) {
		if d := (Difference{name, of(plain, name), of(tutti, name)}); d.Plain != d.Tutti {
			out = append(out, d)
		}
	}
	return out
}

// moving are parts of tests' names that are others in every run.
var moving = regexp.MustCompile(`/tmp/[^/ ]+/\d+/|0x[0-9a-f]{6,}|127\.0\.0\.1:\d+|port=\d+`)

func stableName(name string) string { return moving.ReplaceAllString(name, "…") }

// parseGo reads what go test -json prints.
func parseGo(out []byte) (Outcomes, error) {
	found := Outcomes{}
	for line := range bytes.Lines(out) {
		var e struct{ Action, Package, Test string }
		if line[0] != '{' || json.Unmarshal(line, &e) != nil || e.Test == "" {
			continue // what a test or the build printed
		}
		name := stableName(e.Package + " " + e.Test)
		switch e.Action {
		case "pass":
			found.note(name, Pass)
		case "fail":
			found.note(name, Fail)
		case "skip":
			found.note(name, Skip)
		}
	}
	if len(found) == 0 {
		return nil, fmt.Errorf("no test was run; the output ends with:\n%s", tail(out))
	}
	return found, nil
}

// parseXML reads a report in JUnit's form, as pytest and others write it.
func parseXML(report []byte) (Outcomes, error) {
	found := Outcomes{}
	d := xml.NewDecoder(bytes.NewReader(report))
	for {
		token, err := d.Token()
		if err == io.EOF {
			break
		}
		if err != nil {
			return nil, fmt.Errorf("the report: %w", err)
		}
		start, ok := token.(xml.StartElement)
		if !ok || start.Name.Local != "testcase" {
			continue
		}
		var c struct {
			Class   string    `xml:"classname,attr"`
			Name    string    `xml:"name,attr"`
			Failure *struct{} `xml:"failure"`
			Error   *struct{} `xml:"error"`
			Skipped *struct{} `xml:"skipped"`
		}
		if err := d.DecodeElement(&c, &start); err != nil {
			return nil, fmt.Errorf("the report: %w", err)
		}
		name := stableName(c.Class + " " + c.Name)
		switch {
		case c.Failure != nil, c.Error != nil:
			found.note(name, Fail)
		case c.Skipped != nil:
			found.note(name, Skip)
		default:
			found.note(name, Pass)
		}
	}
	if len(found) == 0 {
		return nil, fmt.Errorf("the report names no test")
	}
	return found, nil
}

// linesOf finds what programs of ours say of their steps.
var linesOf = regexp.MustCompile(`(?m)^(ok|not ok|skip) - (.+)$`)

// parseLines reads lines "ok - NAME", "not ok - NAME" and "skip - NAME".
func parseLines(out []byte) (Outcomes, error) {
	found := Outcomes{}
	for _, m := range linesOf.FindAllStringSubmatch(string(out), -1) {
		is := map[string]Outcome{"ok": Pass, "not ok": Fail, "skip": Skip}[m[1]]
		name, _, _ := strings.Cut(m[2], " # ")
		found.note(stableName(name), is)
	}
	if len(found) == 0 {
		return nil, fmt.Errorf("no step was run; the output ends with:\n%s", tail(out))
	}
	return found, nil
}

func tail(out []byte) []byte {
	const most = 2000
	return out[max(0, len(out)-most):]
}
