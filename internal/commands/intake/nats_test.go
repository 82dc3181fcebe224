package intake_test

import (
	"context"
	"net"
	"reflect"
	"strconv"
	"strings"
	"testing"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"ndrbridge/internal/commands/intake"
	natssink "ndrbridge/sinks/nats"
	"ndrbridge/test/assert"
	"ndrbridge/test/loopback"
	"ndrbridge/test/require"
)

// natsServer runs on a port, 0: any, with its streams in a folder.
func natsServer(t *testing.T, folder string, port int) *server.Server {
	t.Helper()
	return loopback.NATS(t, func(o *server.Options) {
		o.StoreDir, o.Username, o.Password, o.MaxPayload = folder, "bridge", "hunter2", 4<<20
		if port != 0 {
			o.Port = port
		}
	})
}

// publisher publishes to a server.
func publisher(t *testing.T, s *server.Server) jetstream.JetStream {
	t.Helper()
	return loopback.JetStream(t, s, nats.UserInfo("bridge", "hunter2"))
}

func stream(t *testing.T, js jetstream.JetStream) {
	t.Helper()
	require.Value(js.CreateStream(t.Context(), jetstream.StreamConfig{Name: "TICKETS", Subjects: []string{"ndr.tickets"}}))(t)
}

func publish(t *testing.T, js jetstream.JetStream, bodies ...[]byte) {
	t.Helper()
	for _, body := range bodies {
		require.Value(js.Publish(t.Context(), "ndr.tickets", body))(t)
	}
}

// started returns a server with the stream.
func started(t *testing.T) (*server.Server, jetstream.JetStream, *counter) {
	t.Helper()
	s := natsServer(t, t.TempDir(), 0)
	js := publisher(t, s)
	stream(t, js)
	return s, js, &counter{}
}

func natsIntake(c *counter, url, password string) *intake.NATS {
	return intake.NewNATS(intake.NATSOptions{
		Options: c.options(), Stream: "TICKETS", Subject: "ndr.tickets", Durable: "ndrbridge",
		Connect: func() (natssink.Options, error) {
			return natssink.Options{URL: url, Username: "bridge", Password: password}, nil
		},
	})
}

