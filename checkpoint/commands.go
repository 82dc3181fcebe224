package checkpoint

import (
	"context"
	"errors"
	"time"

	"ndrbridge/transform"
)

// ErrCommandsFull is returned if too many commands are pending (see MaxCommands). Nothing
// was written.
var ErrCommandsFull = errors.New("too many commands are pending")

// MaxCommands is how many commands may be pending, of all appliances.
const MaxCommands = 100_000

// Bounds of the commands that are done: the state keeps them for KeepCommands,
// and MaxDoneCommands of them at most, oldest forgotten first. A Key is known as
// long as its command is kept.
const (
	KeepCommands    = 7 * 24 * time.Hour
	MaxDoneCommands = 100_000
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
// owns the encoding of Body, and the code that carries it out owns the encoding of Note.
type Command struct {
	// ID increases over all commands in the order in which they were accepted,
	// from 1. Accept assigns it.
	ID uint64
	// Key identifies the command to the code that accepts it, so that the same command is
	// accepted once; empty: it has no key.
	Key       string
	Appliance string // its name
	// Subject is what the command is about, such as a ticket's id. Commands can be selected by
	// it.
	Subject string
	Body    []byte
	// Accepted is when it was accepted, by the clock of the caller of Accept, with a
	// precision of milliseconds.
	Accepted time.Time

	State CommandState
	// Note is the last note about carrying it out; nil if there is none.
	Note []byte
	// Reason is why it was rejected; never holds a secret.
	Reason string
	Done   time.Time // zero while it is pending
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
	Done    uint64 // those that the state still keeps
}

// Commands is the part of a store that keeps commands for appliances. Its methods are safe
// for concurrent use.
type Commands interface {
	Space
	// Accept stores commands, all of them or none, and returns the result of each, in their
	// order. Two commands of one call with the same Key are one command. The fields ID, State,
	// Note, Reason and Done are ignored. Accept returns ErrCommandsFull if more than
	// MaxCommands would be pending.
	Accept(ctx context.Context, commands []Command) ([]Acceptance, error)
	// Commands returns up to limit commands that f selects with an ID above after, in the
	// order of their IDs. The caller owns the result. If f has a Subject, or selects pending
	// commands, the cost does not depend on how many other commands there are.
	Commands(ctx context.Context, f CommandFilter, after uint64, limit int) ([]Command, error)
	// Command returns one command; found is false if there is none.
	Command(ctx context.Context, id uint64) (c Command, found bool, err error)
	// Note stores a note with a pending command, and expected changes as Outcome does. It
	// returns ErrFenced if the command is no longer pending.
	Note(ctx context.Context, id uint64, note []byte, expect []Entry) error
	// Finish ends a pending command. It returns ErrFenced if the command is no longer pending.
	// Its events are appended even if the journal is full: the caller must not begin a command
	// unless HasSpace reports space in the reserve.
	Finish(ctx context.Context, o Outcome) error
	// RetryCommand makes a rejected command pending again, with its old ID. It returns an
	// error if there is no such command, or it is not rejected.
	RetryCommand(ctx context.Context, id uint64) error
	// DropCommands drops commands, pending ones too, and ignores unknown IDs. n is how many
	// were dropped.
	DropCommands(ctx context.Context, ids []uint64) (n int, err error)
	// Expected returns the expected changes of an appliance's commands, in the order of their
	// keys.
	Expected(ctx context.Context, appliance string) ([]Entry, error)
	// DropExpected drops the expected changes with the given keys, and those whose At is below
	// before.
	DropExpected(ctx context.Context, appliance string, keys []string, before int64) error
	// WaitCommands blocks until a command with an ID above after is stored, a command was made
	// pending again since the call, or ctx is done.
	WaitCommands(ctx context.Context, after uint64) error
}
