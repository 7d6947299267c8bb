package instance

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// adoptedName is a file in a data directory that an operator has adopted. Copies of the database have it, too.
const adoptedName = "tutti.adopted"

// Adopted reports whether an operator has said of the database in a data directory that a cluster begins with it.
func Adopted(dir string) (bool, error) {
	_, err := os.Stat(filepath.Join(dir, adoptedName))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return false, fmt.Errorf("data directory: %w", err)
	}
	return err == nil, nil
}
