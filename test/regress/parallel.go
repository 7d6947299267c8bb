package regress

import (
	"cmp"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
)

// Files that PostgreSQL's schedule has on one line run beside each other, as pg_regress runs them.

// restrict gives the groups that are left when only some files are run.
func restrict(groups [][]string, files []string) (out [][]string) {
	for _, group := range groups {
		group = slices.DeleteFunc(slices.Clone(group), func(f string) bool { return !slices.Contains(files, f) })
		if len(group) > 0 {
			out = append(out, group)
		}
	}
	return out
}

// losses are the lines with which psql shows SQLSTATE 40001, and the detail below.
var losses = regexp.MustCompile(`(?m)^(?:psql:\S+ )?ERROR:  (could not serialize access .*)\n(?:DETAIL:  (.*)\n)?`)

// Loss is why sessions were told 40001.
type Loss struct {
	Why   string
	Times int
}

// Losses counts the 40001 that the outputs of files show by their reason, the most frequent first.
func Losses(outputs map[string]string) (out []Loss) {
	count := map[string]int{}
	for _, text := range outputs {
		for _, m := range losses.FindAllStringSubmatch(text, -1) {
			count[number.ReplaceAllString(quoted.ReplaceAllString(cmp.Or(m[2], m[1]), "…"), "N")]++
		}
	}
	for _, why := range slices.Sorted(maps.Keys(count)) {
		out = append(out, Loss{why, count[why]})
	}
	slices.SortStableFunc(out, func(a, b Loss) int { return cmp.Compare(b.Times, a.Times) })
	return out
}

// lossesText lists them for a reader.
func lossesText(list []Loss) string {
	var out strings.Builder
	total := 0
	for _, l := range list {
		total += l.Times
		fmt.Fprintf(&out, "%4d times: %s\n", l.Times, l.Why)
	}
	fmt.Fprintf(&out, "%4d times 40001\n", total)
	return out.String()
}
