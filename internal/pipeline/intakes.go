package pipeline

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"time"

	"ndrbridge/checkpoint"
	"ndrbridge/configs"
	"ndrbridge/internal/admin"
	"ndrbridge/internal/commands"
	"ndrbridge/internal/commands/intake"
	"ndrbridge/internal/kafkaconn"
	"ndrbridge/internal/pipeline/endpoint"
	"ndrbridge/sinks/nats"
	"ndrbridge/transform"
)

// The names of the intakes.
const (
	NATSIntake  = "nats"
	KafkaIntake = "kafka"
)

// intakePart is an intake of ticket commands from a broker.
type intakePart struct {
	part
	broker string // NATSIntake or KafkaIntake
	intake ticketIntake
}

// ticketIntake receives ticket commands from a broker.
type ticketIntake interface {
	Run(context.Context)
	Status() intake.Status
}

// IntakeTarget returns the name of an intake's part, also in errors and findings.
func IntakeTarget(name string) string { return "tickets from " + name }

// newIntake returns the part of an intake.
func newIntake(broker string, open ticketIntake) *intakePart {
	return &intakePart{part: part{tasks: []task{prompt(open.Run)}}, broker: broker, intake: open}
}

func (p *Pipeline) newNATSIntake(n configs.NATSIntake) (*intakePart, error) {
	// Report configuration errors now, not while running.
	if _, err := endpoint.NATS(n.Connection()); err != nil {
		return nil, err
	}
	return newIntake(NATSIntake, intake.NewNATS(intake.NATSOptions{
		Options: p.intakeOptions(NATSIntake),
		Stream:  n.Stream, Subject: n.Subject, Durable: n.Durable,
		Connect: func() (nats.Options, error) { return endpoint.NATS(n.Connection()) },
	})), nil
}

func (p *Pipeline) newKafkaIntake(k configs.KafkaIntake) (*intakePart, error) {
	if _, err := endpoint.Kafka(k.Connection()); err != nil {
		return nil, err
	}
	return newIntake(KafkaIntake, intake.NewKafka(intake.KafkaOptions{
		Options: p.intakeOptions(KafkaIntake),
		Brokers: k.Brokers, Topic: k.Topic, Group: k.Group,
		Connect: func() (*tls.Config, *kafkaconn.SASL, error) {
			o, err := endpoint.Kafka(k.Connection())
			return o.TLS, o.SASL, err
		},
	})), nil
}

// intakeOptions returns the options that all intakes share.
func (p *Pipeline) intakeOptions(name string) intake.Options {
	return intake.Options{
		Acceptor: currentAcceptor{p}, Refuse: p.refuse,
		RetryInitial: 500 * time.Millisecond, RetryMax: 10 * time.Second,
		Log: p.options.Log.With("intake", name),
	}
}

// currentAcceptor delegates to the pipeline's current acceptor: an intake, or a sink that opens
// tickets, may outlive the acceptor that it was made with.
type currentAcceptor struct{ pipeline *Pipeline }

// Accept implements intake.Acceptor.
func (c currentAcceptor) Accept(ctx context.Context, key string, commands []commands.Command) ([]checkpoint.Acceptance, error) {
	acceptor := c.pipeline.Tickets().Acceptor
	if acceptor == nil {
		return nil, errors.New("tickets.enabled is false")
	}
	return acceptor.Accept(ctx, key, commands)
}

// refuse journals that a message held no acceptable command. It does not wait for space
// in the journal, because the commands after the message would wait, too: if its half
// of the reserve is used up, the refusal is only logged. The other half of the reserve
// is for the answers to tickets.
func (p *Pipeline) refuse(ctx context.Context, r intake.Refusal) error {
	now := time.Now()
	event, err := p.ownEvents().MessageRefused(transform.RefusedMessage{Message: r.Message, Reason: r.Reason, Sent: r.Sent}, now)
	if err != nil {
		return err
	}
	err = journal(ctx, p.store, event, now, false)
	if errors.Is(err, checkpoint.ErrFull) {
		p.options.Log.Warn("a message was refused without an event, since the journal is full", "message", r.Message, "error", r.Reason)
		return nil
	}
	if err != nil {
		return fmt.Errorf("journal the refusal of a message: %w", err)
	}
	return nil
}

// status returns the status of the intake for an operator.
func (p *intakePart) status() admin.IntakeStatus {
	s := p.intake.Status()
	of := admin.IntakeStatus{Intake: p.broker, State: "running", Since: s.Since, Error: s.Error, Cause: s.Cause, Stored: s.Stored, Refused: s.Refused}
	if !s.Open || s.Error != "" {
		of.State = "retrying"
	}
	return of
}
