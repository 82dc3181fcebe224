package checkpoint

import (
	"context"
	"errors"
	"time"

	"ndrbridge/transform"
)

// ErrCommandsFull says that too many commands wait already (see MaxCommands).
// Nothing was written.
var ErrCommandsFull = errors.New("too many commands wait")

// MaxCommands is how many commands may wait to be carried out, of all appliances.
const MaxCommands = 100_000

// Bounds of the commands that are done: the state keeps them for KeepCommands,
// and MaxDoneCommands of them at most, oldest forgotten first. A Key is known as
// long as its command is kept.
const (
	KeepCommands    = 7 * 24 * time.Hour
	MaxDoneCommands = 100_000
)

// CommandState says what became of a command.
type CommandState string

// The states of a command.
const (
	CommandPending  CommandState = "pending"
	CommandApplied  CommandState = "applied"
	CommandRejected CommandState = "rejected"
)

// Command is something that an appliance is to be told, once at least. Whoever
// hands it in owns the encoding of Body, and whoever carries it out that of Note.
type Command struct {
	// ID counts up over all commands in the order in which they were accepted,
	// from 1. It is given by Accept.
	ID uint64
	// Key names the command for whoever hands it in, so that the same one is
	// accepted once; empty: it has no name.
	Key       string
	Appliance string // its name
	// Subject is what the command is about, as a ticket's id: List finds it by it.
	Subject string
	Body    []byte
	// Accepted is when, by the clock of whoever handed it in, in milliseconds.
	Accepted time.Time

	State CommandState
	// Note is what was noted last about carrying it out; nil: nothing.
	Note []byte
	// Reason is why it was rejected; never holds a secret.
	Reason string
	Done   time.Time // zero while it is pending
}

// Acceptance is what became of a command that was handed in.
type Acceptance struct {
	ID uint64
	// Again says that a command with the same Key was accepted before: ID is its,
	// and nothing was stored.
	Again bool
}

// Outcome is the end of a pending command.
type Outcome struct {
	ID     uint64
	State  CommandState // CommandApplied or CommandRejected
	Reason string       // of CommandRejected
	Done   time.Time
	// Events are appended to the journal with it.
	Events []transform.Event
	// Expect are changes that the command made and that its appliance's source is
	// to recognize. Those of a key that is there are replaced.
	Expect []Entry
}

// CommandFilter selects commands. A field's zero value selects all.
type CommandFilter struct {
	Appliance string
	Subject   string
	State     CommandState
}

// CommandStats counts commands.
type CommandStats struct {
	Pending uint64
	Done    uint64 // that the state still has
}

// Commands is the part of a store that keeps what appliances are to be told. Its
// methods are safe for concurrent use.
type Commands interface {
	Space
	// Accept stores commands, all of them or none, and returns what became of each,
	// in their order. Two of one call with the same Key are one command. Of their
	// fields ID, State, Note, Reason and Done are not read. ErrCommandsFull where
	// more than MaxCommands would wait.
	Accept(ctx context.Context, commands []Command) ([]Acceptance, error)
	// Commands returns up to limit commands that f selects with an ID above after,
	// in the order of their IDs. The result is the caller's. What it costs does not
	// depend on how many others there are where f names a Subject or what is pending.
	Commands(ctx context.Context, f CommandFilter, after uint64, limit int) ([]Command, error)
	// Command returns one command; found is false where there is none.
	Command(ctx context.Context, id uint64) (c Command, found bool, err error)
	// Note keeps a note with a pending command, and expectations as Outcome does.
	// ErrFenced where it is not pending any more.
	Note(ctx context.Context, id uint64, note []byte, expect []Entry) error
	// Finish ends a pending command. ErrFenced where it is not pending any more. Its
	// events are appended even if the journal is full: the caller begins no command
	// unless HasSpace reports space in the reserve.
	Finish(ctx context.Context, o Outcome) error
	// RetryCommand makes a rejected command pending once more, in its old place. It
	// is an error where there is none, or it is not rejected.
	RetryCommand(ctx context.Context, id uint64) error
	// DropCommands forgets commands, pending ones too; IDs that are not there are
	// passed over. n is how many were dropped.
	DropCommands(ctx context.Context, ids []uint64) (n int, err error)
	// Expected returns what is expected of an appliance, by key.
	Expected(ctx context.Context, appliance string) ([]Entry, error)
	// Unexpect drops expectations, and those whose At is below before.
	Unexpect(ctx context.Context, appliance string, keys []string, before int64) error
	// WaitCommands returns once a command with an ID above after is stored, or one
	// was made pending once more since it was called, or ctx ended.
	WaitCommands(ctx context.Context, after uint64) error
}
