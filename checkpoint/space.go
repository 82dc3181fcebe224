package checkpoint

import (
	"context"
	"fmt"

	bolt "go.etcd.io/bbolt"
)

// Space is the part of a store that reports whether its journal is full. It is safe
// for concurrent use.
type Space interface {
	// HasSpace reports whether the journal accepts more events. If reserved is true, it
	// reports it for the events of finished commands (see Commands.Finish), which may use the
	// whole reserve: a sixteenth of Limits.MaxBytes beyond it, and at least 64 KiB.
	HasSpace(ctx context.Context, reserved bool) (bool, error)
}

// reserveOf returns how many bytes beyond maxBytes a journal holds for the bridge's own
// events: enough for at least a hundred events of some hundred bytes.
func reserveOf(maxBytes int64) int64 {
	const least, part = 64 << 10, 16
	return max(least, maxBytes/part)
}

// commitReserveOf returns how much of the reserve Commit.Reserve may use. The rest is left
// to the events of finished commands, however many events other sources commit.
func commitReserveOf(maxBytes int64) int64 { return reserveOf(maxBytes) / 2 }

// hasSpace reports whether a journal accepts more events, with reserve bytes beyond
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
