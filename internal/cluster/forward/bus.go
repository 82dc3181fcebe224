package forward

import (
	"cmp"
	"errors"
	"fmt"
	"strings"

	"github.com/nats-io/nats.go"
)

// bus sends and receives messages. It keeps the order of messages from one sender to
// one subject, and may lose messages.
type bus interface {
	// newInbox returns a subject that nobody else uses and nobody can guess.
	newInbox() string
	// isInbox reports whether a subject is an inbox. A side never publishes to another
	// subject that a message names: its rights may exceed those of the sender.
	isInbox(subject string) bool
	// subscribe has receive called for each message, one at a time, until the result is
	// called.
	subscribe(subject string, receive func(message)) (unsubscribe func(), err error)
	// publish sends a message. reply receives a message with nobody if the subject has
	// no subscriber. It does not keep data.
	publish(subject, reply string, data []byte) error
	maxPayload() int
}

// message is a received message.
type message struct {
	reply  string
	data   []byte // the receiver may keep it
	nobody bool   // an earlier message was published to a subject without subscribers
}

// natsBus is a bus on a NATS connection.
type natsBus struct{ *nats.Conn }

func (b natsBus) newInbox() string { return b.NewInbox() }

func (b natsBus) isInbox(subject string) bool {
	return strings.HasPrefix(subject, cmp.Or(strings.TrimSuffix(b.Opts.InboxPrefix, "."), strings.TrimSuffix(nats.InboxPrefix, "."))+".")
}

func (b natsBus) maxPayload() int { return int(b.MaxPayload()) }

func (b natsBus) subscribe(subject string, receive func(message)) (func(), error) {
	s, err := b.Subscribe(subject, func(m *nats.Msg) {
		receive(message{reply: m.Reply, data: m.Data, nobody: len(m.Data) == 0 && m.Header.Get("Status") == "503"})
	})
	if err != nil {
		return nil, fmt.Errorf("subscribe to %s: %w", subject, err)
	}
	unsubscribe := func() { _ = s.Unsubscribe() } // fails only if the connection is closed
	// Messages wait here only while an earlier one is received, which never blocks.
	if err := s.SetPendingLimits(pendingMessages, pendingBytes); err != nil {
		unsubscribe()
		return nil, fmt.Errorf("subscribe to %s: %w", subject, err)
	}
	return unsubscribe, nil
}

// Limits of the messages that wait in a subscription. Messages beyond them are lost.
const (
	pendingMessages = 1 << 10
	pendingBytes    = 1 << 20
)

func (b natsBus) publish(subject, reply string, data []byte) error {
	if !b.IsConnected() {
		// Messages would be sent after a reconnect, when nobody waits for them.
		return errors.New("there is no connection to NATS")
	}
	return b.PublishRequest(subject, reply, data)
}
