package tickets

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"ndrbridge/checkpoint"
)

// AcceptorOptions say whom a Desk takes commands for.
type AcceptorOptions struct {
	// Appliances are the names of all there are.
	Appliances []string
	// Locate returns the appliances that know a command's detection, or its ticket
	// where it names none. It is asked where there are several appliances and a
	// command names none of them; nil: such a command is refused.
	Locate func(ctx context.Context, c Command) (appliances []string, err error)
	// Now is the clock by which commands are accepted.
	Now     func() time.Time
	Metrics *AcceptorMetrics // never nil
}

// Acceptor takes commands in, from whatever intake: it checks them, finds out whose they
// are, and stores them. Its methods are safe for concurrent use.
type Acceptor struct {
	store checkpoint.Commands
	AcceptorOptions
}

// NewAcceptor returns a Desk that stores in store.
func NewAcceptor(store checkpoint.Commands, o AcceptorOptions) *Acceptor {
	return &Acceptor{store: store, AcceptorOptions: o}
}

// Accept stores commands, all of them or none, and returns what became of each, in
// their order: once it has returned, they will be carried out. key names the call,
// as an Idempotency-Key or the id of a message does, and begins with its intake's
// name; the same call again stores nothing. The same key with other commands is
// another call, so that a key used twice by mistake loses none. Empty: the call has
// no name.
//
// A *FieldError says which command is wrong and how, ErrCommandsFull of checkpoint
// that there is no space now. Any other error passes: try again, with the same key.
func (d *Acceptor) Accept(ctx context.Context, key string, commands []Command) ([]checkpoint.Acceptance, error) {
	name := ""
	if key != "" {
		var err error
		if name, err = digest(key, commands); err != nil {
			return nil, err
		}
	}
	now := d.Now()
	stored := make([]checkpoint.Command, len(commands))
	for i, c := range commands {
		appliance, err := d.appliance(ctx, c)
		if err != nil {
			return nil, d.refuse(i, err)
		}
		c.Appliance = appliance
		body, err := json.Marshal(c)
		if err != nil {
			return nil, fmt.Errorf("encode a command: %w", err)
		}
		stored[i] = checkpoint.Command{Appliance: appliance, Subject: c.TicketID, Body: body, Accepted: now}
		if name != "" {
			stored[i].Key = name + "/" + strconv.Itoa(i)
		}
	}
	accepted, err := d.store.Accept(ctx, stored)
	if err != nil {
		if errors.Is(err, checkpoint.ErrCommandsFull) {
			d.Count(ReceivedFull)
		}
		return nil, fmt.Errorf("store ticket commands: %w", err)
	}
	for _, a := range accepted {
		if a.Again {
			d.Count(ReceivedDuplicate)
		} else {
			d.Count(ReceivedAccepted)
		}
	}
	return accepted, nil
}

// refuse says which command an error is about, and counts it.
func (d *Acceptor) refuse(index int, err error) error {
	var wrong *FieldError
	if errors.As(err, &wrong) {
		wrong.Index = index
		d.Count(ReceivedRefused)
	}
	return err
}

// digest names a call by its key and by all that it asks for.
func digest(key string, commands []Command) (string, error) {
	call, err := json.Marshal(struct {
		Key      string
		Commands []Command
	}{key, commands})
	if err != nil {
		return "", fmt.Errorf("encode a command: %w", err)
	}
	sum := sha256.Sum256(call)
	return hex.EncodeToString(sum[:]), nil
}

// appliance checks a command and returns the name of its appliance.
func (d *Acceptor) appliance(ctx context.Context, c Command) (string, error) {
	if err := c.Check(); err != nil {
		return "", err
	}
	if c.Appliance != "" {
		if !slices.Contains(d.Appliances, c.Appliance) {
			return "", &FieldError{Field: "appliance", Problem: fmt.Sprintf("%.80q is none of the configuration", c.Appliance), Allowed: d.Appliances}
		}
		return c.Appliance, nil
	}
	if len(d.Appliances) == 1 {
		return d.Appliances[0], nil
	}
	var found []string
	if d.Locate != nil {
		var err error
		if found, err = d.Locate(ctx, c); err != nil {
			return "", fmt.Errorf("find out which appliance a ticket belongs to: %w", err)
		}
	}
	switch len(found) {
	case 0:
		return "", &FieldError{Field: "appliance", Problem: "is missing, and none is known to have the detection or the ticket", Allowed: d.Appliances}
	case 1:
		return found[0], nil
	}
	return "", &FieldError{Field: "appliance", Problem: "is missing, and several have the detection or the ticket", Allowed: found}
}
