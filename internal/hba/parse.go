package hba

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
)

// Methods of authentication that a rule may ask for here.
const (
	Trust  = "trust"
	Reject = "reject"
	SCRAM  = "scram-sha-256"
	MD5    = "md5" // or SCRAM-SHA-256, whichever the role's password is kept for
	Cert   = "cert"
)

// postgresMethods are those that PostgreSQL knows.
var postgresMethods = []string{Trust, Reject, SCRAM, MD5, Cert, "password", "peer", "ident", "gss", "sspi", "pam",
	"bsd", "ldap", "radius", "oauth"}

// Rule is one line about clients.
type Rule struct {
	File   string
	Line   int
	Type   string // local, host, hostssl, hostnossl, hostgssenc, hostnogssenc
	Method string
	// Certificate asks for a certificate of the client: "", "verify-ca", or "verify-full", where its common name must
	// be the user's.
	Certificate string

	databases, users []token
	address          address
}

// String names the rule's place.
func (r *Rule) String() string { return fmt.Sprintf("%s:%d", r.File, r.Line) }

// Rules are those of one file, in their order.
type Rules struct {
	list  []Rule
	files map[string][]byte
	read  func(path string) ([]byte, error)
}

// Load reads a file and the files that it names with "@".
func Load(path string) (*Rules, error) { return load(path, os.ReadFile) }

func load(path string, read func(string) ([]byte, error)) (*Rules, error) {
	r := &reader{read: read, files: map[string][]byte{}}
	rules := &Rules{files: r.files, read: read}
	lines, err := r.lines(path, 0)
	errs := []error{err}
	for _, l := range lines {
		rule, err := parse(l)
		if err != nil {
			errs = append(errs, at(path, l.number, err))
			continue
		}
		rule.File, rule.Line = path, l.number
		rules.list = append(rules.list, rule)
	}
	if err := errors.Join(errs...); err != nil {
		return rules, err
	}
	return rules, nil
}

// Changed reports whether one of the files that were read holds something else now. Rules that Load refused can be
// asked, too.
func (r *Rules) Changed() bool {
	for path, was := range r.files {
		now, err := r.read(path)
		if err != nil {
			now = nil
		}
		if (now == nil) != (was == nil) || !bytes.Equal(now, was) {
			return true
		}
	}
	return false
}

// Half reports whether a file ends within a line, as one does that is just being written.
func (r *Rules) Half() bool {
	for _, b := range r.files {
		if len(b) > 0 && b[len(b)-1] != '\n' {
			return true
		}
	}
	return false
}

// Capabilities are what a member can do for its clients.
type Capabilities struct {
	Trust  bool // clients may be let in without a password
	TLS    bool // clients may speak TLS
	Verify bool // and must then present a certificate that is verified
}

// Check refuses rules that a member cannot honour. What it warns of are rules that can match nobody.
func (r *Rules) Check(c Capabilities) (warnings []string, err error) {
	var errs []error
	for i := range r.list {
		rule := &r.list[i]
		switch {
		case rule.Type == "local":
		case rule.Method == Trust && !c.Trust:
			err = errors.New("trust needs allow_trust = true in [postgres]")
		case !slices.Contains([]string{Trust, Reject, SCRAM, MD5, Cert}, rule.Method):
			err = fmt.Errorf("method %s is not possible here: use scram-sha-256, md5, cert, reject or trust",
				rule.Method)
		case rule.Certificate != "" && !c.Verify:
			err = errors.New("certificates of clients need ca in [client_tls]")
		case rule.Type == "hostssl" && !c.TLS:
			warnings = append(warnings, fmt.Sprintf("%v: hostssl matches nobody, as [client_tls] has no certificate",
				rule))
		case rule.Type == "hostgssenc":
			warnings = append(warnings, fmt.Sprintf("%v: hostgssenc matches nobody, as GSSAPI encryption is not "+
				"possible here",
				rule))
		}
		if err != nil {
			errs = append(errs, at(rule.File, rule.Line, err))
			err = nil
		}
	}
	return warnings, errors.Join(errs...)
}

