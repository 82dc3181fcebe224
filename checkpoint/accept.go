package checkpoint

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	bolt "go.etcd.io/bbolt"
)

// countKey is the key of the counts in the bucket commanded.
var countKey = []byte("count")

// keptCommand is a command as stored in the file. Times are milliseconds since 1970.
type keptCommand struct {
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

func (k *keptCommand) command(id uint64) Command {
	c := Command{
		ID: id, Key: k.Key, Appliance: k.Appliance, Subject: k.Subject, Body: k.Body,
		Accepted: time.UnixMilli(k.Accepted).UTC(), State: k.State, Note: k.Note, Reason: k.Reason,
	}
	if k.Done != 0 {
		c.Done = time.UnixMilli(k.Done).UTC()
	}
	return c
}

// commandTable is the commands and their indexes within one transaction.
type commandTable struct {
	commands, waiting, subjects, done, keys, commanded *table
	pending, ended                                     uint64 // counts of commands
}

func openCommandTable(tx *writeTx) *commandTable {
	d := &commandTable{
		commands: tx.table(commandsBucket), waiting: tx.table(waitingBucket), subjects: tx.table(subjectsBucket),
		done: tx.table(doneBucket), keys: tx.table(keysBucket), commanded: tx.table(commandedBucket),
	}
	d.pending, d.ended = commandCounts(tx.Tx)
	return d
}

// commandCounts returns how many commands are pending and how many are done.
func commandCounts(tx *bolt.Tx) (pending, ended uint64) {
	if commanded := tx.Bucket(commandedBucket); commanded != nil { // else a file of an older version, opened read-only
		if counts := commanded.Get(countKey); len(counts) == 16 {
			return binary.BigEndian.Uint64(counts), binary.BigEndian.Uint64(counts[8:])
		}
	}
	return 0, 0
}

// close writes the counts.
func (d *commandTable) close() error {
	counts := binary.BigEndian.AppendUint64(appendUint64(d.pending), d.ended)
	if err := d.commanded.put(countKey, counts); err != nil {
		return fmt.Errorf("counts of commands: %w", err)
	}
	return nil
}

// get returns a command, or nil if there is none.
func (d *commandTable) get(id uint64) (*keptCommand, error) {
	return parseCommand(d.commands.Get(appendUint64(id)))
}

func parseCommand(value []byte) (*keptCommand, error) {
	if value == nil {
		return nil, nil
	}
	k := new(keptCommand)
	if err := json.Unmarshal(value, k); err != nil {
		return nil, fmt.Errorf("%w: a command: %w", errUnreadable, err)
	}
	return k, nil
}

func (d *commandTable) put(id uint64, k *keptCommand) error {
	value, err := json.Marshal(k)
	if err != nil {
		return fmt.Errorf("encode a command: %w", err)
	}
	return d.commands.put(appendUint64(id), value)
}

// indexPending adds a pending command to the indexes.
func (d *commandTable) indexPending(id uint64, k *keptCommand) error {
	waiting, err := d.waiting.make([]byte(k.Appliance))
	if err != nil {
		return err
	}
	d.pending++
	return waiting.put(appendUint64(id), []byte{})
}

// unindex removes a command from the index of pending or of done commands.
func (d *commandTable) unindex(id uint64, k *keptCommand) error {
	if k.State != CommandPending {
		d.ended--
		return d.done.remove(doneKey(id, k))
	}
	d.pending--
	if waiting := d.waiting.inside([]byte(k.Appliance)); waiting != nil {
		return waiting.remove(appendUint64(id))
	}
	return nil
}

// indexDone adds a done command to the indexes.
func (d *commandTable) indexDone(id uint64, k *keptCommand) error {
	d.ended++
	return d.done.put(doneKey(id, k), []byte{})
}

// subjectKey returns a command's key in the index of subjects.
func subjectKey(subject string, id uint64) []byte {
	return binary.BigEndian.AppendUint64(append([]byte(subject), 0), id)
}

// doneKey returns a command's key in the index of done commands.
func doneKey(id uint64, k *keptCommand) []byte {
	return binary.BigEndian.AppendUint64(appendUint64(uint64(max(k.Done, 0))), id)
}

// drop removes a command.
func (d *commandTable) drop(id uint64, k *keptCommand) error {
	if err := d.unindex(id, k); err != nil {
		return err
	}
	if k.Key != "" {
		if err := d.keys.remove([]byte(k.Key)); err != nil {
			return err
		}
	}
	if k.Subject != "" {
		if err := d.subjects.remove(subjectKey(k.Subject, id)); err != nil {
			return err
		}
	}
	return d.commands.remove(appendUint64(id))
}

// forgetOldest removes up to limit commands that were done before a time, or that exceed
// MaxDoneCommands.
func (d *commandTable) forgetOldest(before int64, limit int) error {
	for range limit {
		mark, _ := d.done.Cursor().First()
		if len(mark) != 16 || int64(binary.BigEndian.Uint64(mark)) >= before && d.ended <= MaxDoneCommands {
			return nil
		}
		id := binary.BigEndian.Uint64(mark[8:])
		k, err := d.get(id)
		if err != nil {
			return err
		}
		if k == nil {
			return fmt.Errorf("%w: command %d is missing", errUnreadable, id)
		}
		if err := d.drop(id, k); err != nil {
			return fmt.Errorf("forget command %d: %w", id, err)
		}
	}
	return nil
}

// Accept implements Commands.
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
		err = d.keys.put([]byte(c.Key), appendUint64(id))
	}
	if c.Subject != "" && err == nil {
		err = d.subjects.put(subjectKey(c.Subject, id), []byte{})
	}
	return Acceptance{ID: id}, err
}

// WaitCommands implements Commands.
func (s *Store) WaitCommands(ctx context.Context, after uint64) error {
	s.mu.Lock()
	changed := s.commanded
	s.mu.Unlock()
	last := uint64(0)
	err := s.view(ctx, func(tx *bolt.Tx) error {
		if commands := tx.Bucket(commandsBucket); commands != nil {
			last = commands.Sequence()
		}
		return nil
	})
	if err != nil || last > after {
		return err
	}
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-s.closing:
		return ErrClosed
	case <-changed:
		return nil
	}
}
