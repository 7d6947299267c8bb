package drivers

import (
	"context"
	_ "embed"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

// installed makes a directory with what commands put there, once.
func installed(name string, commands ...[]string) func(context.Context, string) (string, error) {
	return func(ctx context.Context, cache string) (string, error) {
		dir := filepath.Join(cache, name)
		if _, err := os.Stat(dir); err == nil {
			return dir, nil
		}
		part := dir + ".part"
		if err := os.RemoveAll(part); err != nil {
			return "", err
		}
		if err := os.MkdirAll(part, 0o755); err != nil {
			return "", err
		}
		for _, argv := range commands {
			c := exec.CommandContext(ctx, argv[0], argv[1:]...)
			c.Dir = part
			if out, err := c.CombinedOutput(); err != nil {
				return "", fmt.Errorf("%s: %w\n%s", strings.Join(argv, " "), err, tail(out))
			}
		}
		return dir, os.Rename(part, dir)
	}
}

// program is the command of a program of ours: it is written beside the arm's other files.
// What stands before its path is made of the directory of its driver.
func program(file string, source []byte, before func(dir string) (argv, env []string)) func(a *Arm, dir string) (argv,
	env []string) {
	return func(a *Arm, dir string) (argv, env []string) {
		path := filepath.Join(a.Dir, file)
		if err := os.WriteFile(path, source, 0o644); err != nil {
			return []string{"sh", "-c", "echo " + err.Error()}, nil
		}
		argv, env = before(dir)
		return append(argv, path), env
	}
}

// pgjdbcSteps needs no package but the driver; java compiles it when it starts.
//
//go:embed programs/PgjdbcSteps.java
var pgjdbcSteps []byte

// pgjdbcSuite walks through what pgjdbc can do.
func pgjdbcSuite() Suite {
	const version = "42.7.8"
	return Suite{
		Name: "pgjdbc", What: "org.postgresql:postgresql:" + version + ", programs/PgjdbcSteps.java",
		Limit: 5 * time.Minute,
		fetch: installed("pgjdbc-"+version, []string{"mvn", "-q", "-B",
			"org.apache.maven.plugins:maven-dependency-plugin:3.6.1:copy",
			"-Dartifact=org.postgresql:postgresql:" + version, "-DoutputDirectory=."}),
		parse: parseLines,
		command: program("PgjdbcSteps.java", pgjdbcSteps, func(dir string) ([]string, []string) {
			return []string{"java", "-Dfile.encoding=UTF-8", "-cp", filepath.Join(dir, "postgresql-"+version+".jar")},
				nil
		}),
	}
}

// nodeSteps is a program for node-postgres and its companions.
//
//go:embed programs/node_steps.js
var nodeSteps []byte

// nodeSuite walks through what node-postgres can do.
func nodeSuite() Suite {
	const password = "right"
	packages := []string{"pg@8.23.1", "pg-cursor@2.22.0", "pg-query-stream@4.17.0", "pg-copy-streams@7.0.0"}
	return Suite{
		Name: "node-postgres", What: strings.Join(packages, " ") + ", programs/node_steps.js", Limit: 5 * time.Minute,
		Setup: []string{
			createRole("node_md5", oldVerifier("node_md5", password), ""),
			createRole("node_scram", scram(password), ""), createRole("node_clear", scram(password), ""),
		},
		Logins: []string{"all node_md5 md5", "all node_scram scram-sha-256", "all node_clear password"},
		fetch: installed("node-postgres-8.23.1",
			append([]string{"npm", "install", "--no-audit", "--no-fund", "--ignore-scripts", "--save-exact"},
				packages...)),
		parse: parseLines,
		command: program("node_steps.js", nodeSteps, func(dir string) ([]string, []string) {
			return []string{"node", "--no-deprecation"}, []string{"NODE_PATH=" + filepath.Join(dir, "node_modules")}
		}),
	}
}
