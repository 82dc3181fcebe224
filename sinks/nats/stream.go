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

	"ndrbridge/sinks"
)

// requestTimeout bounds the requests to JetStream's API.
const requestTimeout = 5 * time.Second

// prepareStream makes sure that the stream exists and takes the sink's subjects,
// and makes it where the sink may.
func (s *Sink) prepareStream(ctx context.Context, c *conn) error {
	subjects := filter(s.subject.Fill("*"))
	stream, err := s.findStream(ctx, c, subjects)
	return s.fits(ctx, stream, subjects, err)
}

// fits returns nil for a stream that takes the subjects. failed is the error of who
// looked for it.
func (s *Sink) fits(ctx context.Context, stream jetstream.Stream, subjects string, failed error) error {
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
		return advise("see subject, or add it to the stream", "stream %s takes %s, and not %s", name, s.secrets.Hide(fmt.Sprintf("%q", have)), subjects)
	}
	return nil
}

// advise makes a halt with what a person can do about it.
func advise(advice, format string, args ...any) *sinks.Error {
	return &sinks.Error{Class: sinks.Halted, Err: &sinks.Advised{Err: fmt.Errorf(format, args...), To: advice}}
}

// findStream asks for the stream, and makes it where there is none and the sink
// may.
func (s *Sink) findStream(ctx context.Context, c *conn, subjects string) (jetstream.Stream, error) {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	// A request that is not permitted gets no answer, but a complaint.
	var fault error
	var complaint sync.WaitGroup
	complaint.Go(func() {
		select {
		case fault = <-c.faults:
			cancel()
		case <-ctx.Done():
		}
	})
	stream, err := func() (jetstream.Stream, error) {
		js, err := jetstream.New(c.Conn.Conn)
		if err != nil {
			return nil, err
		}
		stream, err := js.Stream(ctx, s.options.Stream)
		if errors.Is(err, jetstream.ErrStreamNotFound) && s.options.CreateStream {
			return js.CreateStream(ctx, jetstream.StreamConfig{
				Name:        s.options.Stream,
				Description: "CloudEvents of ndrbridge",
				Subjects:    []string{subjects},
			})
		}
		return stream, err
	}()
	cancel()
	complaint.Wait()
	if err != nil && fault != nil {
		err = fault
	}
	return stream, err
}
