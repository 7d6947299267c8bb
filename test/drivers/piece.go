package drivers

import (
	"encoding/json"
	"fmt"
	"hash/fnv"
	"maps"
	"os"
	"strings"
)

// Piece is what became of parts of a suite that were run together. It can be kept in a file, so that a run that
// was stopped goes on with the next.
type Piece struct {
	Plain, Tutti Outcomes
	Differences  []Difference // those that are not due to chance
	Unlike       bool         // members differed afterwards
}

// pieces are the parts that are run together.
func (s *Suite) pieces() (out [][]string) {
	if !s.Apart {
		return [][]string{s.Parts}
	}
	for _, p := range s.Parts {
		out = append(out, []string{p})
	}
	return out
}

// pieceFile names the file for what became of parts.
func pieceFile(parts []string) string {
	h := fnv.New64a()
	fmt.Fprint(h, len(parts), strings.Join(parts, "\x00"))
	return fmt.Sprintf("part-%016x.json", h.Sum64())
}

// add puts another piece beside what there is. Pieces have different tests.
func (p *Piece) add(other Piece) {
	maps.Copy(p.Plain, other.Plain)
	maps.Copy(p.Tutti, other.Tutti)
	p.Differences = append(p.Differences, other.Differences...)
}

func (p *Piece) write(file string) error {
	b, err := json.Marshal(p)
	if err != nil {
		return err
	}
	return os.WriteFile(file, b, 0o644)
}

func readPiece(file string) (p Piece, err error) {
	b, err := os.ReadFile(file)
	if err == nil {
		err = json.Unmarshal(b, &p)
	}
	return p, err
}
