package version

import (
	"runtime/debug"
	"strings"
	"testing"
)

func TestDescribe(t *testing.T) {
	revision := debug.BuildSetting{Key: "vcs.revision", Value: "c91a8330c0de1234567890"}
	for want, settings := range map[string][]debug.BuildSetting{
		Number:                    {{Key: "vcs.modified", Value: "true"}},
		Number + "-c91a8330c0de":  {revision, {Key: "vcs.modified", Value: "false"}},
		Number + "-c91a8330c0de+": {revision, {Key: "vcs.modified", Value: "true"}},
		Number + "-short":         {{Key: "vcs.revision", Value: "short"}},
	} {
		if got := describe(settings); got != want {
			t.Errorf("%v: %s, want %s", settings, got, want)
		}
	}
	if !strings.HasPrefix(Long(), Number) {
		t.Errorf("%s does not begin with %s", Long(), Number)
	}
}
