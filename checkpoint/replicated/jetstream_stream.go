package replicated

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// Headers of messages.
const (
	headerRecord = "Ndr-Record" // Message.ID
	headerKind   = "Ndr-Kind"   // Message.Kind
	headerTerm   = "Ndr-Term"   // Message.Term, in milliseconds
)

// jsStream is a Stream in JetStream.
type jsStream struct {
	j             *JetStream
	name, subject string
}

// headerBytes is left free in a message for the headers.
const headerBytes = 4 << 10

// MaxData implements Stream.
func (s *jsStream) MaxData() int { return int(s.j.nc.MaxPayload()) - headerBytes }

// Publish implements Stream. The client keeps m as long as an answer is awaited, but sends it once.
func (s *jsStream) Publish(after uint64, m Message, answer func(uint64, error)) error {
	sent, err := s.j.js.PublishMsgAsync(&nats.Msg{
		Subject: s.subject, Data: m.Data,
		Header: nats.Header{
			headerRecord: {m.ID},
			headerKind:   {m.Kind},
			headerTerm:   {strconv.FormatInt(m.Term.Milliseconds(), 10)},
		},
	}, jetstream.WithExpectLastSequence(after), jetstream.WithRetryAttempts(0))
	if err != nil {
		return fmt.Errorf("send to %s: %w", s.subject, err)
	}
	go func() { // which ends after the timeout of the client
		select {
		case ack := <-sent.Ok():
			if ack.Stream != s.name {
				answer(0, fmt.Errorf("another stream, %.100q, stored the message", ack.Stream))
				return
			}
			answer(ack.Sequence, nil)
		case err := <-sent.Err():
			answer(0, s.j.answerError(err))
		}
	}()
	return nil
}

// handle returns the stream with its state as its leader has it. Reads through it are
// answered by the leader.
func (s *jsStream) handle(ctx context.Context) (jetstream.Stream, error) {
	h, err := s.j.js.Stream(ctx, s.name)
	if err != nil {
		return nil, s.j.explain(ctx, "look up the stream "+s.name, err)
	}
	switch i := h.CachedInfo(); {
	case i.Cluster != nil && i.Cluster.Name != "" && i.Cluster.Leader == "": // any server answers then
		return nil, fmt.Errorf("the stream %s has no leader: most of its servers cannot be reached", s.name)
	case i.Config.AllowDirect: // any server that has the stream would answer
		return nil, fmt.Errorf("allow_direct of the stream %s was set: remove it with `nats stream edit %[1]s --no-allow-direct`", s.name)
	}
	return h, nil
}

// Get implements Stream. A stream that is gone has no messages.
func (s *jsStream) Get(ctx context.Context, seq uint64) (m Message, err error) {
	ctx, cancel := s.j.bounded(ctx)
	defer cancel()
	h, err := s.handle(ctx)
	if err != nil && !errors.Is(err, jetstream.ErrStreamNotFound) {
		return m, err
	}
	var raw *jetstream.RawStreamMsg
	if err == nil {
		raw, err = h.GetMsg(ctx, seq)
	}
	if errors.Is(err, jetstream.ErrMsgNotFound) || errors.Is(err, jetstream.ErrStreamNotFound) {
		return Message{}, fmt.Errorf("message %d of %s: %w", seq, s.name, ErrNoMessage)
	}
	if err != nil {
		return Message{}, s.j.explain(ctx, fmt.Sprintf("read message %d of %s", seq, s.name), err)
	}
	return message(raw.Header, raw.Data), nil
}

// message makes a Message of what a server has. A term is 2^32 ms at most.
func message(h nats.Header, data []byte) Message {
	term, _ := strconv.ParseUint(h.Get(headerTerm), 10, 32)
	return Message{ID: h.Get(headerRecord), Kind: h.Get(headerKind), Term: time.Duration(term) * time.Millisecond, Data: data}
}

// Last implements Stream.
func (s *jsStream) Last(ctx context.Context) (uint64, error) {
	_, last, err := s.ends(ctx)
	return last, err
}

// ends returns the sequence numbers of the first and the last message. Without messages the first is
// that of the next one.
func (s *jsStream) ends(ctx context.Context) (first, last uint64, err error) {
	ctx, cancel := s.j.bounded(ctx)
	defer cancel()
	h, err := s.handle(ctx)
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		return 1, 0, nil // it is gone, and so are its messages
	}
	if err != nil {
		return 0, 0, err
	}
	state := h.CachedInfo().State
	if state.Msgs == 0 {
		return state.LastSeq + 1, state.LastSeq, nil
	}
	return state.FirstSeq, state.LastSeq, nil
}

// Purge implements Stream.
func (s *jsStream) Purge(ctx context.Context, before uint64) error {
	ctx, cancel := s.j.bounded(ctx)
	defer cancel()
	h, err := s.handle(ctx)
	if err != nil {
		return err
	}
	if err := h.Purge(ctx, jetstream.WithPurgeSequence(before)); err != nil {
		return s.j.explain(ctx, fmt.Sprintf("purge %s before message %d", s.name, before), err)
	}
	return nil
}

// Reading a stream.
const (
	fetchMessages  = 256
	fetchBytes     = 8 << 20
	fetchWait      = 30 * time.Second
	fetchHeartbeat = 2500 * time.Millisecond // of the server, without messages; without two of them the request is lost
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
		if ctx.Err() == nil && r.ended == nil {
			return // its server may be gone, and would not answer
		}
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
