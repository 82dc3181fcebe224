package bridge

import (
	"context"

	"ndrbridge/checkpoint"
)

// tailBytes is how much of the journal one tail reads at once. An event may be larger.
const tailBytes = 1 << 20

// tails bounds what all tails of the journal together hold of it. A tail keeps what it
// read for as long as its reader takes, so only one of them at a time may hold more
// than tailBytes.
type tails struct {
	reading chan struct{} // holds something while a tail reads
	large   chan struct{} // holds something while a tail holds a large event
}

func newTails() tails {
	return tails{reading: make(chan struct{}, 1), large: make(chan struct{}, 1)}
}

// read yields some events of the journal behind after. The error is that of the store,
// of yield, or of ctx.
func (t tails) read(ctx context.Context, journal *checkpoint.Store, after uint64, yield func(checkpoint.Record) error) error {
	records, err := t.fetch(ctx, journal, after)
	if err != nil {
		return err
	}
	if size(records) > tailBytes { // it is read again when it may be held
		records = nil
		if err := enter(ctx, t.large); err != nil {
			return err
		}
		defer func() { <-t.large }()
		if records, err = t.fetch(ctx, journal, after); err != nil {
			return err
		}
	}
	for _, r := range records {
		if err := ctx.Err(); err != nil {
			return err
		}
		if err := yield(r); err != nil {
			return err
		}
	}
	return nil
}

// fetch reads while no other tail does.
func (t tails) fetch(ctx context.Context, journal *checkpoint.Store, after uint64) ([]checkpoint.Record, error) {
	if err := enter(ctx, t.reading); err != nil {
		return nil, err
	}
	defer func() { <-t.reading }()
	return journal.Read(ctx, after, checkpoint.Batch{MaxEvents: 500, MaxBytes: tailBytes})
}

func enter(ctx context.Context, slot chan struct{}) error {
	select {
	case slot <- struct{}{}:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func size(records []checkpoint.Record) (bytes int) {
	for _, r := range records {
		bytes += len(r.Event.Structured())
	}
	return bytes
}
