package version

import (
	"fmt"
	"runtime"
	"runtime/debug"
	"sync"
)

// Number is the release's.
const Number = "0.1.0"

// revisionLength is how much of a revision is shown.
const revisionLength = 12

// String is the release's number and, if the binary was built in a repository, the revision, with a plus if it had
// changes: "0.1.0-c91a8330c0de+".
var String = sync.OnceValue(func() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return Number
	}
	return describe(info.Settings)
})

func describe(settings []debug.BuildSetting) string {
	revision, changed := "", ""
	for _, s := range settings {
		switch {
		case s.Key == "vcs.revision" && s.Value != "":
			revision = "-" + s.Value[:min(revisionLength, len(s.Value))]
		case s.Key == "vcs.modified" && s.Value == "true":
			changed = "+"
		}
	}
	if revision == "" {
		return Number
	}
	return Number + revision + changed
}

// Long is String with what it was built with and for.
func Long() string {
	return fmt.Sprintf("%s, %s, %s/%s", String(), runtime.Version(), runtime.GOOS, runtime.GOARCH)
}
