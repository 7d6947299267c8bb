package hba

import (
	"errors"
	"fmt"
	"path/filepath"
	"strings"
)

const (
	tokenBytesMax   = 255 // as in PostgreSQL 15, which skips longer ones
	includeDepthMax = 10
	includesMax     = 1000
)

// token is one word of a field. A quoted one is never a keyword.
type token struct {
	text   string
	quoted bool
}

// is reports whether the token is this keyword.
func (t token) is(keyword string) bool { return !t.quoted && t.text == keyword }

// line is one record of a file: its fields are lists of tokens.
type line struct {
	number int
	fields [][]token
	err    error // it cannot be read
}

// reader reads files and what they include.
type reader struct {
	read  func(path string) ([]byte, error)
	files map[string][]byte // what was read; nil: it could not be
	count int
}

func (r *reader) file(path string) (string, error) {
	if r.count++; r.count > includesMax {
		return "", fmt.Errorf("more than %d files are included", includesMax)
	}
	b, err := r.read(path)
	r.files[path] = b
	if err != nil {
		return "", err
	}
	if strings.IndexByte(string(b), 0) >= 0 {
		return "", fmt.Errorf("%s holds a zero byte", path)
	}
	return string(b), nil
}

// lines cuts a file into records. A backslash at the end of a line continues the record in the next one.
func (r *reader) lines(path string, depth int) (out []line, err error) {
	text, err := r.file(path)
	if err != nil {
		return nil, err
	}
	for number := 1; text != ""; {
		first, record, cut := number, "", false
		for {
			var physical string
			physical, text, _ = strings.Cut(text, "\n")
			number++
			physical = strings.TrimRight(physical, "\r")
			more := strings.HasSuffix(physical, `\`)
			record += strings.TrimSuffix(physical, `\`)
			if cut = more && text == ""; cut || !more {
				break
			}
		}
		fields, err := r.fields(path, record, depth)
		if cut {
			err = errors.New("the last line ends with a backslash")
		}
		if len(fields) > 0 || err != nil {
			out = append(out, line{first, fields, err})
		}
	}
	return out, nil
}

func at(path string, line int, err error) error {
	return fmt.Errorf("%s, line %d: %w", path, line, err)
}

// fields cuts a record into fields, as next_field_expand in PostgreSQL's hba.c does.
func (r *reader) fields(path, record string, depth int) (out [][]token, err error) {
	for s := record; ; {
		var field []token
		for {
			t, rest, ok, comma := next(s)
			s = rest
			if !ok {
				break
			}
			switch {
			case len(t.text) > tokenBytesMax:
				return nil, fmt.Errorf("a word has more than %d bytes", tokenBytesMax)
			case !t.quoted && strings.HasPrefix(t.text, "@") && len(t.text) > 1:
				more, err := r.include(path, t.text[1:], depth)
				if err != nil {
					return nil, err
				}
				field = append(field, more...)
			default:
				field = append(field, t)
			}
			if !comma {
				break
			}
		}
		if len(field) > 0 {
			out = append(out, field)
		} else if s == "" {
			return out, nil
		}
	}
}

// include reads the words of another file, for "@file".
func (r *reader) include(from, name string, depth int) (out []token, err error) {
	if depth >= includeDepthMax {
		return nil, fmt.Errorf("files include each other more than %d deep", includeDepthMax)
	}
	if !filepath.IsAbs(name) {
		name = filepath.Join(filepath.Dir(from), name)
	}
	lines, err := r.lines(name, depth+1)
	for _, l := range lines {
		err = errors.Join(err, l.err)
		for _, f := range l.fields {
			out = append(out, f...)
		}
	}
	if err == nil && len(out) == 0 {
		err = fmt.Errorf("%s holds no words", name) // in PostgreSQL the next field would take this one's place
	}
	return out, err
}

// next takes one token off s, and says whether there was one, and whether a comma followed it. It is next_token in
// PostgreSQL's hba.c.
func next(s string) (t token, rest string, ok, comma bool) {
	i := 0
	for i < len(s) && apart(s[i]) {
		i++
	}
	var b strings.Builder
	inQuote, wasQuote, sawQuote := false, false, false
	for ; i < len(s) && (!blank(s[i]) || inQuote); i++ {
		c := s[i]
		if c == '#' && !inQuote {
			i = len(s)
			break
		}
		if c == ',' && !inQuote {
			comma = true
			i++
			break
		}
		if c != '"' || wasQuote {
			b.WriteByte(c)
		}
		wasQuote = inQuote && c == '"' && !wasQuote
		if c == '"' {
			inQuote, sawQuote = !inQuote, true
			t.quoted = t.quoted || b.Len() == 0
		}
	}
	t.text = b.String()
	return t, s[i:], sawQuote || t.text != "", comma
}

// apart: c is between tokens.
func apart(c byte) bool { return blank(c) || c == ',' }

func blank(c byte) bool { return c == ' ' || c == '\t' || c == '\r' }
