package pipeline

import (
	"context"

	"ndrbridge/checkpoint"
)

// tailBytes is how much of the journal a tail reads at once. A single event may be
// larger.
const tailBytes = 1 << 20

// tails limits the memory that all tails of the journal use together. A tail holds the
// events it has read until its consumer has taken them, so only one tail at a time may
// hold more than tailBytes.
type tails struct {
	reading chan struct{} // semaphore of the tail that reads
	large   chan struct{} // semaphore of the tail that holds a large event
}

func newTails() tails {
	return tails{reading: make(chan struct{}, 1), large: make(chan struct{}, 1)}
}

// read yields events of the journal after a sequence number, at most one batch. It
// returns the error of the store, of yield, or of ctx.
func (t tails) read(ctx context.Context, journal *checkpoint.Store, after uint64, yield func(checkpoint.Record) error) error {
	records, err := t.fetch(ctx, journal, after)
	if err != nil {
		return err
	}
	if size(records) > tailBytes { // read it again under the semaphore
		records = nil
		if err := acquire(ctx, t.large); err != nil {
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

// fetch reads a batch while no other tail reads.
func (t tails) fetch(ctx context.Context, journal *checkpoint.Store, after uint64) ([]checkpoint.Record, error) {
	if err := acquire(ctx, t.reading); err != nil {
		return nil, err
	}
	defer func() { <-t.reading }()
	return journal.Read(ctx, after, checkpoint.Batch{MaxEvents: 500, MaxBytes: tailBytes})
}

func acquire(ctx context.Context, slot chan struct{}) error {
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
