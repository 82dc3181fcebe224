package checkpoint

import (
	"context"
	"fmt"

	bolt "go.etcd.io/bbolt"
)

// Space is the part of a store that reports whether its journal is full. It is safe
// for concurrent use.
type Space interface {
	// HasSpace reports whether the journal takes more events; reserved asks for those
	// of the bridge's own, which may use the reserve (see Commit.Reserve).
	HasSpace(ctx context.Context, reserved bool) (bool, error)
}

// reserveOf is how many bytes beyond maxBytes a journal holds for events of the
// bridge's own. An event of some hundred bytes fits a hundred times at the least.
func reserveOf(maxBytes int64) int64 {
	const least, part = 64 << 10, 16
	return max(least, maxBytes/part)
}

// hasSpace reports whether a journal takes more events.
func (j *journal) hasSpace(tx *bolt.Tx, configured map[string]bool, limits Limits, reserved bool) (bool, error) {
	if limits.MaxBytes <= 0 {
		return true, nil
	}
	settled, err := j.totalAt(j.settled(tx, configured))
	if err != nil {
		return false, err
	}
	bound := limits.MaxBytes
	if reserved {
		bound += reserveOf(bound)
	}
	return int64(j.total-settled) < bound, nil
}

// HasSpace implements Space.
func (s *Store) HasSpace(ctx context.Context, reserved bool) (has bool, err error) {
	s.mu.Lock()
	configured, limits := s.configured, s.limits
	s.mu.Unlock()
	err = s.view(ctx, func(tx *bolt.Tx) error {
		j, err := openJournal(tx)
		if err == nil {
			has, err = j.hasSpace(tx, configured, limits, reserved)
		}
		return err
	})
	if err != nil {
		return false, fmt.Errorf("space in the journal: %w", err)
	}
	return has, nil
}
