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
	"ndrbridge/tickets/intake"
	"ndrbridge/transform"
)

// The intakes, by what they receive from.
const (
	natsIntake  = "nats"
	kafkaIntake = "kafka"
)

// intakePart is a way in for ticket commands from a broker.
type intakePart struct {
	name   string // natsIntake or kafkaIntake
	made   fingerprint
	intake ticketIntake
}

// ticketIntake receives ticket commands from a broker.
type ticketIntake interface {
	Run(context.Context)
	Status() intake.Status
}

// arrangeIntakes makes the intakes that the configuration has, but those of now that
// would be made alike. It adds the errors of those that cannot be made.
func (b *Bridge) buildIntakes(config *configs.Config, now *runtime, failed *partErrors) (intakes []*intakePart) {
	if !config.Tickets.Enabled {
		return nil
	}
	add := func(name string, files []string, settings any, open func() (ticketIntake, error)) {
		p, err := buildIntake(name, now, files, settings, open)
		failed.add(intakeTarget(name), err)
		if err == nil {
			intakes = append(intakes, p)
		}
	}
	if n := config.Tickets.NATS; n.URL.Value() != "" {
		add(natsIntake, n.Files(), n, func() (ticketIntake, error) { return b.openNATSIntake(n) })
	}
	if k := config.Tickets.Kafka; len(k.Brokers) > 0 {
		add(kafkaIntake, k.Files(), k, func() (ticketIntake, error) { return b.openKafkaIntake(k) })
	}
	return intakes
}

// intakeTarget names an intake in errors and findings.
func intakeTarget(name string) string { return "tickets from " + name }

// arrangeIntake returns the intake of now, if it is made of the same, or else another part.
func buildIntake(name string, now *runtime, files []string, settings any, open func() (ticketIntake, error)) (*intakePart, error) {
	made, err := newFingerprint(files, settings)
	if err != nil {
		return nil, err
	}
	if p := now.intake(name); p != nil && p.made.equal(made) {
		return p, nil
	}
	d, err := open()
	return &intakePart{name: name, made: made, intake: d}, err
}

func (p *intakePart) partName() string { return "tickets." + p.name }

func (p *intakePart) start(ctx context.Context, ps *parts) {
	ps.start(ctx, p.partName(), sourcePhase, prompt(p.intake.Run))
}

func (b *Bridge) openNATSIntake(n configs.TicketNATS) (ticketIntake, error) {
	// Mistakes of the configuration itself are errors now, not while running.
	if _, err := natsConnection(n.Connection()); err != nil {
		return nil, err
	}
	return intake.NewNATS(intake.NATSOptions{
		Options: b.intakeOptions(natsIntake, func() redact.Secrets {
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

func (b *Bridge) openKafkaIntake(k configs.TicketKafka) (ticketIntake, error) {
	if _, err := kafkaConnection(k.Connection()); err != nil {
		return nil, err
	}
	return intake.NewKafka(intake.KafkaOptions{
		Options: b.intakeOptions(kafkaIntake, func() redact.Secrets {
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

// intakeOptions are what intakes have in common. secrets reads those that no text may
// show.
func (b *Bridge) intakeOptions(name string, secrets func() redact.Secrets) intake.Options {
	return intake.Options{
		Acceptor: currentAcceptor{b}, Refuse: b.refuse,
		RetryInitial: 500 * time.Millisecond, RetryMax: 10 * time.Second,
		Hide: func(text string) string { return secrets().Hide(text) },
		Log:  b.log.With("intake", name),
	}
}

// currentAcceptor is the acceptor of now: an intake outlives those that a reload replaces.
type currentAcceptor struct{ bridge *Bridge }

// Accept implements intake.Desk.
func (d currentAcceptor) Accept(ctx context.Context, key string, commands []tickets.Command) ([]checkpoint.Acceptance, error) {
	acceptor := d.bridge.tickets().Acceptor
	if acceptor == nil {
		return nil, errors.New("tickets.enabled is false")
	}
	return acceptor.Accept(ctx, key, commands)
}

// refuse journals that a message brought no command. It does not wait for space in the
// journal, since the commands behind the message would wait with it: once half of the
// reserve is used up too, the log alone has it. The other half is left to the answers to
// tickets.
func (b *Bridge) refuse(ctx context.Context, r intake.Refusal) error {
	now := time.Now()
	event, err := ownEvents(b.current.Load().config).MessageRefused(transform.RefusedMessage{Message: r.Message, Reason: r.Reason, Sent: r.Sent}, now)
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

// status tells how an intake stands, for an operator.
func (p *intakePart) status() admin.IntakeStatus {
	s := p.intake.Status()
	of := admin.IntakeStatus{Intake: p.name, State: "running", Since: s.Since, Error: s.Error, Stored: s.Stored, Refused: s.Refused}
	if !s.Open || s.Error != "" {
		of.State = "retrying"
	}
	return of
}
