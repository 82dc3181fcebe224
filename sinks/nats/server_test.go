package nats

import (
	"cmp"
	"context"
	"fmt"
	"net"
	"testing"
	"time"

	"github.com/cloudevents/sdk-go/v2/event"
	"github.com/nats-io/nats-server/v2/server"
	nats "github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"ndrbridge/internal/lease"
	"ndrbridge/sinks"
	"ndrbridge/test/assert"
	"ndrbridge/test/loopback"
	"ndrbridge/test/require"
	"ndrbridge/test/sinktest"
	"ndrbridge/transform"
)

func port(t testing.TB, s *server.Server) string {
	t.Helper()
	_, port, err := net.SplitHostPort(s.Addr().String())
	require.NoError(t, err)
	return net.JoinHostPort("127.0.0.1", port)
}

func client(t testing.TB, s *server.Server) *nats.Conn {
	t.Helper()
	nc, err := nats.Connect(s.ClientURL(), nats.UserInfo(username, password)) // ignored by a server without authentication
	require.NoError(t, err)
	t.Cleanup(nc.Close)
	return nc
}

func open(t testing.TB, o Options) *Sink {
	t.Helper()
	o.Sink = cmp.Or(o.Sink, "bus")
	s := require.Value(New(o))(t)
	t.Cleanup(func() { s.Close() })
	return s
}

// stored returns the messages of a stream, in their order.
func stored(nc *nats.Conn, stream string) ([]jetstream.Msg, error) {
	js, err := jetstream.New(nc)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	s, err := js.Stream(ctx, stream)
	if err == jetstream.ErrStreamNotFound {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	consumer, err := s.OrderedConsumer(ctx, jetstream.OrderedConsumerConfig{})
	if err != nil {
		return nil, err
	}
	var messages []jetstream.Msg
	want := int(s.CachedInfo().State.Msgs)
	for len(messages) < want {
		batch, err := consumer.Fetch(want-len(messages), jetstream.FetchMaxWait(5*time.Second))
		if err != nil {
			return nil, err
		}
		for m := range batch.Messages() {
			messages = append(messages, m)
		}
		if batch.Error() != nil {
			return nil, batch.Error()
		}
	}
	return messages, nil
}

// decode decodes a message according to the binding.
func decode(headers nats.Header, data []byte) (event.Event, error) {
	if headers.Get("Content-Type") == transform.ContentTypeStructured {
		return sinktest.Structured(data)
	}
	return sinktest.Binary("ce-", true, func(yield func(name, value string) bool) {
		for name, values := range headers {
			for _, value := range values {
				if !yield(name, value) {
					return
				}
			}
		}
	}, data)
}

func storedEvents(nc *nats.Conn, stream string) ([]event.Event, error) {
	messages, err := stored(nc, stream)
	if err != nil {
		return nil, err
	}
	events := make([]event.Event, len(messages))
	for i, m := range messages {
		if events[i], err = decode(m.Headers(), m.Data()); err != nil {
			return nil, fmt.Errorf("message %d: %w", i, err)
		}
	}
	return events, nil
}

const (
	maxPayload = 200_000
	username   = "ana"
	password   = "correct-horse"
)

func TestJetStreamSink(t *testing.T) {
	modes := []transform.Mode{transform.Structured, transform.Binary}
	sinktest.Run(t, modes, func(t *testing.T, mode transform.Mode) sinktest.Target {
		s := loopback.NATS(t, func(o *server.Options) { o.MaxPayload, o.Username, o.Password = maxPayload, username, password })
		relay := sinktest.NewRelay(t, port(t, s))
		nc := client(t, s)
		js := require.Value(jetstream.New(nc))(t)
		keepFolder(t, js)
		halted := false
		return sinktest.Target{
			Open: func(l *lease.Lease) (sinks.Sink, error) {
				return New(Options{
					Sink: "bus", URL: "nats://" + relay.Addr(), Stream: "NDR", Subject: "ndr.{appliance}.{stream}.{action}", CreateStream: true,
					Mode: mode, MaxPending: 100, Username: username, Password: password, Lease: l,
				})
			},
			Received: func() ([]event.Event, error) { return storedEvents(nc, "NDR") },
			Down:     relay.Down,
			Hang:     relay.Hang,
			Stall:    relay.Stall,
			Resume:   relay.Resume,
			Halt: func() {
				halted = true
				_, err := js.CreateStream(t.Context(), jetstream.StreamConfig{Name: "NDR", Subjects: []string{"other.>"}})
				assert.NoError(t, err)
			},
			Restore: func() {
				relay.Restore()
				if halted {
					halted = false
					assert.NoError(t, js.DeleteStream(t.Context(), "NDR"))
				}
			},
			MaxBytes: maxPayload,
			Secrets:  []string{password},
		}
	})
}

func TestCoreSink(t *testing.T) {
	modes := []transform.Mode{transform.Structured, transform.Binary}
	sinktest.Run(t, modes, func(t *testing.T, mode transform.Mode) sinktest.Target {
		s := loopback.NATS(t, func(o *server.Options) { o.MaxPayload, o.Username, o.Password = maxPayload, username, password })
		relay := sinktest.NewRelay(t, port(t, s))
		nc := client(t, s)
		subscription := require.Value(nc.SubscribeSync("ndr.>"))(t)
		require.NoError(t, nc.Flush())
		var received []event.Event
		return sinktest.Target{
			Open: func(l *lease.Lease) (sinks.Sink, error) {
				return New(Options{URL: "nats://" + username + ":" + password + "@" + relay.Addr(), Subject: "ndr.{appliance}.{stream}", Mode: mode, Lease: l})
			},
			Received: func() ([]event.Event, error) {
				if err := nc.Flush(); err != nil { // earlier messages have arrived now
					return nil, err
				}
				for {
					msg, err := subscription.NextMsg(time.Millisecond)
					if err == nats.ErrTimeout {
						return received, nil
					}
					if err != nil {
						return nil, err
					}
					e, err := decode(msg.Header, msg.Data)
					if err != nil {
						return nil, err
					}
					received = append(received, e)
				}
			},
			Down:     relay.Down,
			Hang:     relay.Hang,
			Stall:    relay.Stall,
			Resume:   relay.Resume,
			Restore:  relay.Restore,
			MaxBytes: maxPayload,
			Secrets:  []string{password},
		}
	})
}
