package instance

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"

	"github.com/tuttidb/tutti/internal/database/embedded"
)

// visitStart bounds the start of a server that is visited.
const visitStart = time.Minute

// visiting are settings of a server that is only read, whatever its own configuration says. Nothing begins to work in
// it by itself.
var visiting = map[string]string{
	"listen_addresses": "", "unix_socket_permissions": "0700", "ssl": "off", "external_pid_file": "",
	"default_transaction_read_only": "on", "autovacuum": "off", "archive_mode": "off", "jit": "off",
	"wal_level": "logical", "max_replication_slots": "1000", "max_logical_replication_workers": "0",
	"max_connections": "20", "max_wal_senders": "0", "shared_buffers": "64MB", "huge_pages": "off",
	"shared_preload_libraries": "", "session_preload_libraries": "", "local_preload_libraries": "",
	"logging_collector": "off", "log_destination": "stderr", "synchronous_standby_names": "",
}

// Visit is a server on a data directory of somebody else's, whose files are left as they are: it is only read.
type Visit struct {
	i   *Instance
	run *run
	dir string
	own bool // ends as by a crash
}

// NewVisit starts one on a directory that may be adopted (MayAdopt).
func NewVisit(ctx context.Context, build embedded.Build, dataDir string) (*Visit, error) {
	return visit(ctx, build, dataDir, false)
}

// NewOwnVisit starts one on the directory of a node that does not run. What is left of its server, if the node was
// killed, is ended, and so is this one in the end, as by a crash: to who starts the node it was none that had ended
// cleanly, and is none.
func NewOwnVisit(ctx context.Context, build embedded.Build, dataDir string) (*Visit, error) {
	return visit(ctx, build, dataDir, true)
}

func visit(ctx context.Context, build embedded.Build, dataDir string, own bool) (_ *Visit, err error) {
	dir, err := os.MkdirTemp("", "tutti-")
	if err != nil {
		return nil, fmt.Errorf("look at %s: %w", dataDir, err)
	}
	v := &Visit{dir: dir, own: own, i: New(Options{Build: build, DataDir: dataDir, SocketDir: dir,
		LogFile: filepath.Join(dir, "log")})}
	defer func() {
		if err != nil {
			err = errors.Join(fmt.Errorf("look at %s: %w", dataDir, err), v.Close())
		}
	}()
	a, err := v.i.account()
	if err == nil && own {
		err = v.killLeftovers(ctx)
	}
	if err != nil {
		return nil, err
	}
	for name, text := range map[string]string{"conf": "", "hba": "local all all trust\n", "ident": ""} {
		if err := writeFile(filepath.Join(dir, name), []byte(text), a); err != nil {
			return nil, err
		}
	}
	if err := errors.Join(a.chown(dir), a.reachable(dir), a.reachable(dataDir)); err != nil {
		return nil, err
	}
	args := []string{"-D", dataDir, "-c", "port=5432", "-c", "unix_socket_directories=" + guc(dir)}
	for option, file := range map[string]string{"config_file": "conf", "hba_file": "hba", "ident_file": "ident"} {
		args = append(args, "-c", option+"="+filepath.Join(dir, file))
	}
	for name, value := range visiting { // order-free: options
		args = append(args, "-c", name+"="+value)
	}
	log, _, err := v.i.openLog(a)
	if err != nil {
		return nil, err
	}
	defer log.Close()
	cmd := exec.Command(build.Program("postgres"), args...)
	cmd.Dir, cmd.Env, cmd.Stdout, cmd.Stderr = dataDir, v.i.environment(), log, log
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: a.credential()}
	if v.run, err = launch(cmd, false, func() {}); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, visitStart)
	defer cancel()
	return v, v.i.awaitReady(ctx, v.run, 0)
}

// killLeftovers ends what still runs on the data directory of a node that does not, as a crash would.
func (v *Visit) killLeftovers(ctx context.Context) error {
	if _, err := os.Stat(filepath.Join(v.i.o.DataDir, confName)); err != nil {
		return fmt.Errorf("%w: there is no PostgreSQL of Tutti's", err)
	}
	pids, err := serversOn(v.i.o.DataDir)
	if err != nil {
		return err
	}
	for _, pid := range pids {
		_ = syscall.Kill(pid, syscall.SIGKILL) // gone is fine
	}
	if gone, err := v.i.awaitGone(ctx, goneTimeout); err != nil {
		return err
	} else if !gone {
		return fmt.Errorf("processes %v of an earlier server cannot be killed", pids)
	}
	return v.i.clearLockFile(filepath.Join(v.i.o.DataDir, "postmaster.pid"), pids)
}

// ConnString connects to one of its databases.
func (v *Visit) ConnString(database string) string { return v.i.ConnString("", database) }

// Close stops the server.
func (v *Visit) Close() (err error) {
	switch {
	case v.run == nil || v.run.ended():
	case v.own:
		err = v.i.kill(v.run)
	default:
		err = v.i.end(context.Background(), v.run)
	}
	return errors.Join(err, os.RemoveAll(v.dir))
}
