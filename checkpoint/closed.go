package checkpoint

import (
	"fmt"
	"os"

	bolt "go.etcd.io/bbolt"
)

// markClosed marks the file as closed cleanly, so that the next Open need not read it
// through, and writes the list of free pages, so that bbolt need not scan all pages for
// them either. Nothing may be written after it. The mark identifies the file, so that a
// copy that was begun before the file was opened again, and is torn, is not taken for
// whole.
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

// unmark removes the mark, in the first transaction that writes.
func unmark(tx *bolt.Tx) error {
	if err := tx.Bucket(metaBucket).Delete(closedKey); err != nil {
		return fmt.Errorf("remove the mark of a closed file: %w", err)
	}
	return nil
}

// closed reports whether the file is marked as closed cleanly. It first checks the pages
// in which the mark is stored, and returns an error if they are damaged.
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
		return false, nil // so small a bucket is stored in a page that was checked
	}
	mark := string(meta.Get(closedKey))
	return mark != "" && mark == identity(info), nil
}
