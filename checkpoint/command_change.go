package checkpoint

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	bolt "go.etcd.io/bbolt"

	"ndrbridge/checkpoint/internal/boltfile"
)

// Accept stores commands, all of them or none, and returns the result of each, in their
// order. Two commands of one call with the same Key are one command. The fields ID, State,
// Note, Reason and Done are ignored. Accept returns ErrCommandsFull if more than
// MaxCommands would be pending.
func (s *Store) Accept(ctx context.Context, commands []Command) ([]Acceptance, error) {
	var results []Acceptance
	err := validateCommands(commands)
	if err == nil {
		oldest := s.clock.now().Add(-keepCommands)
		err = s.do(ctx, change{
			check: func(r *writeRound) error { return openCommandTable(r.tx).checkSpace(commands) },
			write: func(r *writeRound) error {
				d := openCommandTable(r.tx)
				results = make([]Acceptance, len(commands))
				for i, c := range commands {
					var err error
					if results[i], err = d.accept(c); err != nil {
						return fmt.Errorf("a command: %w", err)
					}
					r.changed = r.changed || !results[i].Duplicate
					r.commanded = r.commanded || !results[i].Duplicate
				}
				if err := d.forgetOldest(oldest, max(forgetLeast, 2*len(commands))); err != nil {
					return err
				}
				d.close()
				return nil
			},
		})
	}
	if err != nil {
		return nil, fmt.Errorf("accept commands: %w", err)
	}
	return results, nil
}

// maxSubject is the longest subject: it leaves space for the rest of a subject's key.
const maxSubject = maxKey - 9

func validateCommands(commands []Command) error {
	for _, c := range commands {
		if c.Appliance == "" || len(c.Appliance) > maxKey || len(c.Key) > maxKey || len(c.Subject) > maxSubject || len(c.Body) == 0 {
			return fmt.Errorf("a command of appliance %.40q, with a key of %d, a subject of %d and a body of %d bytes, cannot be kept",
				c.Appliance, len(c.Key), len(c.Subject), len(c.Body))
		}
	}
	return nil
}

// checkSpace returns ErrCommandsFull if there is no space for the new ones of the commands.
func (d *commandTable) checkSpace(commands []Command) error {
	fresh := map[string]bool{}
	count := uint64(0)
	for _, c := range commands {
		if c.Key != "" && (fresh[c.Key] || d.keys.Get([]byte(c.Key)) != nil) {
			continue
		}
		fresh[c.Key] = true
		count++
	}
	if count > 0 && d.counts.Pending+count > MaxCommands {
		return ErrCommandsFull
	}
	return nil
}

func (d *commandTable) accept(c Command) (Acceptance, error) {
	if id := d.keys.Get([]byte(c.Key)); c.Key != "" && len(id) == 8 {
		return Acceptance{ID: decode(id)[0], Duplicate: true}, nil
	}
	id := d.commands.Sequence() + 1
	if err := d.commands.SetSequence(id); err != nil {
		return Acceptance{}, err
	}
	k := &keptCommand{
		id: encode(id), Key: c.Key, Appliance: c.Appliance, Subject: c.Subject, Body: c.Body,
		Accepted: c.Accepted.UnixMilli(), State: CommandPending,
	}
	if c.Key != "" {
		d.keys.Put([]byte(c.Key), k.id)
	}
	if c.Subject != "" {
		d.subjects.Put(subjectKey(c.Subject, k.id), []byte{})
	}
	return Acceptance{ID: id}, d.put(k)
}

// commandChange is a change to one command.
type commandChange struct {
	what   string // the verb
	id     uint64
	from   CommandState // the state that it must have
	apply  func(*keptCommand)
	also   func(*writeRound, *commandTable) error // makes the changes that belong to it; nil: none
	expect []Entry
}

// changeCommand returns ErrFenced if there is no such command, or it has another state.
func (s *Store) changeCommand(ctx context.Context, c commandChange) error {
	err := validateEntries(c.expect)
	if err == nil {
		var k *keptCommand
		err = s.do(ctx, change{
			check: func(r *writeRound) (err error) {
				if k, err = openCommandTable(r.tx).get(encode(c.id)); err != nil {
					return err
				}
				if k == nil || k.State != c.from {
					return fmt.Errorf("the command is not %s: %w", c.from, ErrFenced)
				}
				return nil
			},
			write: func(r *writeRound) error {
				r.changed = true
				d := openCommandTable(r.tx)
				if err := c.write(r, d, k); err != nil {
					return fmt.Errorf("command %d: %w", c.id, err)
				}
				d.close()
				return nil
			},
		})
	}
	return wrapf(err, "%s command %d", c.what, c.id)
}

