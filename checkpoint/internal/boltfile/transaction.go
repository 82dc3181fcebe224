package boltfile

import (
	"errors"
	"fmt"

	bolt "go.etcd.io/bbolt"
)

// ErrStuck is returned if bbolt panicked with its locks held: it must not be called again.
var ErrStuck = fmt.Errorf("%w: the first pages", ErrUnreadable)

// Begin begins a transaction. It returns ErrStuck if bbolt panics.
func Begin(db *bolt.DB, writable bool) (tx *bolt.Tx, err error) {
	err = Guard(func() error {
		tx, err = db.Begin(writable)
		return err
	})
	if errors.Is(err, ErrUnreadable) {
		err = fmt.Errorf("%w: %w", ErrStuck, err)
	}
	return tx, err
}

// Update runs do in one write transaction.
func Update(db *bolt.DB, do func(tx *bolt.Tx) error) error {
	tx, err := Begin(db, true)
	if err != nil {
		return err
	}
	return Write(tx, do)
}

// Write runs do in a transaction, and commits it or rolls it back. It is like bbolt's own
// Update, except after a panic: Update would then read more of a damaged file, and might
// panic again with its locks held.
func Write(tx *bolt.Tx, do func(tx *bolt.Tx) error) error {
	err := Guard(func() error {
		if err := do(tx); err != nil {
			return err
		}
		return tx.Commit()
	})
	if err != nil {
		// A failed commit has rolled itself back already, and refuses to do so again.
		_ = Guard(tx.Rollback)
	}
	return err
}
