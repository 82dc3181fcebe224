package checkpoint

import (
	"bytes"
	"context"
	"errors"
	"fmt"

	bolt "go.etcd.io/bbolt"

	"ndrbridge/transform"
)

// Commit is what a source writes in one transaction: events, and the position that covers
// them.
type Commit struct {
	Source Source
	// Expect is the position that the caller believes to be current, nil if there is none yet.
	Expect []byte
	// Position is the new position, in the source's own encoding. Never empty.
	Position []byte
	// Events are appended to the journal in this order.
	Events []transform.Event
	// Remember sets remembered entries, by key.
	Remember []Entry
	// ForgetBefore lets the store forget entries whose At is lower, a bounded number with each
	// commit. 0 forgets nothing.
	ForgetBefore int64
	// Dead holds objects that could not be made into events. Older dead letters give way to
	// them (see Limits).
	Dead []DeadLetter
	// NoWait lets the events use half of the space that the journal reserves for the bridge's
	// own events (see Store.HasSpace), and makes the commit fail with ErrFull without it,
	// instead of waiting. It is meant for small events that others wait for. The other half is
	// left to Store.Finish.
	NoWait bool
}

// Position returns the last committed position, nil if there is none.
func (s *Store) Position(ctx context.Context, source Source) (position []byte, err error) {
	err = s.view(ctx, func(tx *bolt.Tx) error {
		position = bytes.Clone(tx.Bucket(positionsBucket).Get([]byte(source.String())))
		return nil
	})
	return position, wrapf(err, "position of %s", source)
}

// Commit writes c, all of it or nothing. While the journal has no space (see Limits), it
// waits until ctx is done, unless c.NoWait is set; a commit without events needs no space.
// It returns ErrFenced if the position is not c.Expect.
func (s *Store) Commit(ctx context.Context, c Commit) error {
	err := c.validate()
	if err == nil {
		err = s.do(ctx, c.change())
	}
	return wrapf(err, "commit of %s", c.Source)
}

// validate rejects commits that cannot be stored.
func (c *Commit) validate() error {
	if c.Source.Appliance == "" || c.Source.Stream == "" {
		return errors.New("the source has no name")
	}
	if len(c.Position) == 0 {
		return errors.New("the position is empty")
	}
	for _, e := range c.Events {
		if len(e.Structured()) == 0 {
			return errors.New("an event was not made by transform.New")
		}
	}
	if err := validateEntries(c.Remember); err != nil {
		return err
	}
	return validateDead(c.Dead)
}

// maxKey is the longest key: it leaves space for the layout's prefix.
const maxKey = bolt.MaxKeySize - 8

func (c *Commit) change() change { return change{check: c.check, write: c.write, last: true} }

func (c *Commit) check(r *writeRound) error {
	position := r.tx.Bucket(positionsBucket).Get([]byte(c.Source.String()))
	if !bytes.Equal(position, c.Expect) {
		return ErrFenced
	}
	if len(c.Events) == 0 {
		return nil
	}
	var reserve int64
	if c.NoWait {
		reserve = commitReserveOf(r.limits.MaxBytes)
	}
	has, err := r.journal.hasSpace(r.tx.Tx, r.configured, r.limits, reserve)
	switch {
	case err != nil || has:
		return err
	case c.NoWait:
		return ErrFull
	}
	return errNoSpace
}

// write puts the position into the same transaction as its events: it is never ahead of
// them.
func (c *Commit) write(r *writeRound) error {
	r.changed = true
	name := []byte(c.Source.String())
	if err := r.append(c.Events); err != nil {
		return err
	}
	r.tx.Table(positionsBucket).Put(name, c.Position)
	if len(c.Remember) > 0 || c.ForgetBefore > 0 {
		if err := remember(r.tx, name, c.Remember, c.ForgetBefore, nil); err != nil {
			return err
		}
	}
	if err := putDead(r.tx, SourceOwner(c.Source), c.Dead); err != nil || len(c.Dead) == 0 {
		return err
	}
	return r.boundSourceDead()
}

// ForgetAppliance drops the positions of an appliance's streams and what its sources and
// the sinks remember about it, so that another appliance can take its name. What the
// journal and the dead letters hold of it stays, and so does the position of the events
// about it. found is false if there was nothing to drop. It returns an error while commands
// for it are pending. It needs memory for the keys that it drops.
func (s *Store) ForgetAppliance(ctx context.Context, appliance string) (found bool, err error) {
	var dropped bool // found is set once the change is done
	err = s.do(ctx, change{
		check: func(r *writeRound) error {
			if pending := inside(r.tx.Tx, waitingBucket, []byte(appliance)); pending != nil {
				if id, _ := pending.Cursor().First(); id != nil {
					return errors.New("ticket commands for it are pending: drop them first (ndrbridge tickets drop), or let them be carried out")
				}
			}
			return nil
		},
		write: func(r *writeRound) error {
			dropped = r.forgetAppliance(appliance)
			r.changed = r.changed || dropped
			return nil
		},
	})
	if err != nil {
		return false, fmt.Errorf("forget appliance %s: %w", appliance, err)
	}
	return dropped, nil
}

func (r *writeRound) forgetAppliance(appliance string) (found bool) {
	prefix := []byte(appliance + "/")
	positions := r.tx.Table(positionsBucket)
	events := Source{Appliance: appliance, Stream: transform.StreamEvents}.String()
	for _, name := range keysWith(positions.Bucket, prefix) {
		if string(name) != events {
			positions.Delete(name)
			found = true
		}
	}
	for _, outer := range [][]byte{knownBucket, forgetBucket} {
		table := r.tx.Table(outer)
		for _, name := range append(keysWith(table.Bucket, prefix), expectedName(appliance)) {
			if table.Inside(name) != nil {
				table.DeleteBucket(name)
				found = true
			}
		}
	}
	// The sinks' memories of it.
	known := r.tx.Table(knownBucket)
	for _, name := range keysWith(known.Bucket, memoryName("")) {
		memory, forget := known.Inside(name), r.tx.Table(forgetBucket).Inside(name)
		for _, key := range keysWith(memory.Bucket, []byte(sourceKeyPrefix+appliance+"/")) {
			drop(memory, forget, key)
			found = true
		}
	}
	return found
}

// keysWith returns the keys of a bucket that begin with prefix.
func keysWith(b *bolt.Bucket, prefix []byte) (keys [][]byte) {
	cursor := b.Cursor()
	for key, _ := cursor.Seek(prefix); bytes.HasPrefix(key, prefix); key, _ = cursor.Next() {
		keys = append(keys, bytes.Clone(key))
	}
	return keys
}