func (c *commandChange) write(r *writeRound, d *commandTable, k *keptCommand) error {
	d.unindex(k)
	c.apply(k)
	if err := d.put(k); err != nil {
		return err
	}
	if len(c.expect) > 0 {
		if err := remember(r.tx, expectedName(k.Appliance), c.expect, 0, nil); err != nil {
			return err
		}
	}
	if c.also == nil {
		return nil
	}
	return c.also(r, d)
}

// Note stores a note with a pending command, and expected changes as Outcome does. It
// returns ErrFenced if the command is no longer pending.
func (s *Store) Note(ctx context.Context, id uint64, note []byte, expect []Entry) error {
	return s.changeCommand(ctx, commandChange{
		what: "note", id: id, from: CommandPending, expect: expect,
		apply: func(k *keptCommand) { k.Note = note },
	})
}

// Finish ends a pending command. It returns ErrFenced if the command is no longer pending.
// Its events are appended even if the journal is full: the caller must not begin a command
// unless HasSpace reports space in the reserve.
func (s *Store) Finish(ctx context.Context, o Outcome) error {
	if o.State != CommandApplied && o.State != CommandRejected {
		return fmt.Errorf("finish command %d: %q is not a final state", o.ID, o.State)
	}
	return s.changeCommand(ctx, commandChange{
		what: "finish", id: o.ID, from: CommandPending, expect: o.Expect,
		apply: func(k *keptCommand) { k.State, k.Reason, k.Done = o.State, o.Reason, o.Done.UnixMilli() },
		also: func(r *writeRound, d *commandTable) error {
			if err := r.append(o.Events); err != nil {
				return err
			}
			return d.forgetOldest(s.clock.now().Add(-keepCommands), forgetLeast)
		},
	})
}

// RetryCommand makes a rejected command pending again, with its old ID. It returns ErrFenced if
// there is no such command, or it is not rejected.
func (s *Store) RetryCommand(ctx context.Context, id uint64) error {
	return s.changeCommand(ctx, commandChange{
		what: "retry", id: id, from: CommandRejected,
		apply: func(k *keptCommand) { k.State, k.Reason, k.Done, k.Note = CommandPending, "", 0, nil },
		also: func(r *writeRound, _ *commandTable) error {
			r.commanded = true
			return nil
		},
	})
}

// DropCommands drops commands, pending ones too, and ignores unknown IDs. n is how many
// were dropped.
func (s *Store) DropCommands(ctx context.Context, ids []uint64) (n int, err error) {
	for some := range slices.Chunk(ids, removeEntries) {
		dropped := 0
		err := s.do(ctx, change{write: func(r *writeRound) error {
			d := openCommandTable(r.tx)
			for _, id := range some {
				k, err := d.get(encode(id))
				if err != nil {
					return err
				}
				if k != nil {
					d.drop(k)
					dropped++
				}
			}
			if dropped > 0 {
				r.changed = true
				d.close()
			}
			return nil
		}})
		if err != nil {
			return n, fmt.Errorf("drop commands: %w", err)
		}
		n += dropped
	}
	return n, nil
}

// expectedName returns the name of the known bucket that holds an appliance's expected
// changes.
func expectedName(appliance string) []byte { return []byte("/expected/" + appliance) }

// Expected returns the expected changes of an appliance's commands, in the order of their
// keys.
func (s *Store) Expected(ctx context.Context, appliance string) (entries []Entry, err error) {
	err = s.view(ctx, func(tx *bolt.Tx) error {
		for key, value := range walk(inside(tx, knownBucket, expectedName(appliance)), nil) {
			if len(value) <= 8 {
				return fmt.Errorf("%w: expected change %.40q", boltfile.ErrUnreadable, key)
			}
			entries = append(entries, Entry{Key: string(key), Value: bytes.Clone(value[8:]), At: atOf(value)})
		}
		return nil
	})
	return entries, wrapf(err, "expected changes of %s", appliance)
}

// DropExpected drops the expected changes whose At is below before.
func (s *Store) DropExpected(ctx context.Context, appliance string, before int64) error {
	name := expectedName(appliance)
	err := s.do(ctx, change{write: func(r *writeRound) error {
		known, forget := r.tx.Table(knownBucket).Inside(name), r.tx.Table(forgetBucket).Inside(name)
		if known == nil || forget == nil {
			return nil
		}
		r.changed = true
		return forgetOld(known, forget, before, forgetLeast, nil)
	}})
	return wrapf(err, "drop expected changes of %s", appliance)
}

// countKey is the key of the counts in the bucket commanded.
const countKey = "count"

