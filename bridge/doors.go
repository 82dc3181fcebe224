package bridge

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"time"

	natsclient "github.com/nats-io/nats.go"

	"ndrbridge/admin"
	"ndrbridge/checkpoint"
	"ndrbridge/configs"
	"ndrbridge/internal/kafkawire"
	"ndrbridge/internal/redact"
	"ndrbridge/tickets"
	"ndrbridge/tickets/inbox"
	"ndrbridge/transform"
)

// The doors, by what they receive from.
const (
	natsDoor  = "nats"
	kafkaDoor = "kafka"
)

// doorPart is a way in for ticket commands from a broker.
type doorPart struct {
	name string // natsDoor or kafkaDoor
	made blueprint
	door door
}

// door receives ticket commands from a broker.
type door interface {
	Run(context.Context)
	Status() inbox.Status
}

// arrangeDoors makes the doors that the configuration has, but those of now that
// would be made alike. It adds the errors of those that cannot be made.
func (b *Bridge) arrangeDoors(config *configs.Config, now *arrangement, failed *partErrors) (doors []*doorPart) {
	if !config.Tickets.Enabled {
		return nil
	}
	add := func(name string, files []string, settings any, open func() (door, error)) {
		p, err := arrangeDoor(name, now, files, settings, open)
		failed.add(doorTarget(name), err)
		if err == nil {
			doors = append(doors, p)
		}
	}
	if n := config.Tickets.NATS; n.URL.Value() != "" {
		add(natsDoor, n.Files(), n, func() (door, error) { return b.openNATSDoor(n) })
	}
	if k := config.Tickets.Kafka; len(k.Brokers) > 0 {
		add(kafkaDoor, k.Files(), k, func() (door, error) { return b.openKafkaDoor(k) })
	}
	return doors
}

// doorTarget names a door in errors and findings.
func doorTarget(name string) string { return "tickets from " + name }

// arrangeDoor returns the door of now, if it is made of the same, or else another part.
func arrangeDoor(name string, now *arrangement, files []string, settings any, open func() (door, error)) (*doorPart, error) {
	made, err := newBlueprint(files, settings)
	if err != nil {
		return nil, err
	}
	if p := now.door(name); p != nil && p.made.equal(made) {
		return p, nil
	}
	d, err := open()
	return &doorPart{name: name, made: made, door: d}, err
}

func (p *doorPart) partName() string { return "tickets." + p.name }

func (p *doorPart) start(ctx context.Context, ps *parts) {
	ps.start(ctx, p.partName(), sourcePhase, prompt(p.door.Run))
}

func (b *Bridge) openNATSDoor(n configs.TicketNATS) (door, error) {
	// Mistakes of the configuration itself are errors now, not while running.
	if _, err := natsConnection(n.Connection()); err != nil {
		return nil, err
	}
	return inbox.NewNATS(inbox.NATSOptions{
		Options: b.doorOptions(natsDoor, func() redact.Secrets {
			o, err := natsConnection(n.Connection())
			if err != nil {
				return redact.Secrets{}
			}
			return o.Secrets()
		}),
		URL: n.URL.Value(), Stream: n.Stream, Subject: n.Subject, Durable: n.Durable,
		Connect: func() (*tls.Config, []natsclient.Option, error) {
			o, err := natsConnection(n.Connection())
			if err != nil {
				return nil, nil, err
			}
			options, err := o.SignIn()
			return o.TLS, options, err
		},
	}), nil
}

func (b *Bridge) openKafkaDoor(k configs.TicketKafka) (door, error) {
	if _, err := kafkaConnection(k.Connection()); err != nil {
		return nil, err
	}
	return inbox.NewKafka(inbox.KafkaOptions{
		Options: b.doorOptions(kafkaDoor, func() redact.Secrets {
			o, err := kafkaConnection(k.Connection())
			if err != nil || o.SASL == nil {
				return redact.Secrets{}
			}
			return redact.New(o.SASL.Password)
		}),
		Brokers: k.Brokers, Topic: k.Topic, Group: k.Group,
		Connect: func() (*tls.Config, *kafkawire.SASL, error) {
			o, err := kafkaConnection(k.Connection())
			return o.TLS, o.SASL, err
		},
	}), nil
}

// doorOptions are what doors have in common. secrets reads those that no text may
// show.
func (b *Bridge) doorOptions(name string, secrets func() redact.Secrets) inbox.Options {
	return inbox.Options{
		Desk: currentDesk{b}, Refuse: b.refuse,
		RetryInitial: 500 * time.Millisecond, RetryMax: 10 * time.Second,
		Hide: func(text string) string { return secrets().Hide(text) },
		Log:  b.log.With("door", name),
	}
}

// currentDesk is the desk of now: a door outlives those that a reload replaces.
type currentDesk struct{ bridge *Bridge }

// Accept implements inbox.Desk.
func (d currentDesk) Accept(ctx context.Context, key string, commands []tickets.Command) ([]checkpoint.Acceptance, error) {
	desk := d.bridge.tickets().Desk
	if desk == nil {
		return nil, errors.New("tickets.enabled is false")
	}
	return desk.Accept(ctx, key, commands)
}

// refuse journals that a message brought no command. It does not wait for space in the
// journal, since the commands behind the message would wait with it: once half of the
// reserve is used up too, the log alone has it. The other half is left to the answers to
// tickets.
func (b *Bridge) refuse(ctx context.Context, r inbox.Refusal) error {
	now := time.Now()
	event, err := ownEvents(b.arranged.Load().config).MessageRefused(transform.RefusedMessage{Message: r.Message, Reason: r.Reason, Sent: r.Sent}, now)
	if err != nil {
		return err
	}
	err = journal(ctx, b.store, event, now, false)
	if errors.Is(err, checkpoint.ErrFull) {
		b.log.Warn("a message was refused without an event, since the journal is full", "message", r.Message, "error", r.Reason)
		return nil
	}
	if err != nil {
		return fmt.Errorf("journal that a message was refused: %w", err)
	}
	return nil
}

// status tells how a door stands, for an operator.
func (p *doorPart) status() admin.DoorStatus {
	s := p.door.Status()
	of := admin.DoorStatus{Door: p.name, State: "running", Since: s.Since, Error: s.Error, Stored: s.Stored, Refused: s.Refused}
	if !s.Open || s.Error != "" {
		of.State = "retrying"
	}
	return of
}
