package main

import (
	"bytes"
	"strings"
	"testing"

	"github.com/tuttidb/tutti/internal/version"
)

// run gives what a command prints.
func run(t *testing.T, args ...string) string {
	t.Helper()
	root := rootCommand()
	var out bytes.Buffer
	root.SetOut(&out)
	root.SetArgs(args)
	if err := root.ExecuteContext(t.Context()); err != nil {
		t.Fatalf("%q: %v", args, err)
	}
	return out.String()
}

// TestVersion: both ways say the same.
func TestVersion(t *testing.T) {
	want := "tutti " + version.Long() + "\n"
	for _, how := range []string{"version", "--version"} {
		if got := run(t, how); got != want {
			t.Errorf("tutti %s says %q, want %q", how, got, want)
		}
	}
}

// TestHelpGroups: help shows what an operator needs apart from what developers of Tutti need, and every command
// somewhere.
func TestHelpGroups(t *testing.T) {
	help := run(t, "--help")
	_, operate, _ := strings.Cut(help, "To operate a cluster:")
	operate, develop, _ := strings.Cut(operate, "To develop Tutti itself:")
	for section, names := range map[*string][]string{
		&operate: {"init", "join", "node", "member", "status", "check", "what-if", "adopt", "version"},
		&develop: {"sim", "bench", "chaos"}} {
		for _, name := range names {
			if !strings.Contains(*section, "\n  "+name+" ") {
				t.Errorf("%s is not where it belongs:\n%s", name, help)
			}
		}
	}
	for _, c := range rootCommand().Commands() {
		if c.GroupID == "" {
			t.Errorf("%s belongs to no group", c.Name())
		}
	}
}
