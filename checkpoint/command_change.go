package checkpoint

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"time"

	bolt "go.etcd.io/bbolt"

	"ndrbridge/checkpoint/internal/boltfile"
)

// Accept stores commands, all of them or none, and returns the result of each, in their
// order. Two commands of one call with the same Key are one command. The fields ID, State,
// Note, Reason and Done are ignored. Accept returns ErrCommandsFull if more than
// MaxCommands would be pending.
func (s *Store) Accept(ctx context.Context, commands []Command) ([]Acceptance, error) {
	a := &accepting{commands: commands, now: s.clock.now()}
	err := a.validate()
	if err == nil {
		err = s.do(ctx, a)
	}
	if err != nil {
		return nil, fmt.Errorf("accept commands: %w", err)
	}
	return a.results, nil
}

// accepting is the change that Accept makes.
type accepting struct {
	commands []Command
	now      time.Time
	results  []Acceptance
}

// maxSubject is the longest subject: it leaves space for the rest of a subject's key.
const maxSubject = maxKey - 9

func (a *accepting) validate() error {
	for _, c := range a.commands {
		if c.Appliance == "" || len(c.Appliance) > maxKey || len(c.Key) > maxKey || len(c.Subject) > maxSubject || len(c.Body) == 0 {
			return fmt.Errorf("a command of appliance %.40q, with a key of %d, a subject of %d and a body of %d bytes, cannot be kept",
				c.Appliance, len(c.Key), len(c.Subject), len(c.Body))
		}
	}
	return nil
}

// check counts the new commands, since nothing may have been written if there is no space.
func (a *accepting) check(r *writeRound) error {
	d := openCommandTable(r.tx)
	fresh := map[string]bool{}
	count := uint64(0)
	for _, c := range a.commands {
		if c.Key != "" && (fresh[c.Key] || d.keys.Get([]byte(c.Key)) != nil) {
			continue
		}
		fresh[c.Key] = true
		count++
	}
	if count > 0 && d.pending+count > MaxCommands {
		return ErrCommandsFull
	}
	return nil
}

func (a *accepting) write(r *writeRound) error {
	d := openCommandTable(r.tx)
	d.commands.FillPercent = appendFill
	a.results = make([]Acceptance, len(a.commands))
	for i, c := range a.commands {
		var err error
		if a.results[i], err = d.accept(c); err != nil {
			return fmt.Errorf("a command: %w", err)
		}
		r.changed = r.changed || !a.results[i].Duplicate
		r.commanded = r.commanded || !a.results[i].Duplicate
	}
	if err := d.forgetOldest(a.now.Add(-KeepCommands).UnixMilli(), max(forgetLeast, 2*len(a.commands))); err != nil {
		return err
	}
	return d.close()
}

func (d *commandTable) accept(c Command) (Acceptance, error) {
	if c.Key != "" {
		if id := d.keys.Get([]byte(c.Key)); len(id) == 8 {
			return Acceptance{ID: binary.BigEndian.Uint64(id), Duplicate: true}, nil
		}
	}
	id, err := d.commands.NextSequence()
	if err != nil {
		return Acceptance{}, err
	}
	k := &keptCommand{
		Key: c.Key, Appliance: c.Appliance, Subject: c.Subject, Body: c.Body,
		Accepted: c.Accepted.UnixMilli(), State: CommandPending,
	}
	err = errors.Join(d.put(id, k), d.indexPending(id, k))
	if c.Key != "" && err == nil {
		err = d.keys.Put([]byte(c.Key), appendUint64(id))
	}
	if c.Subject != "" && err == nil {
		err = d.subjects.Put(subjectKey(c.Subject, id), []byte{})
	}
	return Acceptance{ID: id}, err
}

// commandChange is a change to one command.
type commandChange struct {
	id uint64
	// permitted returns why the command cannot be changed in this way, or nil.
	permitted func(*keptCommand) error
	apply     func(*writeRound, *commandTable, *keptCommand) error
	expect    []Entry
}

func (c *commandChange) check(r *writeRound) error {
	k, err := openCommandTable(r.tx).get(c.id)
	if err != nil {
		return err
	}
	return c.permitted(k)
}

func (c *commandChange) write(r *writeRound) error {
	r.changed = true
	d := openCommandTable(r.tx)
	k, err := d.get(c.id)
	if err != nil {
		return err
	}
	if err := c.apply(r, d, k); err != nil {
		return fmt.Errorf("command %d: %w", c.id, err)
	}
	if len(c.expect) > 0 {
		if err := remember(r.tx, expectedName(k.Appliance), c.expect, 0, nil); err != nil {
			return err
		}
	}
	return d.close()
}

func mustBePending(k *keptCommand) error {
	if k == nil || k.State != CommandPending {
		return fmt.Errorf("the command is not pending: %w", ErrFenced)
	}
	return nil
}

func (s *Store) changeCommand(ctx context.Context, what string, c *commandChange) error {
	err := validateEntries(c.expect)
	if err == nil {
		err = s.do(ctx, c)
	}
	if err != nil {
		return fmt.Errorf("%s command %d: %w", what, c.id, err)
	}
	return nil
}

// Note stores a note with a pending command, and expected changes as Outcome does. It
// returns ErrFenced if the command is no longer pending.
func (s *Store) Note(ctx context.Context, id uint64, note []byte, expect []Entry) error {
	return s.changeCommand(ctx, "note", &commandChange{
		id: id, permitted: mustBePending, expect: expect,
		apply: func(_ *writeRound, d *commandTable, k *keptCommand) error {
			k.Note = note
			return d.put(id, k)
		},
	})
}

