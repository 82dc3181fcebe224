package checkpoint

import (
	"bytes"
	"context"
	"errors"
	"fmt"
)

// Forget implements Operations.
func (s *Store) Forget(ctx context.Context, sink string) error {
	if err := s.do(ctx, forgetting(sink)); err != nil {
		return fmt.Errorf("forget %s: %w", sink, err)
	}
	return nil
}

// forgetting is the change that Forget makes.
type forgetting string

func (f forgetting) check(r *writeRound) error {
	if r.configured[string(f)] {
		return errors.New("the sink is configured; take it out of the configuration first")
	}
	_, err := cursorOf(r.tx.Tx, string(f))
	return err
}

func (f forgetting) write(r *writeRound) error {
	r.changed = true
	return forgetSink(r.tx, string(f))
}

// part is a part of what the file holds of a sink: a value, or a bucket.
type part struct {
	outer *table
	key   []byte
}

func partsOf(tx *writeTx, sink string) []part {
	name, owner := []byte(sink), []byte(SinkOwner(sink))
	return []part{
		{tx.table(cursorsBucket), name},
		{tx.table(deadBucket), owner},
		{tx.table(deadSizeBucket), owner},
		{tx.table(requeuedBucket), name},
		{tx.table(replayedBucket), name},
		{tx.table(countsBucket), name},
		{tx.table(pausedBucket), name},
		{tx.table(knownBucket), memoryName(sink)},
		{tx.table(forgetBucket), memoryName(sink)},
	}
}

func forgetSink(tx *writeTx, sink string) error {
	for _, p := range partsOf(tx, sink) {
		err := p.outer.removeAll(p.key)
		if err == nil {
			err = p.outer.remove(p.key)
		}
		if err != nil {
			return fmt.Errorf("sink %s: %w", sink, err)
		}
	}
	return nil
}

// Rename implements Operations. It needs memory for a copy of the sink's dead letters
// and requeued events.
func (s *Store) Rename(ctx context.Context, from, to string) error {
	var err error
	if to == "" || len(to) > maxKey {
		err = fmt.Errorf("a name of %d bytes", len(to))
	}
	if err == nil {
		err = s.do(ctx, &renaming{from, to})
	}
	if err != nil {
		return fmt.Errorf("rename %s to %s: %w", from, to, err)
	}
	return nil
}

// renaming is the change that Rename makes.
type renaming struct{ from, to string }

func (n *renaming) check(r *writeRound) error {
	for _, sink := range []string{n.from, n.to} {
		if r.configured[sink] {
			return fmt.Errorf("the sink %s is configured; take it out of the configuration first", sink)
		}
	}
	for _, p := range partsOf(r.tx, n.to) {
		if p.outer.Get(p.key) != nil || p.outer.inside(p.key) != nil {
			return fmt.Errorf("the state already knows a sink %s", n.to)
		}
	}
	_, err := cursorOf(r.tx.Tx, n.from)
	return err
}

func (n *renaming) write(r *writeRound) error {
	r.changed = true
	to := partsOf(r.tx, n.to)
	for i, from := range partsOf(r.tx, n.from) {
		if err := from.copy(to[i]); err != nil {
			return fmt.Errorf("what belongs to %s: %w", n.from, err)
		}
	}
	return forgetSink(r.tx, n.from)
}

// copy copies a part, if it exists.
func (p part) copy(to part) error {
	if value := p.outer.Get(p.key); value != nil {
		return to.outer.add(to.key, bytes.Clone(value))
	}
	from := p.outer.inside(p.key)
	if from == nil {
		return nil
	}
	copied, err := to.outer.make(to.key)
	if err != nil {
		return err
	}
	if err := copied.SetSequence(from.Sequence()); err != nil {
		return err
	}
	copied.FillPercent = appendFill
	return from.ForEach(func(key, value []byte) error { return copied.add(key, bytes.Clone(value)) })
}
