package replicated

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

// Reading a stream.
const (
	fetchMessages = 256
	fetchBytes    = 8 << 20
	fetchWait     = 5 * time.Second
	fetchBeat     = time.Second // of the server; without two of them the request is lost
	followPause   = 500 * time.Millisecond
	consumerIdle  = time.Minute // after which the servers remove a consumer by themselves
)

func (s *jsStream) Follow(ctx context.Context, from uint64, yield func(uint64, Message) error) error {
	f := &following{s: s, next: from, yield: func(m jetstream.Msg, seq uint64) error {
		return yield(seq, message(m.Headers(), m.Data()))
	}}
	return f.follow(ctx)
}

// following reads the messages of a stream. Each run of it is of one consumer, which lives in
// the memory of one server.
type following struct {
	s      *jsStream
	filter string // a subject; empty: all
	next   uint64 // the lowest number that was not read
	begun  bool   // it is known that next was not purged
	yield  func(m jetstream.Msg, seq uint64) error
	ended  error // why nothing more is read
}

// follow reads until ctx ends or yield returns an error.
func (f *following) follow(ctx context.Context) error {
	for ctx.Err() == nil {
		err := f.run(ctx)
		if f.ended != nil {
			return f.ended
		}
		if err != nil { // a server has ended, or the connection: it is tried again
			pause(ctx, followPause)
		}
	}
	return ctx.Err()
}

func (f *following) run(ctx context.Context) error {
	if !f.begun {
		first, _, err := f.s.ends(ctx)
		if err != nil {
			return err
		}
		if f.next < first {
			f.ended = fmt.Errorf("message %d of %s: %w, with number %d", f.next, f.s.name, ErrPurged, first)
			return nil
		}
		f.begun = true
	}
	bounded, cancel := f.s.j.bounded(ctx)
	defer cancel()
	c, err := f.s.j.js.CreateConsumer(bounded, f.s.name, jetstream.ConsumerConfig{
		DeliverPolicy: jetstream.DeliverByStartSequencePolicy, OptStartSeq: f.next, FilterSubject: f.filter, AckPolicy: jetstream.AckNonePolicy,
		MemoryStorage: true, Replicas: 1, InactiveThreshold: consumerIdle,
	})
	if err != nil {
		return err
	}
	defer func() {
		ending, cancel := f.s.j.bounded(context.WithoutCancel(ctx))
		defer cancel()
		_ = f.s.j.js.DeleteConsumer(ending, f.s.name, c.CachedInfo().Name) // or it goes by itself
	}()
	for delivered := uint64(0); ctx.Err() == nil; {
		if err := f.fetch(ctx, c, &delivered); err != nil || f.ended != nil {
			return err
		}
	}
	return nil
}

// fetch yields the messages of one request.
func (f *following) fetch(ctx context.Context, c jetstream.Consumer, delivered *uint64) error {
	ctx, cancel := context.WithTimeout(ctx, fetchWait)
	defer cancel()
	most := max(fetchBytes, 2*int(f.s.j.nc.MaxPayload()))
	batch, err := c.Fetch(fetchMessages, jetstream.FetchMaxBytes(most), jetstream.FetchContext(ctx), jetstream.FetchHeartbeat(fetchBeat))
	if err != nil {
		return err
	}
	for m := range batch.Messages() {
		meta, err := m.Metadata()
		if err != nil {
			return err
		}
		if *delivered++; meta.Sequence.Consumer != *delivered {
			return errors.New("a message got lost on its way")
		}
		if meta.Sequence.Stream < f.next {
			continue // of a server that is behind
		}
		f.next = meta.Sequence.Stream + 1
		if f.ended = f.yield(m, meta.Sequence.Stream); f.ended != nil {
			return nil
		}
	}
	if err := batch.Error(); err != nil && !errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	return nil
}

// pause waits for d or the end of ctx.
func pause(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}