func TestCommandsAreReceivedFromJetStream(t *testing.T) {
	t.Run("in their order, each once", func(t *testing.T) {
		s, js, c := started(t)
		bodies, want := numbered(100)
		publish(t, js, bodies[:50]...)
		running(t, natsIntake(c, s.ClientURL(), "hunter2").Run)
		publish(t, js, bodies[50:]...)
		assert.DeepEqual(t, c.accepted(t, len(want)), want, "accepted")
	})
	t.Run("none overtakes one that cannot be stored", func(t *testing.T) {
		s, js, c := started(t)
		c.failures = 3
		bodies, want := numbered(20)
		publish(t, js, bodies...)
		running(t, natsIntake(c, s.ClientURL(), "hunter2").Run)
		assert.DeepEqual(t, c.accepted(t, len(want)), want, "accepted")
	})
	t.Run("a message that is not a command is refused, and the next one accepted", func(t *testing.T) {
		s, js, c := started(t)
		for _, w := range wrong {
			publish(t, js, []byte(w.body))
		}
		publish(t, js, command("SEC-9"))
		running(t, natsIntake(c, s.ClientURL(), "hunter2").Run)
		c.accepted(t, 1)
		for i, refusal := range c.refusals(t, len(wrong)) {
			assert.True(t, refusal.Message == "stream TICKETS, message "+strconv.Itoa(i+1) && strings.Contains(refusal.Reason, wrong[i].says), "refusal of", wrong, refusal)
		}
	})
	t.Run("a message that was stored but not acknowledged is redelivered with its key", func(t *testing.T) {
		s, js, c := started(t)
		require.Value(js.Publish(t.Context(), "ndr.tickets", command("SEC-1"), jetstream.WithMsgID("one")))(t)
		publish(t, js, command("SEC-2"))
		stop := running(t, natsIntake(c, s.ClientURL(), "hunter2").Run)
		c.accepted(t, 2)
		stop()
		if err := js.DeleteConsumer(t.Context(), "TICKETS", "ndrbridge"); err != nil { // it forgets the acknowledgements
			t.Fatal(err)
		}
		running(t, natsIntake(c, s.ClientURL(), "hunter2").Run)
		c.accepted(t, 4)
		assert.True(t, c.keys[0] == "nats/TICKETS/one" && reflect.DeepEqual(c.keys[:2], c.keys[2:]), "keys", c.keys)
	})
	t.Run("a message without an id has another key after its stream was made again", func(t *testing.T) {
		s := natsServer(t, t.TempDir(), 0)
		js, c := publisher(t, s), &counter{}
		// When a server's last stream is deleted, it removes their folder, even if there is
		// a new stream in it.
		require.Value(js.CreateStream(t.Context(), jetstream.StreamConfig{Name: "KEPT", Subjects: []string{"kept"}}))(t)
		stream(t, js)
		publish(t, js, command("SEC-1"))
		stop := running(t, natsIntake(c, s.ClientURL(), "hunter2").Run)
		c.accepted(t, 1)
		stop()
		require.NoError(t, js.DeleteStream(t.Context(), "TICKETS"))
		stream(t, js)
		publish(t, js, command("SEC-1"))
		running(t, natsIntake(c, s.ClientURL(), "hunter2").Run)
		c.accepted(t, 2)
		assert.True(t, c.keys[0] != c.keys[1], "both have the key", c.keys[0])
	})
	t.Run("an id that looks like a position is not a position", func(t *testing.T) {
		s, js, c := started(t)
		publish(t, js, command("SEC-1"))
		for _, id := range []string{"1", "nats-position/TICKETS/1"} {
			require.Value(js.Publish(t.Context(), "ndr.tickets", command("SEC-1"), jetstream.WithMsgID(id)))(t)
		}
		running(t, natsIntake(c, s.ClientURL(), "hunter2").Run)
		c.accepted(t, 3)
		assert.True(t, c.keys[0] != c.keys[1] && c.keys[0] != c.keys[2], "keys", c.keys)
	})
	t.Run("it continues at its position after the server was away", func(t *testing.T) {
		folder := t.TempDir()
		first := natsServer(t, folder, 0)
		js, c := publisher(t, first), &counter{}
		stream(t, js)
		bodies, want := numbered(10)
		publish(t, js, bodies[:5]...)
		intake := natsIntake(c, first.ClientURL(), "hunter2")
		running(t, intake.Run)
		c.accepted(t, 5)
		eventually(t, "all is acknowledged", func() bool { return intake.Status().Stored == 5 })
		port := first.Addr().(*net.TCPAddr).Port
		first.Shutdown()
		first.WaitForShutdown()
		eventually(t, "the intake notices it", func() bool { s := intake.Status(); return !s.Open && s.Error != "" })
		second := natsServer(t, folder, port)
		publish(t, publisher(t, second), bodies[5:]...)
		assert.DeepEqual(t, c.accepted(t, len(want)), want, "accepted")
		eventually(t, "the intake works", func() bool { s := intake.Status(); return s.Open && s.Error == "" && s.Stored == 10 })
	})
}

func TestANATSIntakeReportsErrors(t *testing.T) {
	for _, c := range []struct {
		name, password string
		prepare        func(context.Context, jetstream.JetStream) error
		says, cause    string
	}{
		{"the credentials are refused", "wrong", nil, "Authorization Violation", "misconfigured or not authorized"},
		{"the stream is missing", "hunter2", nil, "there is no stream TICKETS", "stream not found"},
		{
			"the consumer is one that a server pushes to", "hunter2",
			func(ctx context.Context, js jetstream.JetStream) error {
				if _, err := js.CreateStream(ctx, jetstream.StreamConfig{Name: "TICKETS", Subjects: []string{"ndr.tickets"}}); err != nil {
					return err
				}
				_, err := js.CreatePushConsumer(ctx, "TICKETS", jetstream.ConsumerConfig{Durable: "ndrbridge", DeliverSubject: "elsewhere"})
				return err
			},
			"the consumer ndrbridge of the stream TICKETS", "failed",
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := natsServer(t, t.TempDir(), 0)
			if c.prepare != nil {
				require.NoError(t, c.prepare(t.Context(), publisher(t, s)))
			}
			intake := natsIntake(&counter{}, s.ClientURL(), c.password)
			running(t, intake.Run)
			eventually(t, "the status says so", func() bool {
				s := intake.Status()
				return !s.Open && strings.Contains(s.Error, c.says) && s.Cause == c.cause
			})
		})
	}
}
