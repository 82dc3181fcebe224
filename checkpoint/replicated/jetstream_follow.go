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
	fetchMessages  = 256
	fetchBytes     = 8 << 20
	fetchWait      = 5 * time.Second
	fetchHeartbeat = time.Second // of the server; without two of them the request is lost
	followPause    = 500 * time.Millisecond
	consumerIdle   = time.Minute // after which the servers remove a consumer by themselves
)

// Follow implements Stream.
func (s *jsStream) Follow(ctx context.Context, from uint64, yield func(uint64, Message) error) error {
	r := &streamReader{s: s, next: from, yield: func(m jetstream.Msg, seq uint64) error {
		return yield(seq, message(m.Headers(), m.Data()))
	}}
	return r.follow(ctx)
}

// streamReader reads the messages of a stream. Each run of it is of one consumer, which lives in
// the memory of one server.
type streamReader struct {
	s      *jsStream
	filter string // a subject; empty: all
	next   uint64 // the lowest sequence number that was not read
	begun  bool   // it is known that next was not purged
	yield  func(m jetstream.Msg, seq uint64) error
	ended  error // why nothing more is read
}

// follow reads until ctx ends or yield returns an error.
func (r *streamReader) follow(ctx context.Context) error {
	for ctx.Err() == nil {
		err := r.run(ctx)
		if r.ended != nil {
			return r.ended
		}
		if err != nil { // a server has ended, or the connection: it is tried again
			pause(ctx, followPause)
		}
	}
	return ctx.Err()
}

func (r *streamReader) run(ctx context.Context) error {
	if !r.begun {
		first, _, err := r.s.ends(ctx)
		if err != nil {
			return err
		}
		if r.next < first {
			r.ended = fmt.Errorf("message %d of %s: %w, with message %d", r.next, r.s.name, ErrPurged, first)
			return nil
		}
		r.begun = true
	}
	bounded, cancel := r.s.j.bounded(ctx)
	defer cancel()
	c, err := r.s.j.js.CreateConsumer(bounded, r.s.name, jetstream.ConsumerConfig{
		DeliverPolicy: jetstream.DeliverByStartSequencePolicy, OptStartSeq: r.next, FilterSubject: r.filter, AckPolicy: jetstream.AckNonePolicy,
		MemoryStorage: true, Replicas: 1, InactiveThreshold: consumerIdle,
	})
	if err != nil {
		return err
	}
	defer func() {
		ending, cancel := r.s.j.bounded(context.WithoutCancel(ctx))
		defer cancel()
		_ = r.s.j.js.DeleteConsumer(ending, r.s.name, c.CachedInfo().Name) // or it goes by itself
	}()
	for delivered := uint64(0); ctx.Err() == nil; {
		if err := r.fetch(ctx, c, &delivered); err != nil || r.ended != nil {
			return err
		}
	}
	return nil
}

// fetch yields the messages of one request.
func (r *streamReader) fetch(ctx context.Context, c jetstream.Consumer, delivered *uint64) error {
	ctx, cancel := context.WithTimeout(ctx, fetchWait)
	defer cancel()
	most := max(fetchBytes, 2*int(r.s.j.nc.MaxPayload()))
	batch, err := c.Fetch(fetchMessages, jetstream.FetchMaxBytes(most), jetstream.FetchContext(ctx), jetstream.FetchHeartbeat(fetchHeartbeat))
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
		if meta.Sequence.Stream < r.next {
			continue // of a server that is behind
		}
		r.next = meta.Sequence.Stream + 1
		if r.ended = r.yield(m, meta.Sequence.Stream); r.ended != nil {
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
