package checkpoint

import (
	"context"
	"fmt"

	bolt "go.etcd.io/bbolt"
)

// Space is the part of a store that reports whether its journal is full. It is safe
// for concurrent use.
type Space interface {
	// HasSpace reports whether the journal takes more events; reserved asks for the
	// answers to commands (see Commands.Finish), which may use the whole reserve: a
	// sixteenth of Limits.MaxBytes beyond it, 64 KiB at the least.
	HasSpace(ctx context.Context, reserved bool) (bool, error)
}

// reserveOf returns how many bytes beyond maxBytes a journal holds for events of the
// bridge's own. An event of some hundred bytes fits a hundred times at the least.
func reserveOf(maxBytes int64) int64 {
	const least, part = 64 << 10, 16
	return max(least, maxBytes/part)
}

// commitReserveOf returns how much of the reserve Commit.Reserve may use. The rest is
// left to the answers to commands, however many events others commit.
func commitReserveOf(maxBytes int64) int64 { return reserveOf(maxBytes) / 2 }

// hasSpace reports whether a journal takes more events, with reserve bytes beyond
// limits.MaxBytes.
func (j *journal) hasSpace(tx *bolt.Tx, configured map[string]bool, limits Limits, reserve int64) (bool, error) {
	if limits.MaxBytes <= 0 {
		return true, nil
	}
	acknowledged, err := j.totalAt(j.acknowledged(tx, configured))
	if err != nil {
		return false, err
	}
	return int64(j.total-acknowledged) < limits.MaxBytes+reserve, nil
}

// HasSpace implements Space.
func (s *Store) HasSpace(ctx context.Context, reserved bool) (has bool, err error) {
	s.mu.Lock()
	configured, limits := s.configured, s.limits
	s.mu.Unlock()
	var reserve int64
	if reserved {
		reserve = reserveOf(limits.MaxBytes)
	}
	err = s.view(ctx, func(tx *bolt.Tx) error {
		j, err := openJournal(tx)
		if err == nil {
			has, err = j.hasSpace(tx, configured, limits, reserve)
		}
		return err
	})
	if err != nil {
		return false, fmt.Errorf("space in the journal: %w", err)
	}
	return has, nil
}
