package session

import (
	"strings"
	"unicode/utf8"

	"github.com/tuttidb/tutti/internal/semantics"
	"github.com/tuttidb/tutti/internal/wire"
)

// texts is what the texts of a session's client mean: to us, to its backend, and beyond its transaction.
type texts struct {
	facts    Facts
	reserved Marks
	cache    *cache

	escape   bool  // standard_conforming_strings is off
	encoded  bool  // the client's encoding is not UTF-8
	trailing bool  // and one in which a backslash can be the second byte of a letter
	code     bool  // functions may have been made in it that no other has
	heirs    bool  // temporary tables of the session's have inherited from permanent ones; see marks
	prepared Reach // of what was prepared in SQL
}

// noteParameter follows the backend's settings that change how a text is read.
func (t *texts) noteParameter(name, value string) {
	switch name {
	case "standard_conforming_strings":
		t.escape = value == "off"
	case "client_encoding":
		t.encoded, t.trailing = value != "UTF8", trailing[value]
	}
}

// trailing are PostgreSQL's encodings for clients, and for nothing else, whose letters can have a second byte that is
// ASCII.
var trailing = map[string]bool{"SJIS": true, "SHIFT_JIS_2004": true, "BIG5": true, "GBK": true, "GB18030": true,
	"UHC": true, "JOHAB": true}

// misread reports whether PostgreSQL may read a text otherwise than we do.
func (t *texts) misread(sql string) bool {
	return t.trailing && t.foreign(sql)
}

// foreign reports whether a text is not in UTF-8, in which other members read it. PostgreSQL notes what it has carried
// out in its own encoding.
func (t *texts) foreign(sql string) bool {
	return t.encoded && strings.IndexFunc(sql, func(c rune) bool { return c >= utf8.RuneSelf }) >= 0
}

// errForeign refuses what other members would read otherwise, since it is not in UTF-8.
func errForeign(what string) *wire.SQLError {
	return wire.Errorf(wire.CodeFeatureNotSupported, "%s with other characters than those of ASCII while "+
		"client_encoding is not UTF8", what).WithHint("SET client_encoding = 'UTF8'.")
}

func errForeignNote() *wire.SQLError {
	return errForeign("setval cannot be replicated as a prepared statement")
}

// plainTexts reports whether the server reads texts as the session does.
func (t *texts) plainTexts() bool { return !t.escape && !t.encoded }

// told is semantics.Told, but where strings may end elsewhere than it says.
func (t *texts) told(sql string) string {
	if t.escape && strings.Contains(sql, `\`) {
		return sql
	}
	return semantics.Told(sql)
}

// forged refuses a text with a comment of ours in it, which could hide a write from capture.
func (t *texts) forged(sql string) *wire.SQLError {
	if mark := t.reserved.Mark(); strings.Contains(sql, mark) {
		return wire.Errorf(wire.CodeInsufficientPrivilege, "the comment \"%s…\" is reserved for Tutti", mark)
	}
	return nil
}

// classify finds out what a text is. With standard_conforming_strings off PostgreSQL reads it otherwise than
// with it on: it could hide a COMMIT from us.
func (t *texts) classify(sql string) ([]semantics.Statement, *wire.SQLError) {
	if e := t.forged(sql); e != nil {
		return nil, e
	}
	if !t.escape || !strings.Contains(sql, `\`) {
		list := t.cache.classify(sql)
		for i := range list {
			t.code = t.code || list[i].Code
		}
		return list, nil
	}
	t.code = true
	meant, ok, unsafe := semantics.Escaped(sql)
	if unsafe {
		return []semantics.Statement{{Kind: semantics.Unknown, Text: sql}}, nil
	}
	if !ok || t.encoded {
		return nil, errBackslash()
	}
	list := t.cache.classify(meant)
	if len(list) > 1 || list[0].Password != nil {
		return list, nil
	}
	one := list[0]
	one.Text, one.Many, one.Compared = sql, false, nil
	return []semantics.Statement{one}, nil
}

// errBackslash is told where a backslash would mean to us something else than to PostgreSQL.
func errBackslash() *wire.SQLError {
	return wire.Errorf(wire.CodeFeatureNotSupported,
		"a backslash cannot be used here while standard_conforming_strings is off").
		WithHint("Set standard_conforming_strings to on, and write E'…' where backslashes shall escape.")
}

// readOtherwise reports whether a text that was split off while standard_conforming_strings was on may mean something
// else with it off: PostgreSQL has read the whole Query at once, and gets it in pieces from us.
func readOtherwise(sql string) bool {
	meant, ok, unsafe := semantics.Escaped(sql)
	return !ok || unsafe || meant != sql
}
