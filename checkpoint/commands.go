package checkpoint

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"iter"
	"slices"
	"time"

	bolt "go.etcd.io/bbolt"

	"ndrbridge/transform"
)

// ErrCommandsFull is returned if too many commands are pending (see MaxCommands). Nothing
// was written.
var ErrCommandsFull = errors.New("too many commands are pending")

// MaxCommands is how many commands may be pending, of all appliances.
const MaxCommands = 100_000

// Bounds of the commands that are done: the state keeps them for keepCommands,
// and maxDoneCommands of them at most, oldest forgotten first. A Key is known as
// long as its command is kept.
const (
	keepCommands    = 7 * 24 * time.Hour
	maxDoneCommands = 100_000
)

// CommandState is the state of a command.
type CommandState string

// The states of a command.
const (
	CommandPending  CommandState = "pending"
	CommandApplied  CommandState = "applied"
	CommandRejected CommandState = "rejected"
)

// Command is a change to make at an appliance, at least once. The code that accepts it
// owns the encoding of Body, and the code that carries it out owns the encoding of Note. Its
// JSON, for the member of a cluster that stores it, has the fields that Accept stores.
type Command struct {
	// ID increases over all commands in the order in which they were accepted.
	// Accept assigns it.
	ID uint64 `json:"-"`
	// Key identifies the command to the code that accepts it, so that the same command is
	// accepted once; empty: it has no key.
	Key       string `json:"key,omitempty"`
	Appliance string `json:"appliance"` // its name
	// Subject is the object of the command, such as a ticket's id. It selects commands.
	Subject string          `json:"subject"`
	Body    json.RawMessage `json:"body"`
	// Accepted is when it was accepted, by the clock of the caller of Accept, with a
	// precision of milliseconds.
	Accepted time.Time `json:"accepted"`

	State CommandState `json:"-"`
	// Note is the last note about carrying it out; nil if there is none.
	Note []byte `json:"-"`
	// Reason is why it was rejected; never holds a secret.
	Reason string    `json:"-"`
	Done   time.Time `json:"-"` // zero while it is pending
}

// Acceptance is the result of accepting a command.
type Acceptance struct {
	ID uint64
	// Duplicate is true if a command with the same Key was accepted before: ID is that
	// command's, and nothing was stored.
	Duplicate bool
}

// Outcome is the result of a pending command.
type Outcome struct {
	ID     uint64
	State  CommandState // CommandApplied or CommandRejected
	Reason string       // of CommandRejected
	Done   time.Time
	// Events are appended to the journal with it.
	Events []transform.Event
	// Expect holds changes that the command made, for its appliance's source to
	// recognize. They replace existing ones with the same key.
	Expect []Entry
}

// CommandFilter selects commands. A zero field selects all.
type CommandFilter struct {
	Appliance string
	Subject   string
	State     CommandState
}

// CommandStats counts commands.
type CommandStats struct {
	Pending uint64
	Done    uint64 // as far as they are kept
}

// Command returns one command; found is false if there is none.
func (s *Store) Command(ctx context.Context, id uint64) (c Command, found bool, err error) {
	err = s.view(ctx, func(tx *bolt.Tx) error {
		key := encode(id)
		k, err := parseCommand(key, valueOf(tx, commandsBucket, string(key)))
		if k != nil {
			c, found = k.command(), true
		}
		return err
	})
	return c, found, wrapf(err, "command %d", id)
}

// Commands returns up to limit commands that f selects with an ID above after, in the
// order of their IDs. The caller owns the result. If f has a Subject, or selects pending
// commands, the cost does not depend on how many other commands there are.
func (s *Store) Commands(ctx context.Context, f CommandFilter, after uint64, limit int) (found []Command, err error) {
	err = s.view(ctx, func(tx *bolt.Tx) error {
		commands := tx.Bucket(commandsBucket)
		for id := range f.ids(tx, encode(after), limit) {
			if len(found) >= limit {
				break
			}
			k, err := parseCommand(id, get(commands, id))
			if err != nil {
				return err
			}
			if k != nil && f.selects(k) {
				found = append(found, k.command())
			}
		}
		return nil
	})
	return found, wrapf(err, "list commands")
}

func (f CommandFilter) selects(k *keptCommand) bool {
	return (f.Appliance == "" || f.Appliance == k.Appliance) &&
		(f.Subject == "" || f.Subject == k.Subject) &&
		(f.State == "" || f.State == k.State)
}

// ids yields, in order, the keys of all commands after a key that f may select, from the
// smallest index available. If it yields only selected keys, it may end after limit.
func (f CommandFilter) ids(tx *bolt.Tx, after []byte, limit int) iter.Seq[[]byte] {
	switch {
	case f.Subject != "":
		return idsAfter(tx.Bucket(subjectsBucket), subjectKey(f.Subject, after))
	case f.State != CommandPending:
		return idsAfter(tx.Bucket(commandsBucket), after)
	case f.Appliance != "":
		return idsAfter(inside(tx, waitingBucket, []byte(f.Appliance)), after)
	}
	// The leading ones of all appliances are among the leading ones of each.
	var ids [][]byte
	waiting := tx.Bucket(waitingBucket)
	for appliance := range walk(waiting, nil) {
		n := 0
		for id := range idsAfter(waiting.Bucket(appliance), after) {
			if n++; n > limit {
				break
			}
			ids = append(ids, id)
		}
	}
	slices.SortFunc(ids, bytes.Compare)
	return slices.Values(ids)
}

// idsAfter yields the IDs at the ends of the keys of a bucket after mark, of those keys
// that differ from mark in the ID only. The bucket may be nil.
func idsAfter(b *bolt.Bucket, mark []byte) iter.Seq[[]byte] {
	prefix := mark[:len(mark)-8]
	return func(yield func([]byte) bool) {
		for key := range walk(b, mark) {
			// A subject can begin with another one and a zero byte.
			is := len(key) == len(mark) && !bytes.Equal(key, mark)
			if !bytes.HasPrefix(key, prefix) || is && !yield(key[len(prefix):]) {
				return
			}
		}
	}
}

// WaitCommands blocks until a command with an ID above after is stored, a command was made
// pending again since the call, or ctx is done.
func (s *Store) WaitCommands(ctx context.Context, after uint64) error {
	changed := false // since the call
	return s.await(ctx, &s.commanded, func() (is bool, err error) {
		err = s.view(ctx, func(tx *bolt.Tx) error {
			commands := tx.Bucket(commandsBucket)
			is = changed || commands != nil && commands.Sequence() > after
			return nil
		})
		changed = true
		return is, err
	})
}
