package nats

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	nats "github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"ndrbridge/internal/failure"
)

// requestTimeout bounds the requests to JetStream's API.
const requestTimeout = 5 * time.Second

// prepareStream makes sure that the stream exists and has the sink's subjects. It creates
// a missing stream if the sink may.
func (s *Sink) prepareStream(ctx context.Context, c *conn) error {
	subjects := filter(s.subject.Fill("*"))
	stream, err := s.findStream(ctx, c, subjects)
	return s.checkStream(ctx, stream, subjects, err)
}

// checkStream returns nil if the stream has the subjects. failed is the error of
// findStream.
func (s *Sink) checkStream(ctx context.Context, stream jetstream.Stream, subjects string, failed error) error {
	name := s.options.Stream
	switch err := failed; {
	case errors.Is(err, jetstream.ErrStreamNotFound):
		return errorOfCode("stream "+name, &jetstream.APIError{ErrorCode: jetstream.JSErrCodeStreamNotFound, Description: "it does not exist"}, s.secrets.Hide)
	case errors.Is(err, nats.ErrNoResponders):
		return advise("enable it on the server and for the account, or leave stream empty for core NATS", "stream %s: JetStream does not answer", name)
	case err != nil:
		return s.errorOf(ctx, err)
	}
	captured := func(subject string) bool { return captures(subject, subjects) }
	if have := stream.CachedInfo().Config.Subjects; !slices.ContainsFunc(have, captured) {
		return advise("check subject, or add it to the stream", "stream %s has the subjects %s, but not %s", name, s.secrets.Hide(fmt.Sprintf("%q", have)), subjects)
	}
	return nil
}

// advise returns a Halted error with advice.
func advise(advice, format string, args ...any) *failure.Error {
	return failure.Advise(failure.Halted, advice, fmt.Errorf(format, args...))
}

// findStream requests the stream's configuration. It creates a missing stream with
// subjects if the sink may.
func (s *Sink) findStream(ctx context.Context, c *conn, subjects string) (jetstream.Stream, error) {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	// A request without permission gets no answer; the server reports an asynchronous
	// error instead.
	var fault error
	var waiting sync.WaitGroup
	waiting.Go(func() {
		select {
		case fault = <-c.faults:
			cancel()
		case <-ctx.Done():
		}
	})
	stream, err := c.js.Stream(ctx, s.options.Stream)
	if errors.Is(err, jetstream.ErrStreamNotFound) && s.options.CreateStream {
		stream, err = c.js.CreateStream(ctx, jetstream.StreamConfig{
			Name:        s.options.Stream,
			Description: "CloudEvents of ndrbridge",
			Subjects:    []string{subjects},
		})
	}
	cancel()
	waiting.Wait()
	if err != nil && fault != nil {
		err = fault
	}
	return stream, err
}
