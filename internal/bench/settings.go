package bench

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// recorded are the settings that shape the figures; those in sameEverywhere must be equal on
// all servers (B1).
const recorded = `SELECT name, current_setting(name) FROM pg_settings WHERE name IN ('server_version', 'shared_buffers', 'work_mem',
'maintenance_work_mem', 'effective_cache_size', 'wal_buffers', 'max_wal_size', 'checkpoint_timeout', 'autovacuum', 'max_connections', 'fsync',
'synchronous_commit', 'full_page_writes', 'wal_sync_method', 'wal_level', 'data_checksums', 'jit')`

var sameEverywhere = []string{
	"server_version", "shared_buffers", "work_mem", "maintenance_work_mem", "effective_cache_size", "wal_buffers",
	"max_wal_size",
	"checkpoint_timeout", "autovacuum", "fsync", "full_page_writes", "wal_sync_method", "data_checksums", "jit",
}

// readSettings asks every PostgreSQL server for its settings and compares them.
func (c *comparison) readSettings(ctx context.Context) error {
	for _, name := range []string{plain, plainLazy, tutti} {
		s := c.servers.all[name]
		if s == nil {
			continue
		}
		for _, d := range s.databases {
			got, err := rows(ctx, d.conn, recorded)
			if err != nil {
				return err
			}
			of := map[string]string{}
			for _, r := range got {
				of[r[0]] = r[1]
			}
			label := name
			if name == tutti {
				label = d.name
			}
			c.report.Settings[label] = of
		}
	}
	for name, of := range c.report.Settings {
		if strings.HasPrefix(of["wal_sync_method"], "open_") {
			c.report.Missing = append(c.report.Missing,
				name+" writes its log with "+of["wal_sync_method"]+": PostgreSQL does not count fsyncs then")
		}
	}
	return sameSettings(c.report.Settings)
}

// sameSettings is B1.
func sameSettings(of map[string]map[string]string) error {
	for _, name := range sameEverywhere {
		first, value := "", ""
		for server, settings := range of {
			if first == "" {
				first, value = server, settings[name]
			} else if settings[name] != value {
				return fmt.Errorf("the servers cannot be compared: %s is %q on %s and %q on %s", name, value, first,
					settings[name], server)
			}
		}
	}
	return nil
}

const fsyncTries = 50

// fsyncTime is how long the disk of a directory takes to make 8 KiB durable, in µs.
func fsyncTime(dir string) (float64, error) {
	path := filepath.Join(dir, "fsync")
	f, err := os.Create(path)
	if err != nil {
		return 0, err
	}
	defer os.Remove(path) // nothing of value
	defer f.Close()
	var v []float64
	page := make([]byte, 8192)
	for range fsyncTries {
		if _, err := f.WriteAt(page, 0); err != nil {
			return 0, err
		}
		began := time.Now()
		if err := f.Sync(); err != nil {
			return 0, err
		}
		v = append(v, float64(time.Since(began).Nanoseconds())/1000)
	}
	return median(v), nil
}
