package lint

import (
	"fmt"
	"go/ast"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

var (
	// place is a file or a directory of the repository, named on a page.
	place = regexp.MustCompile(`^(internal|cmd|test|docs)(/[A-Za-z0-9_.-]+)+/?$`)
	// call is a function or a method, as name() or Type.name().
	call = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9]*(\.[A-Za-z][A-Za-z0-9]*)?\(\)$`)
	// testName is a test in prose.
	testName = regexp.MustCompile(`\b(Test|Fuzz|Benchmark)[A-Z][A-Za-z0-9_]*\b`)
	// decisionNumber is a decision in prose or in a comment.
	decisionNumber = regexp.MustCompile(`\b[Dd]ecisions? (\d{4})\b`)
	// plantedBugs are the names behind these words.
	plantedBugs = regexp.MustCompile("planted bugs? ((?:`[a-z0-9-]+`(?:, | and )?)+)")
	// link is what a page refers to.
	link = regexp.MustCompile(`\]\(([^)\s]+)\)`)
)

// declared lists a file's functions and methods, as call writes them.
func declared(s *source) map[string]bool {
	out := map[string]bool{}
	for _, d := range s.ast.Decls {
		if f, ok := d.(*ast.FuncDecl); ok {
			name := f.Name.Name
			if recv := receiver(f); recv != "" {
				name = recv + "." + name
			}
			out[name+"()"] = true
		}
	}
	return out
}

// known is what a page may name.
type known struct {
	files     map[string]map[string]bool // by path: the functions of a Go file, nil of another file
	dirs      map[string]bool
	tests     map[string]map[string]bool // by name: the directories
	decisions map[string]bool            // by number
	headings  map[string]map[string]bool // by page: anchors
	bugs      string                     // the source that lists the planted bugs
}

// learn collects what there is.
func learn(sources []source, paths []string, pages map[string]string, bugs string) *known {
	k := &known{
		files: map[string]map[string]bool{}, dirs: map[string]bool{}, tests: map[string]map[string]bool{},
		decisions: map[string]bool{}, headings: map[string]map[string]bool{}, bugs: bugs,
	}
	for _, p := range paths {
		k.files[p] = nil
		if n, ok := strings.CutPrefix(p, "docs/decisions/"); ok && len(n) > 4 {
			k.decisions[n[:4]] = true
		}
		for d := path.Dir(p); d != "."; d = path.Dir(d) {
			k.dirs[d] = true
		}
	}
	for i := range sources {
		s := &sources[i]
		k.files[s.path] = declared(s)
		for name := range k.files[s.path] {
			if name = strings.TrimSuffix(name, "()"); s.test && testName.MatchString(name) {
				if k.tests[name] == nil {
					k.tests[name] = map[string]bool{}
				}
				k.tests[name][s.pkg] = true
			}
		}
	}
	for p, text := range pages {
		k.headings[p] = anchors(text)
	}
	return k
}

// anchors lists the headings of a page as links name them.
func anchors(page string) map[string]bool {
	out := map[string]bool{}
	for line := range strings.Lines(page) {
		if title := strings.TrimLeft(line, "#"); title != line && strings.HasPrefix(title, " ") {
			id := strings.Map(func(r rune) rune {
				switch {
				case r == ' ':
					return '-'
				case r == '-' || r >= 'a' && r <= 'z' || r >= '0' && r <= '9':
					return r
				}
				return -1
			}, strings.ToLower(strings.TrimSpace(title)))
			out[id] = true
		}
	}
	return out
}

// page checks one page: every file, function, test, planted bug, decision and link on it is there.
func (k *known) page(name, text string) (out []string, functions int) {
	for _, b := range blocks(text) {
		complain := func(format string, args ...any) {
			out = append(out, fmt.Sprintf("%s:%d: ", name, b.line)+fmt.Sprintf(format, args...))
		}
		functions += k.spans(b.text, complain)
		k.prose(b.text, complain)
		for _, m := range link.FindAllStringSubmatch(b.text, -1) {
			k.link(name, m[1], complain)
		}
	}
	return out, functions
}

// block is a paragraph, an item of a list or a row of a table, and the line it begins at.
type block struct {
	line int
	text string
}

// item begins what is a block although no empty line is before it.
var item = regexp.MustCompile(`^\s*([-*#|]|\d+\.)`)

// blocks cuts a page.
func blocks(page string) (out []block) {
	n, open := 0, false
	for line := range strings.Lines(page) {
		n++
		text := strings.TrimSpace(line)
		if text == "" {
			open = false
			continue
		}
		if !open || item.MatchString(line) && !strings.HasPrefix(text, "**") {
			out = append(out, block{line: n})
		}
		open = true
		out[len(out)-1].text += text + " "
	}
	return out
}

// spans checks what a block names in code spans: places, and behind a file its functions.
func (k *known) spans(text string, complain func(string, ...any)) (functions int) {
	file := ""
	for _, m := range codeSpan.FindAllStringSubmatch(text, -1) {
		word := strings.TrimSuffix(m[1], "/")
		declares, isFile := k.files[word]
		switch {
		case place.MatchString(word):
			if !isFile && !k.dirs[word] {
				complain("there is no %s", word)
			}
			file = ""
			if isFile && strings.HasSuffix(word, ".go") && declares != nil {
				file = word
			}
		case call.MatchString(word) && file != "":
			functions++
			if !k.files[file][word] {
				complain("%s has no %s", file, word)
			}
		case call.MatchString(word) && strings.Contains(word, ".") && !strings.HasPrefix(word, "tutti."):
			complain("%s is named before a file", word)
		}
	}
	return functions
}

// prose checks what a block names anywhere: tests, planted bugs, decisions.
func (k *known) prose(text string, complain func(string, ...any)) {
	for _, name := range testName.FindAllString(text, -1) {
		if k.tests[name] == nil {
			complain("there is no test %s", name)
		}
	}
	for _, m := range plantedBugs.FindAllStringSubmatch(text, -1) {
		for _, bug := range codeSpan.FindAllStringSubmatch(m[1], -1) {
			if !strings.Contains(k.bugs, `"`+bug[1]+`"`) {
				complain("there is no planted bug %s", bug[1])
			}
		}
	}
	for _, m := range decisionNumber.FindAllStringSubmatch(text, -1) {
		if !k.decisions[m[1]] {
			complain("there is no decision %s", m[1])
		}
	}
}

// link checks that a link on a page leads somewhere in the repository.
func (k *known) link(page, target string, complain func(string, ...any)) {
	if strings.Contains(target, "://") {
		return
	}
	file, anchor, _ := strings.Cut(target, "#")
	to := page
	if file != "" {
		to = path.Join(path.Dir(page), file)
	}
	if _, ok := k.files[to]; !ok && !k.dirs[to] {
		complain("there is no %s", to)
	} else if anchor != "" && !k.headings[to][anchor] {
		complain("%s has no heading %s", to, anchor)
	}
}

// checkDecisions: each decision has a number of its own, which its title begins with, and one line of the index.
func checkDecisions(pages map[string]string) (out []string) {
	const dir = "docs/decisions/"
	index := pages[dir+"README.md"]
	numbers := map[string]string{}
	for p, text := range pages {
		name, ok := strings.CutPrefix(p, dir)
		if !ok || name == "README.md" {
			continue
		}
		number, _, _ := strings.Cut(name, "-")
		if other, twice := numbers[number]; twice {
			out = append(out, fmt.Sprintf("%s and %s have one number", other, p))
		}
		numbers[number] = p
		if !strings.HasPrefix(text, "# "+number) {
			out = append(out, p+": its title does not begin with its number")
		}
		if n := strings.Count(index, "| ["+number+"]("+name+") |"); n != 1 {
			out = append(out, fmt.Sprintf("%sREADME.md has %d lines for %s", dir, n, name))
		}
	}
	return out
}

// comments checks the decisions and tests that a source file's comments name.
func (k *known) comments(s *source) (out []string) {
	for _, g := range s.ast.Comments {
		for _, c := range g.List {
			k.prose(c.Text, func(format string, args ...any) {
				out = append(out, s.at(c.Pos())+": "+fmt.Sprintf(format, args...))
			})
		}
	}
	return out
}

// repository lists the files of the working tree, and the text of its pages.
func repository(t *testing.T) (paths []string, pages map[string]string) {
	t.Helper()
	pages = map[string]string{}
	err := filepath.WalkDir(root(), func(p string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(root(), p)
		if err != nil {
			return err
		}
		rel = filepath.ToSlash(rel)
		if d.IsDir() {
			if rel == ".git" || rel == "bin" {
				return filepath.SkipDir
			}
			return nil
		}
		paths = append(paths, rel)
		if strings.HasSuffix(rel, ".md") {
			text, err := os.ReadFile(p)
			pages[rel] = string(text)
			return err
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(pages) < 10 {
		t.Fatalf("only %d pages found: the test does not look where they are", len(pages))
	}
	return paths, pages
}

func TestPages(t *testing.T) {
	bugs, err := os.ReadFile(filepath.Join(root(), "internal", "sim", "planted_on_test.go"))
	if err != nil {
		t.Fatal(err)
	}
	paths, pages := repository(t)
	sources := append(tree(t), below(t, "test")...)
	k := learn(sources, paths, pages, string(bugs))
	for name, text := range pages {
		complaints, functions := k.page(name, text)
		report(t, complaints)
		if name != "ARCHITECTURE.md" {
			continue
		}
		if len(text) > architectureBytesMax {
			t.Errorf("ARCHITECTURE.md has %d bytes; the limit is %d", len(text), architectureBytesMax)
		}
		if functions < 25 {
			t.Errorf("ARCHITECTURE.md names %d functions: its steps must say where they happen", functions)
		}
	}
	for i := range sources {
		report(t, k.comments(&sources[i]))
	}
	report(t, checkDecisions(pages))
}

// architectureBytesMax is what can be read in ten minutes.
const architectureBytesMax = 12 << 10
