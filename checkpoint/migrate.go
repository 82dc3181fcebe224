package checkpoint

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	bolt "go.etcd.io/bbolt"
)

// migrate changes a file of an older version to this layout, in one transaction, after
// copying it. It is the first transaction that writes.
func migrate(db *bolt.DB, path string, from int) error {
	if err := keep(db, path, from); err != nil {
		return fmt.Errorf("copy %s before it is changed to layout %d: %w", path, layoutVersion, err)
	}
	err := update(db, func(tx *bolt.Tx) error {
		if err := unmark(tx); err != nil {
			return err
		}
		return raiseLayout(tx, from)
	})
	if err != nil {
		return fmt.Errorf("change %s to layout %d: %w", path, layoutVersion, err)
	}
	return nil
}

// keep copies the file to <path>.v<version>.bak, or with a number before bak if that
// exists. The copy gets its name when it is complete.
func keep(db *bolt.DB, path string, version int) error {
	dir, name := split(path)
	file, err := os.CreateTemp(dir, name+".*.bak.new") // of mode 0600
	if err != nil {
		return err
	}
	defer os.Remove(file.Name())
	err = guard(func() error {
		return db.View(func(tx *bolt.Tx) error {
			_, err := tx.WriteTo(file)
			return err
		})
	})
	if err == nil {
		err = file.Sync()
	}
	if err := errors.Join(err, file.Close()); err != nil {
		return err
	}
	copied := fmt.Sprintf("%s.v%d.bak", path, version)
	for n := 2; ; n++ {
		err := os.Link(file.Name(), copied)
		if err == nil {
			return syncDir(dir)
		}
		if !errors.Is(err, fs.ErrExist) {
			return err
		}
		copied = fmt.Sprintf("%s.v%d.%d.bak", path, version, n)
	}
}

// split is filepath.Split with a directory that is never empty.
func split(path string) (dir, name string) {
	dir, name = filepath.Split(path)
	if dir == "" {
		dir = "."
	}
	return dir, name
}