// What a line may begin with, here and in PostgreSQL's files.
var (
	connectionTypes = []string{"local", "host", "hostssl", "hostnossl", "hostgssenc", "hostnogssenc"}
	includes        = []string{"include", "include_if_exists", "include_dir"}
)

// parse makes a rule of a line's fields, as parse_hba_line in PostgreSQL's hba.c does.
func parse(l line) (r Rule, err error) {
	if l.err != nil {
		return r, l.err
	}
	f := fielder{l.fields}
	kind, err := f.one("connection type", "connection type")
	if err != nil {
		return r, err
	}
	if r.Type = kind.text; slices.Contains(includes, r.Type) {
		return r, fmt.Errorf("%s is not possible here", r.Type)
	} else if !slices.Contains(connectionTypes, r.Type) {
		return r, fmt.Errorf("invalid connection type %q", r.Type)
	}
	if r.databases, err = f.names("database specification"); err != nil {
		return r, err
	}
	if r.users, err = f.names("role specification"); err != nil {
		return r, err
	}
	if r.Type != "local" {
		if r.address, err = parseAddress(&f); err != nil {
			return r, err
		}
	}
	method, err := f.one("authentication method", "authentication type")
	if err != nil {
		return r, err
	}
	if r.Method = method.text; !slices.Contains(postgresMethods, r.Method) {
		return r, fmt.Errorf("invalid authentication method %q", r.Method)
	}
	if r.Type == "local" {
		return r, nil // its options are PostgreSQL's own
	}
	if err := r.suits(); err != nil {
		return r, err
	}
	return r, r.options(f.rest)
}

// suits: the method goes with the type of connection.
func (r *Rule) suits() error {
	switch {
	case r.Method == "peer":
		return errors.New("peer authentication is only supported on local sockets")
	case r.Method == Cert && r.Type != "hostssl":
		return errors.New("cert authentication is only supported on hostssl connections")
	case r.Type == "hostgssenc" && r.Method != "gss" && r.Method != Reject && r.Method != Trust:
		return errors.New("GSSAPI encryption only supports gss, trust, or reject authentication")
	}
	return nil
}

// options reads what follows the method.
func (r *Rule) options(fields [][]token) error {
	if r.Method == Cert {
		r.Certificate = "verify-full"
	}
	for _, t := range slices.Concat(fields...) {
		name, value, ok := strings.Cut(t.text, "=")
		if !ok {
			return fmt.Errorf("authentication option not in name=value format: %s", t.text)
		}
		switch {
		case name != "clientcert" && name != "clientname":
			return fmt.Errorf("authentication option %q is not possible here", name)
		case r.Type != "hostssl":
			return fmt.Errorf("%s can only be configured for \"hostssl\" rows", name)
		case name == "clientname" && value != "CN":
			return fmt.Errorf("clientname=%s is not possible here: use CN", value)
		case name == "clientname":
		case value != "verify-ca" && value != "verify-full":
			return fmt.Errorf("invalid value for clientcert: %q", value)
		case r.Method == Cert && value != "verify-full":
			return errors.New(`clientcert only accepts "verify-full" when using "cert" authentication`)
		default:
			r.Certificate = value
		}
	}
	return nil
}

// fielder takes fields off a line.
type fielder struct{ rest [][]token }

func (f *fielder) take(what string) ([]token, error) {
	if len(f.rest) == 0 {
		return nil, fmt.Errorf("end-of-line before %s", what)
	}
	field := f.rest[0]
	f.rest = f.rest[1:]
	return field, nil
}

func (f *fielder) one(what, several string) (token, error) {
	field, err := f.take(what)
	if err == nil && len(field) > 1 {
		err = fmt.Errorf("multiple values specified for %s", several)
	}
	if err != nil {
		return token{}, err
	}
	return field[0], nil
}

// names takes databases or users. From version 16 on PostgreSQL takes what begins with a slash for a regular
// expression, before that for a name.
func (f *fielder) names(what string) ([]token, error) {
	field, err := f.take(what)
	for _, t := range field {
		if strings.HasPrefix(t.text, "/") {
			return nil, fmt.Errorf("regular expressions are not possible here: %s", t.text)
		}
	}
	return field, err
}
