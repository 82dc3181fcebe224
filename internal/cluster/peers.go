package cluster

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"
)

// Peers reaches the members of a cluster over NATS, without JetStream.
type Peers struct {
	NC   *nats.Conn
	Name string // of the cluster
	// Hide removes secrets from errors of the servers.
	Hide func(error) error
}

// Bounds of the answers of other members.
const (
	askFor     = 300 * time.Millisecond // how long answers are collected
	maxReports = 256
	maxReport  = 64 << 10 // bytes
)

func (p Peers) members() string { return "ndr." + p.Name + ".members" }

func (p Peers) recover(member string) string { return "ndr." + p.Name + ".recover." + member }

// Ask returns what all members say of themselves.
func (p Peers) Ask(ctx context.Context) ([]Report, error) {
	reports, err := p.ask(ctx)
	if err != nil {
		return nil, fmt.Errorf("ask the members: %w", p.Hide(err))
	}
	return reports, nil
}

func (p Peers) ask(ctx context.Context) (reports []Report, err error) {
	inbox := p.NC.NewInbox()
	answers, err := p.NC.SubscribeSync(inbox)
	if err != nil {
		return nil, err
	}
	defer func() { _ = answers.Unsubscribe() }()
	if err := p.NC.PublishRequest(p.members(), inbox, nil); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, askFor)
	defer cancel()
	for len(reports) < maxReports {
		m, err := answers.NextMsgWithContext(ctx)
		if errors.Is(err, context.DeadlineExceeded) || errors.Is(err, nats.ErrNoResponders) {
			return reports, nil
		}
		if err != nil {
			return nil, err
		}
		var r Report
		if len(m.Data) <= maxReport && json.Unmarshal(m.Data, &r) == nil && r.Member != "" {
			reports = append(reports, r)
		}
	}
	return reports, nil
}

// recoverTimeout bounds a recovery that another member requested.
const recoverTimeout = 10 * time.Minute

// recovered is the answer to a request to recover the log.
type recovered struct {
	Error string `json:"error,omitempty"` // empty: it is recovered
}

// Serve answers the other members for n until the connection is closed. stop ends a recovery that
// one of them requested, and refuses others.
func (p Peers) Serve(ctx context.Context, n *Node) (stop func(), err error) {
	ctx, cancel := context.WithCancel(ctx)
	answer := func(m *nats.Msg, content any) {
		if data, err := json.Marshal(content); err == nil {
			_ = m.Respond(data) // fails only if the connection is closed
		}
	}
	reports, err := p.NC.Subscribe(p.members(), func(m *nats.Msg) { answer(m, n.Report()) })
	if err == nil {
		_, err = p.NC.Subscribe(p.recover(n.o.Member), func(m *nats.Msg) {
			bounded, cancel := context.WithTimeout(ctx, recoverTimeout)
			defer cancel()
			var r recovered
			if err := n.Recover(bounded); err != nil {
				r.Error = err.Error()
			}
			answer(m, r)
		})
	}
	if err != nil {
		cancel()
		if reports != nil {
			_ = reports.Unsubscribe()
		}
		return nil, fmt.Errorf("answer the other members: %w", p.Hide(err))
	}
	return cancel, nil
}

// Recover has a member continue the log from its copy: see Node.Recover.
func (p Peers) Recover(ctx context.Context, member string) error {
	m, err := p.NC.RequestWithContext(ctx, p.recover(member), nil)
	if errors.Is(err, nats.ErrNoResponders) {
		return fmt.Errorf("member %s cannot be reached", member)
	}
	var r recovered
	if err == nil {
		err = json.Unmarshal(m.Data, &r)
	}
	switch {
	case err != nil:
		return fmt.Errorf("ask member %s to recover the log: %w", member, p.Hide(err))
	case r.Error != "":
		return errors.New(r.Error)
	}
	return nil
}
