package chaos

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestLastWords: of a stuck node's log its last lines are shown, and of clients only the last one that was refused.
func TestLastWords(t *testing.T) {
	var b strings.Builder
	for i := range 3 * logLines {
		fmt.Fprintf(&b, "msg=line%d\nmsg=\"client refused\" client_addr=x n=%d\nmsg=left client_addr=x\n", i, i)
	}
	n := &node{logFile: filepath.Join(t.TempDir(), "log")}
	if said := n.lastWords(); !strings.Contains(said, "no such file") {
		t.Errorf("without a log: %q", said)
	}
	if err := os.WriteFile(n.logFile, []byte(b.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSpace(n.lastWords()), "\n")
	if len(lines) != logLines+1 || lines[0] != fmt.Sprintf("msg=line%d", 2*logLines) ||
		!strings.HasSuffix(lines[logLines], fmt.Sprintf("n=%d", 3*logLines-1)) {
		t.Errorf("it shows %q", lines)
	}
}