// keptCommand is a command as stored in the file. Times are milliseconds since 1970.
type keptCommand struct {
	id        []byte       // its key
	Key       string       `json:"key,omitempty"`
	Appliance string       `json:"appliance"`
	Subject   string       `json:"subject,omitempty"`
	Body      []byte       `json:"body"`
	Accepted  int64        `json:"accepted"`
	State     CommandState `json:"state"`
	Note      []byte       `json:"note,omitempty"`
	Reason    string       `json:"reason,omitempty"`
	Done      int64        `json:"done,omitzero"`
}

func (k *keptCommand) command() Command {
	c := Command{
		ID: decode(k.id)[0], Key: k.Key, Appliance: k.Appliance, Subject: k.Subject, Body: k.Body,
		Accepted: time.UnixMilli(k.Accepted).UTC(), State: k.State, Note: k.Note, Reason: k.Reason,
	}
	if k.Done != 0 {
		c.Done = time.UnixMilli(k.Done).UTC()
	}
	return c
}

// parseCommand decodes a stored command; nil if value is nil.
func parseCommand(id, value []byte) (*keptCommand, error) {
	if value == nil {
		return nil, nil
	}
	k := &keptCommand{id: id}
	if err := json.Unmarshal(value, k); err != nil {
		return nil, fmt.Errorf("%w: a command: %w", boltfile.ErrUnreadable, err)
	}
	return k, nil
}

// commandTable is the commands and their indexes within one transaction.
type commandTable struct {
	commands, waiting, subjects, done, keys, commanded *boltfile.Table
	counts                                             CommandStats
}

func openCommandTable(tx *boltfile.Tx) *commandTable {
	return &commandTable{
		commands: tx.Table(commandsBucket), waiting: tx.Table(waitingBucket), subjects: tx.Table(subjectsBucket),
		done: tx.Table(doneBucket), keys: tx.Table(keysBucket), commanded: tx.Table(commandedBucket),
		counts: commandStats(tx.Tx),
	}
}

func commandStats(tx *bolt.Tx) CommandStats {
	n := decode(valueOf(tx, commandedBucket, countKey))
	return CommandStats{Pending: n[0], Done: n[1]}
}

// close writes the counts.
func (d *commandTable) close() {
	d.commanded.Put([]byte(countKey), encode(d.counts.Pending, d.counts.Done))
}

// get returns a command, or nil if there is none.
func (d *commandTable) get(id []byte) (*keptCommand, error) {
	return parseCommand(id, d.commands.Get(id))
}

// put stores a command, new or changed, and adds it to the index of its state.
func (d *commandTable) put(k *keptCommand) error {
	value, err := json.Marshal(k)
	if err != nil {
		return fmt.Errorf("encode a command: %w", err)
	}
	index, key := d.done, k.doneKey()
	if k.State == CommandPending {
		d.counts.Pending++
		key = k.id
		if index, err = d.waiting.Make([]byte(k.Appliance)); err != nil {
			return err
		}
	} else {
		d.counts.Done++
	}
	index.Put(key, []byte{})
	d.commands.Put(k.id, value)
	return nil
}

// unindex removes a command from the index of its state.
func (d *commandTable) unindex(k *keptCommand) {
	if k.State != CommandPending {
		d.counts.Done--
		d.done.Delete(k.doneKey())
		return
	}
	d.counts.Pending--
	if waiting := d.waiting.Inside([]byte(k.Appliance)); waiting != nil {
		waiting.Delete(k.id)
	}
}

// doneKey returns a command's key in the index of done commands.
func (k *keptCommand) doneKey() []byte { return append(encode(uint64(max(k.Done, 0))), k.id...) }

// subjectKey returns the key of the command with an ID in the index of subjects.
func subjectKey(subject string, id []byte) []byte {
	return append(append([]byte(subject), 0), id...)
}

// drop removes a command.
func (d *commandTable) drop(k *keptCommand) {
	d.unindex(k)
	d.commands.Delete(k.id)
	if k.Key != "" {
		d.keys.Delete([]byte(k.Key))
	}
	if k.Subject != "" {
		d.subjects.Delete(subjectKey(k.Subject, k.id))
	}
}

// forgetOldest removes up to limit commands that were done before a time, or that exceed
// maxDoneCommands.
func (d *commandTable) forgetOldest(before time.Time, limit int) error {
	for range limit {
		mark, _ := d.done.Cursor().First()
		if len(mark) != 16 || int64(binary.BigEndian.Uint64(mark)) >= before.UnixMilli() && d.counts.Done <= maxDoneCommands {
			return nil
		}
		id := bytes.Clone(mark[8:])
		k, err := d.get(id)
		if err == nil && k == nil {
			err = fmt.Errorf("%w: it is missing", boltfile.ErrUnreadable)
		}
		if err != nil {
			return fmt.Errorf("forget command %d: %w", decode(id)[0], err)
		}
		d.drop(k)
	}
	return nil
}
