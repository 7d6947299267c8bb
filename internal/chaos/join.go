package chaos

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/pelletier/go-toml/v2"

	"github.com/tuttidb/tutti/internal/config"
)

// joinTimeout is how long a node may take from its start until it serves.
const joinTimeout = 3 * time.Minute

// keys is the directory that whoever joins needs a copy of: what tutti init makes at the first node.
func (o *Options) keys() string { return filepath.Join(o.Dir, "cluster") }

func (c *cluster) writeKeys() error {
	if err := os.MkdirAll(c.o.keys(), 0o700); err != nil {
		return err
	}
	common := fmt.Sprintf("cluster = %q\ndatabase = \"postgres\"\n", clusterName)
	return errors.Join(c.ca.Save(c.o.keys()),
		os.WriteFile(filepath.Join(c.o.keys(), "cluster.toml"), []byte(common), 0o600),
		os.WriteFile(filepath.Join(c.o.keys(), "secret"), []byte(clusterSecret+"\n"), 0o600))
}

// newcomer is a node that joins.
type newcomer struct {
	*cluster
	n       *node
	started time.Time
}

// join has a node join as a user would, and makes another fault meanwhile. What heals that waits until the new node
// serves.
func (c *cluster) join(ctx context.Context, w window) (heal func() error, err error) {
	j := &newcomer{cluster: c, n: c.o.newNode(len(c.known())+1, c.freePlace())}
	n := j.n
	n.member = n.name()
	if w.fault.Same {
		n.member = c.lastRemoved().member
	}
	healed := nothing
	early := w.fault.Beside != "" && w.fault.Other && w.fault.Stage == 0
	if early {
		if healed, err = j.forAWhile(ctx, w); err != nil {
			return healed, err
		}
	}
	if err := j.enlist(ctx); err != nil {
		return nil, err
	}
	c.add(n)
	if err := c.mountDisk(n); err != nil {
		return nil, err
	}
	j.started = time.Now()
	c.wg.Go(func() { c.supervise(ctx, n) })
	if w.fault.Beside != "" && !early {
		j.comesTo(ctx, joinStages[w.fault.Stage].says)
		sleep(ctx, time.Duration(w.fault.Millis)*time.Millisecond)
		c.say("%s at node%d, while %s joins", w.fault.Beside, w.beside, n.name())
		if healed, err = c.strike(ctx, c.besides(w)); err != nil {
			return healed, err
		}
	}
	return func() error { return errors.Join(healed(), j.becomes(ctx)) }, nil
}

// forAWhile makes the fault beside a join, and heals it when its time is over. What it returns waits for that.
func (j *newcomer) forAWhile(ctx context.Context, w window) (healed func() error, err error) {
	heal, err := j.strike(ctx, j.besides(w))
	if err != nil {
		return heal, err
	}
	done := make(chan error, 1)
	go func() {
		sleep(ctx, w.fault.For)
		done <- heal()
	}()
	return func() error { return <-done }, nil
}

// stageTimeout is how long it is waited until a node that joins comes to a stage.
const stageTimeout = time.Minute

// comesTo waits until the node's log says this, for a while.
func (j *newcomer) comesTo(ctx context.Context, says string) {
	for deadline := time.Now().Add(stageTimeout); time.Now().Before(deadline); {
		log, err := os.ReadFile(j.n.logFile)
		if err == nil && strings.Contains(string(log), says) || !sleep(ctx, pollInterval) {
			return
		}
	}
}

// becomes waits until the node serves, which makes it a member as the others.
func (j *newcomer) becomes(ctx context.Context) error {
	if err := j.serves(ctx); err != nil {
		return err
	}
	j.enter(j.n, stageMember)
	j.say("%s serves %.1f s after its start", j.n.name(), time.Since(j.started).Seconds())
	return j.keepFiles()
}

// enlist adds a member and makes its node's files, by the command that is for it, at whichever member can.
func (j *newcomer) enlist(ctx context.Context) error {
	c, n := j.cluster, j.n
	dir := filepath.Join(c.o.Dir, n.name())
	args := []string{"join", "--keys", c.o.keys(), "--dir", dir, "--name", n.member, "--listen",
		c.net.clientAddress(n.place), "--member-listen", c.net.memberAddress(n.place), "--pg-bin-dir", c.binDir,
		"--allow-trust"}
	if err := c.untilDone(ctx, n, func(by *node) error {
		out, err := c.tool(ctx, append(args, "--from", c.address(by.k))...)
		if err != nil {
			return fmt.Errorf("tutti join from %s: %w: %s", by.name(), err, out)
		}
		return nil
	}); err != nil {
		return err
	}
	text, err := os.ReadFile(filepath.Join(dir, "node.toml"))
	if err == nil {
		err = toml.Unmarshal(text, &n.config)
	}
	if err != nil {
		return err
	}
	if int(n.config.Member) != n.k {
		return fmt.Errorf("%s was given number %d", n.name(), n.config.Member)
	}
	n.config.DataDir = filepath.Join(dir, n.config.DataDir)
	if c.adapt(&n.config); c.o.inTheClear() {
		n.config.MemberTLS = config.MemberTLS{}
	}
	return n.write()
}

// untilDone tries at one member after the other until it is done; the first one is the one before n.
func (c *cluster) untilDone(ctx context.Context, n *node, try func(by *node) error) (err error) {
	for deadline := time.Now().Add(c.o.Recover); ; {
		members := slices.DeleteFunc(c.members(), func(m *node) bool { return m == n })
		for i := range members {
			by := members[(n.k+i)%len(members)]
			if err = try(by); err == nil {
				return nil
			}
			c.say("it is tried again: %v", err)
		}
		if time.Now().After(deadline) || !sleep(ctx, restartAfter) {
			return err
		}
	}
}

// serves waits until a node that joins takes statements.
func (j *newcomer) serves(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, joinTimeout)
	defer cancel()
	for {
		_, err := ask(ctx, j.url(j.n.k), j.net.dial, "SELECT count(*) FROM chaos_tally", 5*time.Second)
		if err == nil {
			return nil
		}
		if !sleep(ctx, 5*pollInterval) {
			return fmt.Errorf("%s has joined, and does not serve after %s: %w\n%s", j.n.name(), joinTimeout, err,
				j.n.lastWords())
		}
	}
}
