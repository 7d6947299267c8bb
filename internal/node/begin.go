package node

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/tuttidb/tutti/internal/bootstrap"
	"github.com/tuttidb/tutti/internal/database/instance"
	"github.com/tuttidb/tutti/internal/database/link"
	"github.com/tuttidb/tutti/internal/databases"
	"github.com/tuttidb/tutti/internal/failure"
	"github.com/tuttidb/tutti/internal/process"
	"github.com/tuttidb/tutti/internal/standing"
)

const (
	waitLogEvery = 10 * time.Second // how often a member says for whom it waits
	// A member that must not start tells the others what it has for at least so long, and until it has heard of all of
	// them.
	explainLeast = time.Second
	explainMost  = 15 * time.Second
	explainPoll  = 50 * time.Millisecond
)

// appear opens the main database's log, or makes it if this member may (package bootstrap), and the connections to the
// other members. The log is the main life's then.
func (t *tenure) appear(ctx context.Context) error {
	dir := standing.LogDir(t.node.config, mainGroup)
	_, err := os.Stat(dir)
	switch {
	case err == nil:
		if err = t.takeLog(dir); err == nil {
			err = t.openTransport()
		}
		return err
	case !errors.Is(err, os.ErrNotExist):
		return &failure.Fatal{Err: err}
	}
	if err := t.makeLog(ctx, dir); err != nil {
		return err
	}
	if err := t.takeLog(dir); err != nil {
		return err
	}
	t.made = true
	t.transport.Renew()
	return nil
}

// takeLog opens the main database's log for this tenure.
func (t *tenure) takeLog(dir string) error {
	disk, err := standing.OpenLog(dir, t.node.config, t.node.faults)
	if err != nil {
		return &failure.Fatal{Err: err}
	}
	if err := t.standing.Adopt(disk); err != nil {
		return &failure.Fatal{Err: errors.Join(err, disk.Close())}
	}
	t.disk = disk
	return nil
}

// makeLog makes the main database's log once the other members have said that they know of none of this member's.
func (t *tenure) makeLog(ctx context.Context, dir string) error {
	log := t.node.log
	if err := t.findContents(ctx, dir); err != nil {
		return err
	}
	if err := t.openTransport(); err != nil {
		return err
	}
	var said string
	var since time.Time
	for {
		t.connect() // it may have heard of a newer list of members
		d := t.standing.Decide()
		switch d.Do {
		case bootstrap.Refuse:
			t.explain(ctx)
			return &failure.Fatal{Err: errors.New(d.Why)}
		case bootstrap.Ask:
			return &logLostError{d.Why}
		case bootstrap.Copy:
			return &copyError{from: d.From, why: d.Why}
		case bootstrap.Create:
			if err := t.node.config.MayBegin(); err != nil {
				return &failure.Config{Err: err}
			}
			if err := t.standing.CreateMainLog(dir, t.node.faults); err != nil {
				return &failure.Fatal{Err: err}
			}
			t.node.config.Begun()
			log.Info("made the log: all other members know of none of this one's before", "log", dir)
			return nil
		}
		if d.Why != said || time.Since(since) > waitLogEvery {
			log.Info("waits to make its log", "why", d.Why)
			said, since = d.Why, time.Now()
		}
		t.node.waits.Store(&d.Why)
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case err := <-t.pg.Exited():
			return fmt.Errorf("PostgreSQL ended: %w", errors.Join(err, errDatabaseGone))
		case <-t.standing.News():
		case <-time.After(waitLogEvery):
			t.transport.Renew() // others may say something else by now
		}
	}
}

// findContents looks what there is in the databases of a member that has no log.
func (t *tenure) findContents(ctx context.Context, logDir string) error {
	contents, err := standing.ReadContents(ctx, t.connString, t.node.config, logDir)
	if err == nil && contents.CopyOf == 0 {
		contents.Adopted, err = instance.Adopted(t.node.serverDir())
	}
	if err == nil {
		t.standing.Found(contents)
	}
	return err
}

// explain lets a member that must not start tell the others what it has, so that those that must not, either, find out
// by themselves.
func (t *tenure) explain(ctx context.Context) {
	began := time.Now()
	for t.standing.Silent() && time.Since(began) < explainMost && process.Sleep(ctx, explainPoll) {
	}
	process.Sleep(ctx, explainLeast)
}

// connString is that of a database for what Tutti does by itself.
func (t *tenure) connString(database string) string {
	return t.pg.ConnString(superuser, database) + link.OwnOptions(t.pg.Build().Major)
}

// begins compares databases that have no part of the order yet with what the log says that this member began with: the
// order says only what has changed since. A member that has just made its log has compared already. It gives what is to
// be in the main database of what holds for the cluster.
func (l *life) begins(ctx context.Context) (*bootstrap.Record, error) {
	if l.id.group != mainGroup {
		return nil, nil
	}
	began, record := l.tenure.standing.Began(), l.tenure.standing.BeganWith()
	if l.tenure.made || began == nil || began.CopyOf != 0 {
		return record, nil
	}
	now, err := standing.ReadAll(ctx, l.tenure.connString, l.id.database)
	if err != nil {
		return nil, err
	}
	if d := now.Difference(began, "this database", "the beginning"); d != "" {
		return nil, &failure.Fatal{Err: fmt.Errorf("the database is not the one with which %s began, and the log says "+
			"only what has changed since: %s. %s",
			l.config.Self().Name, d, standing.HowToClone(l.config))}
	}
	return record, nil
}

// openDisk opens the life's log. That of the main database is open since the tenure's beginning. Another one's is made
// at its first life.
func (l *life) openDisk(ctx context.Context, conn string) (err error) {
	s := l.tenure.standing
	if l.id.group == mainGroup {
		l.order.disk, l.id.incarnation, l.tenure.disk = l.tenure.disk, s.Incarnation(), nil
		return nil
	}
	if err := s.MayHaveVoted(l.id.group, l.id.logDir); err != nil {
		return err
	}
	if err := standing.MayCreateLog(ctx, conn, l.id.logDir, l.config); err != nil {
		return err
	}
	if _, err := os.Stat(l.id.logDir); errors.Is(err, os.ErrNotExist) {
		voters, learners, err := databases.First(ctx, l.tenure.connString(l.config.Database), l.id.group)
		if err != nil {
			return err
		}
		if err := s.CreateLog(l.id.group, l.id.logDir, voters, learners, l.node.faults); err != nil {
			return &failure.Fatal{Err: err}
		}
	}
	if l.order.disk, err = standing.OpenLog(l.id.logDir, l.config, l.node.faults); err != nil {
		return &failure.Fatal{Err: err}
	}
	if err := s.Made(l.id.group); err != nil {
		return &failure.Fatal{Err: err}
	}
	l.id.incarnation, err = l.order.disk.NextIncarnation()
	return err
}
