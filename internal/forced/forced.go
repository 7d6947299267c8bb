package forced

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"text/tabwriter"
	"time"

	"github.com/tuttidb/tutti/internal/config"
	"github.com/tuttidb/tutti/internal/ordering"
	"github.com/tuttidb/tutti/internal/raftlog"
	"github.com/tuttidb/tutti/internal/standing"
)

// Options are those of tutti recover.
type Options struct {
	Config string // the node's
	Force  bool   // go on alone; else it is only said with what
	Format string // table or json
}

// answerTime is how long another member has to answer.
const answerTime = 2 * time.Second

// Log is what one order would go on with.
type Log struct {
	Directory string `json:"directory"`
	Last      uint64 `json:"last"`   // its last entry
	Term      uint64 `json:"term"`   // of that; of two logs, that of the later term, then the longer one, has more
	Known     uint64 `json:"known"`  // the last entry that the member knew to be decided
	Forced    bool   `json:"forced"` // it was before
	Terms     []Term `json:"terms"`  // of its entries, see Export
}

// Report is what is printed.
type Report struct {
	Member string   `json:"member"`
	Answer []string `json:"answer"` // other members that do
	Logs   []Log    `json:"logs"`
	Forced bool     `json:"forced"`
}

// Run says with what a node that does not run would go on alone and, if it is to, has it do so when it is started
// again.
func Run(o Options, w io.Writer) error {
	if o.Format != "table" && o.Format != "json" {
		return fmt.Errorf("output %q is not known: use table or json", o.Format)
	}
	c, all, err := open(o.Config)
	if err != nil {
		return err
	}
	if c.Witness {
		return errors.Join(fmt.Errorf("%s is a witness, and has no database to go on with. With it, one member that "+
			"has a database is a majority of three: start both", c.Self().Name), all.close())
	}
	r, err := all.report(c)
	if err == nil && o.Force && len(r.Answer) == 0 {
		err = all.force(c)
		r.Forced = err == nil
	}
	if err = errors.Join(err, all.close()); err != nil {
		return err
	}
	if err := r.print(w, o.Format); err != nil {
		return err
	}
	if o.Force && !r.Forced {
		return fmt.Errorf("nothing was changed: %s can be reached, and may go on with others. Stop them for good "+
			"first, or go on with them", strings.Join(r.Answer, ", "))
	}
	return nil
}

// logs are the directories of a node's logs, the main database's first.
func logs(c *config.Config) ([]string, error) {
	main := standing.LogDir(c, standing.MainGroup)
	is, err := os.Stat(filepath.Join(main, "identity"))
	if err != nil {
		return nil, fmt.Errorf("%s has no log in %s: only a member that has one can go on: %w", c.Self().Name, main,
			err)
	}
	if owner, ok := is.Sys().(*syscall.Stat_t); ok && int(owner.Uid) != os.Geteuid() {
		return nil, fmt.Errorf("%s belongs to the user with id %d: run this as that user, or the node could not open "+
			"what is written here", main, owner.Uid)
	}
	more, err := standing.OtherLogs(c)
	if err != nil {
		return nil, fmt.Errorf("it cannot be seen which logs %s has: %w", c.Self().Name, err)
	}
	return append([]string{main}, more...), nil
}

// answering lists the other members at whose ports for members somebody is there.
func answering(c *config.Config) []string {
	list := []string{}
	for _, m := range c.Members {
		if m.Member == c.Member {
			continue
		}
		conn, err := net.DialTimeout("tcp", m.Address, answerTime)
		if err == nil {
			list = append(list, fmt.Sprintf("%s (%s)", m.Name, m.Address))
			_ = conn.Close() // nothing was said
		}
	}
	return list
}

// opened is a log that is open, so that no node can begin with it meanwhile, and what makes this member go on alone
// with it.
type opened struct {
	dir   string
	disk  *raftlog.Log
	makes *ordering.Forced
}

type openedLogs []opened

// open opens all logs of a node that does not run.
func open(file string) (c *config.Config, all openedLogs, err error) {
	if c, err = config.Load(file); err != nil {
		return nil, nil, err
	}
	dirs, err := logs(c)
	if err != nil {
		return nil, nil, err
	}
	for _, dir := range dirs {
		disk, err := standing.OpenLog(dir, c, nil)
		if err != nil {
			return nil, nil, errors.Join(fmt.Errorf("%w. The node must not run", err), all.close())
		}
		all = append(all, opened{dir: dir, disk: disk})
	}
	return c, all, nil
}

func (all openedLogs) close() (err error) {
	for _, l := range all {
		err = errors.Join(err, l.disk.Close())
	}
	return err
}

// report says what the logs hold, and which others answer: they are asked last, as logs may be large.
func (all openedLogs) report(c *config.Config) (*Report, error) {
	r := &Report{Member: c.Self().Name}
	for i := range all {
		l := &all[i]
		f, err := ordering.Force(l.disk, c.Member)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", l.dir, err)
		}
		l.makes = f
		history, err := terms(l.disk)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", l.dir, err)
		}
		r.Logs = append(r.Logs, Log{Directory: l.dir, Last: f.Last, Term: f.Term, Known: f.Known,
			Forced: f.State == nil, Terms: history})
		for _, m := range f.Others {
			if _, known := c.Find(m); !known {
				return nil, fmt.Errorf("by %s, member %d gets that log as well, and [[members]] does not say where it "+
					"is: name it there, as SHOW tutti.members had it, so that it can be asked", l.dir, m)
			}
		}
	}
	r.Answer = answering(c)
	return r, nil
}

// force has this member go on alone: first the others are lost (FO3), then it is the only voter of each log.
func (all openedLogs) force(c *config.Config) error {
	var lost []uint32
	for _, m := range c.Members {
		if m.Member != c.Member {
			lost = append(lost, m.Member)
		}
	}
	if err := c.Lose(lost); err != nil {
		return err
	}
	for _, l := range all {
		if l.makes.State == nil {
			continue
		}
		if err := l.disk.Append(l.makes.State, l.makes.Entries, true); err != nil {
			return fmt.Errorf("%w. Mend it and run this again before the node is started", err)
		}
	}
	return nil
}

func (r *Report) print(w io.Writer, format string) error {
	if format == "json" {
		e := json.NewEncoder(w)
		e.SetIndent("", "  ")
		return e.Encode(r)
	}
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "LOG\tTERM\tLAST ENTRY\tKNOWN TO BE DECIDED\tVOTER") //nolint:errcheck // Flush tells
	for _, l := range r.Logs {
		voter := "with others"
		if l.Forced || r.Forced {
			voter = "alone"
		}
		fmt.Fprintf(t, "%s\t%d\t%d\t%d\t%s\n", filepath.Base(l.Directory), l.Term, l.Last, l.Known, voter)
	}
	if err := t.Flush(); err != nil {
		return err
	}
	text := "\nOf all members that are left, go on with the one whose log has the greatest term, and of these the " +
		"greatest last entry. With --force this one goes on alone.\n"
	if r.Forced {
		text = "\n" + r.Member + " goes on alone when it is started. The others are refused from then on: never " +
			"start them again with what they have. Members are added as to any cluster (tutti join, tutti member " +
			"add).\n"
	}
	_, err := io.WriteString(w, text)
	return err
}