// Finish ends a pending command. It returns ErrFenced if the command is no longer pending.
// Its events are appended even if the journal is full: the caller must not begin a command
// unless HasSpace reports space in the reserve.
func (s *Store) Finish(ctx context.Context, o Outcome) error {
	if o.State != CommandApplied && o.State != CommandRejected {
		return fmt.Errorf("finish command %d: %q is not a final state", o.ID, o.State)
	}
	return s.changeCommand(ctx, "finish", &commandChange{
		id: o.ID, permitted: mustBePending, expect: o.Expect,
		apply: func(r *writeRound, d *commandTable, k *keptCommand) error {
			if err := d.unindex(o.ID, k); err != nil {
				return err
			}
			k.State, k.Reason, k.Done = o.State, o.Reason, o.Done.UnixMilli()
			if err := errors.Join(d.indexDone(o.ID, k), d.put(o.ID, k)); err != nil {
				return err
			}
			if err := r.append(o.Events); err != nil {
				return err
			}
			return d.forgetOldest(s.clock.now().Add(-KeepCommands).UnixMilli(), forgetLeast)
		},
	})
}

// RetryCommand makes a rejected command pending again, with its old ID. It returns an
// error if there is no such command, or it is not rejected.
func (s *Store) RetryCommand(ctx context.Context, id uint64) error {
	return s.changeCommand(ctx, "retry", &commandChange{
		id: id,
		permitted: func(k *keptCommand) error {
			switch {
			case k == nil:
				return errors.New("no such command")
			case k.State != CommandRejected:
				return fmt.Errorf("it is %s, and only a rejected one can be tried again", k.State)
			}
			return nil
		},
		apply: func(r *writeRound, d *commandTable, k *keptCommand) error {
			if err := d.unindex(id, k); err != nil {
				return err
			}
			k.State, k.Reason, k.Done, k.Note = CommandPending, "", 0, nil
			r.commanded = true
			return errors.Join(d.put(id, k), d.indexPending(id, k))
		},
	})
}

// DropCommands drops commands, pending ones too, and ignores unknown IDs. n is how many
// were dropped.
func (s *Store) DropCommands(ctx context.Context, ids []uint64) (n int, err error) {
	for len(ids) > 0 {
		some := ids[:min(len(ids), takeDeadLetters)]
		dropping := &droppingCommands{ids: some}
		if err := s.do(ctx, dropping); err != nil {
			return n, fmt.Errorf("drop commands: %w", err)
		}
		n, ids = n+dropping.dropped, ids[len(some):]
	}
	return n, nil
}

// droppingCommands is the change that DropCommands makes.
type droppingCommands struct {
	ids     []uint64
	dropped int
}

func (c *droppingCommands) check(*writeRound) error { return nil }

func (c *droppingCommands) write(r *writeRound) error {
	d := openCommandTable(r.tx)
	c.dropped = 0
	for _, id := range c.ids {
		k, err := d.get(id)
		if err != nil {
			return err
		}
		if k == nil {
			continue
		}
		if err := d.drop(id, k); err != nil {
			return fmt.Errorf("drop command %d: %w", id, err)
		}
		r.changed = true
		c.dropped++
	}
	if c.dropped == 0 {
		return nil
	}
	return d.close()
}

// expectedName returns the name of the known bucket that holds an appliance's expected
// changes.
func expectedName(appliance string) []byte { return []byte("/expected/" + appliance) }

// Expected returns the expected changes of an appliance's commands, in the order of their
// keys.
func (s *Store) Expected(ctx context.Context, appliance string) (entries []Entry, err error) {
	err = s.view(ctx, func(tx *bolt.Tx) error {
		known := tx.Bucket(knownBucket).Bucket(expectedName(appliance))
		if known == nil {
			return nil
		}
		return known.ForEach(func(key, value []byte) error {
			if len(value) <= 8 {
				return fmt.Errorf("%w: expected change %.40q", boltfile.ErrUnreadable, key)
			}
			entries = append(entries, Entry{Key: string(key), Value: append([]byte(nil), value[8:]...), At: int64(binary.BigEndian.Uint64(value))})
			return nil
		})
	})
	if err != nil {
		return nil, fmt.Errorf("expected changes of %s: %w", appliance, err)
	}
	return entries, nil
}

// DropExpected drops the expected changes with the given keys, and those whose At is below
// before.
func (s *Store) DropExpected(ctx context.Context, appliance string, keys []string, before int64) error {
	if err := s.do(ctx, &droppingExpected{appliance, keys, before}); err != nil {
		return fmt.Errorf("drop expected changes of %s: %w", appliance, err)
	}
	return nil
}

// droppingExpected is the change that DropExpected makes.
type droppingExpected struct {
	appliance string
	keys      []string
	before    int64
}

func (u *droppingExpected) check(*writeRound) error { return nil }

func (u *droppingExpected) write(r *writeRound) error {
	name := expectedName(u.appliance)
	known, forget := r.tx.Table(knownBucket).Inside(name), r.tx.Table(forgetBucket).Inside(name)
	if known == nil || forget == nil {
		return nil
	}
	r.changed = true
	for _, key := range u.keys {
		value := known.Get([]byte(key))
		if len(value) < 8 {
			continue
		}
		queued := append(append([]byte(nil), value[:8]...), key...)
		if err := errors.Join(forget.Delete(queued), known.Delete([]byte(key))); err != nil {
			return fmt.Errorf("expected change %.40q: %w", key, err)
		}
	}
	return forgetOld(known, forget, u.before, max(forgetLeast, 2*len(u.keys)), nil)
}
