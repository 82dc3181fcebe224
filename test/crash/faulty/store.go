package main

import (
	"context"
	"time"

	"ndrbridge/checkpoint"
	"ndrbridge/internal/commands"
	"ndrbridge/sinks"
)

// journal returns the journal for a sink's runner.
func (b *bridge) journal(sink string) sinks.Journal {
	if b.fault == "early-cursor" {
		return &earlyCursor{b.store, sink}
	}
	return b.store
}

// earlyCursor moves a sink's cursor before its events are sent.
type earlyCursor struct {
	*checkpoint.Store
	sink string
}

// Read implements sinks.Journal. It commits the events that it returns.
func (j *earlyCursor) Read(ctx context.Context, after uint64, most checkpoint.Batch) ([]checkpoint.Record, error) {
	records, err := j.Store.Read(ctx, after, most)
	if err != nil || len(records) == 0 {
		return records, err
	}
	cursor, err := j.Cursor(ctx, j.sink)
	if err != nil {
		return nil, err
	}
	last := records[len(records)-1].Seq
	return records, j.Store.CommitDelivery(ctx, checkpoint.Delivery{Sink: j.sink, Expect: cursor, Cursor: max(cursor, last)})
}

// CommitDelivery implements sinks.Journal. It does nothing: Read has moved the cursor.
func (j *earlyCursor) CommitDelivery(context.Context, checkpoint.Delivery) error { return nil }

// commands returns the store of the acceptor.
func (b *bridge) commands() commands.AcceptorStore {
	if b.fault == "early-acceptance" {
		return earlyAcceptance{b.store}
	}
	return b.store
}

// earlyAcceptance accepts commands some time before it stores them.
type earlyAcceptance struct{ *checkpoint.Store }

// Accept implements the acceptor's store.
func (s earlyAcceptance) Accept(ctx context.Context, commands []checkpoint.Command) ([]checkpoint.Acceptance, error) {
	time.AfterFunc(500*time.Millisecond, func() { _, _ = s.Store.Accept(context.WithoutCancel(ctx), commands) })
	return make([]checkpoint.Acceptance, len(commands)), nil
}
