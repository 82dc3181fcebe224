package checkpoint

import (
	"fmt"
	"os"

	bolt "go.etcd.io/bbolt"
)

// markClosed leaves the mark of a file that is closed in order, so that the next
// Open need not read it through, and the list of free pages, so that bbolt need
// not look for them in all pages either. Nothing may be written after it. The
// mark names the file, so that a copy that was begun before the file was opened
// again, and is torn, does not pass for whole.
func markClosed(db *bolt.DB, path string) error {
	info, err := os.Stat(path)
	if err != nil {
		return err
	}
	name := identity(info)
	if name == "" {
		return nil
	}
	db.NoFreelistSync = false
	return update(db, func(tx *bolt.Tx) error {
		return tx.Bucket(metaBucket).Put(closedKey, []byte(name))
	})
}

// unmark takes the mark away in the transaction that writes first.
func unmark(tx *bolt.Tx) error {
	if err := tx.Bucket(metaBucket).Delete(closedKey); err != nil {
		return fmt.Errorf("mark of a file that is in use: %w", err)
	}
	return nil
}

// closed reports whether the file has the mark. The pages that it is looked up in
// are checked before; what is wrong with them is the error.
func (c *pageCheck) closed(tx *bolt.Tx) (bool, error) {
	info, err := c.file.Stat()
	if err != nil {
		return false, err
	}
	if err := c.root(tx); err != nil {
		return false, err
	}
	meta := tx.Bucket(metaBucket)
	if meta == nil || uint64(meta.RootPage()) != 0 {
		return false, nil // a bucket of so little lies in a page that was checked
	}
	mark := string(meta.Get(closedKey))
	return mark != "" && mark == identity(info), nil
}
