package commands

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

// AcceptorOptions configure an Acceptor.
type AcceptorOptions struct {
	// Appliances are the names of all configured appliances.
	Appliances []string
	// MaxExpiration limits how long from now the rules of commands may last, by appliance.
	// Commands on rules are refused for other appliances: rules.write is false there.
	MaxExpiration map[string]time.Duration
	// Notes are the names of the appliances whose notes may be added to. Commands on notes are
	// refused for others: notes.out is false there.
	Notes []string
	// Locate returns the appliances that know a command's detection, or its ticket if
	// it names no detection. It is called if there are several appliances and a command
	// names none of them. If it is nil, such a command is refused.
	Locate func(ctx context.Context, c Command) (appliances []string, err error)
	// Now is the clock for the time at which commands are accepted.
	Now     func() time.Time
	Metrics *AcceptorMetrics // never nil
}

// AcceptorStore is where an Acceptor stores commands. *checkpoint.Store implements it, and
// documents the method.
type AcceptorStore interface {
	Accept(ctx context.Context, commands []checkpoint.Command) ([]checkpoint.Acceptance, error)
}

// Acceptor checks commands from any intake, determines their appliances, and stores
// them. Its methods are safe for concurrent use.
type Acceptor struct {
	store AcceptorStore
	AcceptorOptions
}

// NewAcceptor returns an Acceptor that stores commands in store.
func NewAcceptor(store AcceptorStore, o AcceptorOptions) *Acceptor {
	return &Acceptor{store: store, AcceptorOptions: o}
}

// Accept stores all of the commands or none and returns their acceptances in the same
// order. Once it has returned, the commands will be carried out.
//
// key identifies the call, as an Idempotency-Key or a message id does, and begins with
// the name of its intake; a repeated call stores nothing. The same key with different
// commands is a different call, so that a key reused by mistake loses no command. An
// empty key disables this.
//
// Accept returns a *FieldError if a command is invalid, and checkpoint.ErrCommandsFull
// if there is no space now. Any other error is temporary: retry with the same key.
func (a *Acceptor) Accept(ctx context.Context, key string, commands []Command) ([]checkpoint.Acceptance, error) {
	name := ""
	if key != "" {
		var err error
		if name, err = digest(key, commands); err != nil {
			return nil, err
		}
	}
	now := a.Now()
	stored := make([]checkpoint.Command, len(commands))
	for i, c := range commands {
		c, err := a.check(ctx, c, now)
		if err != nil {
			if wrong, ok := errors.AsType[*FieldError](err); ok {
				wrong.Index = i
				a.Count(ReceivedRefused)
			}
			return nil, err
		}
		body, err := json.Marshal(c)
		if err != nil {
			return nil, fmt.Errorf("encode a command: %w", err)
		}
		stored[i] = checkpoint.Command{Appliance: c.Appliance, Subject: c.TicketID, Body: body, Accepted: now}
		if name != "" {
			stored[i].Key = name + "/" + strconv.Itoa(i)
		}
	}
	accepted, err := a.store.Accept(ctx, stored)
	if err != nil {
		if errors.Is(err, checkpoint.ErrCommandsFull) {
			a.Count(receivedFull)
		}
		return nil, fmt.Errorf("store commands: %w", err)
	}
	for _, c := range accepted {
		if c.Duplicate {
			a.Count(receivedDuplicate)
		} else {
			a.Count(receivedAccepted)
		}
	}
	return accepted, nil
}

// digest returns a key that is unique to a call: to its key and all of its commands.
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

// check checks a command and returns it with the name of its appliance, and with the times of
// rules in place of durations.
func (a *Acceptor) check(ctx context.Context, c Command, now time.Time) (Command, error) {
	err := c.Check()
	if err == nil {
		c.Appliance, err = a.appliance(ctx, c)
	}
	switch {
	case err != nil:
		return c, err
	case c.Kind() == KindNote && !slices.Contains(a.Notes, c.Appliance):
		return c, &FieldError{Problem: fmt.Sprintf("notes.out is false for the appliance %s: set it, and the bridge writes notes there", c.Appliance)}
	case c.Kind() != KindRule:
		return c, nil
	}
	most := a.MaxExpiration[c.Appliance]
	if most == 0 {
		return c, &FieldError{Problem: fmt.Sprintf("rules.write is false for the appliance %s: set it, and the bridge writes rules there", c.Appliance)}
	}
	return c.within(now, most)
}

// appliance returns the name of a command's appliance.
func (a *Acceptor) appliance(ctx context.Context, c Command) (string, error) {
	if c.Appliance != "" {
		if !slices.Contains(a.Appliances, c.Appliance) {
			return "", &FieldError{Field: "appliance", Problem: fmt.Sprintf("%.80q is not configured", c.Appliance), Allowed: a.Appliances}
		}
		return c.Appliance, nil
	}
	if len(a.Appliances) == 1 {
		return a.Appliances[0], nil
	}
	if c.RuleID != 0 {
		return "", &FieldError{Field: "appliance", Problem: "is missing: several appliances may have a rule with this id", Allowed: a.Appliances}
	}
	var found []string
	if a.Locate != nil {
		var err error
		if found, err = a.Locate(ctx, c); err != nil {
			return "", fmt.Errorf("find the appliance of a ticket: %w", err)
		}
	}
	switch len(found) {
	case 0:
		return "", &FieldError{Field: "appliance", Problem: "is missing, and no appliance is known to have the detection or the ticket", Allowed: a.Appliances}
	case 1:
		return found[0], nil
	}
	return "", &FieldError{Field: "appliance", Problem: "is missing, and several appliances have the detection or the ticket", Allowed: found}
}
