package replicated_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"

	"ndrbridge/checkpoint/replicated"
	"ndrbridge/test/assert"
	"ndrbridge/test/natsserver"
	"ndrbridge/test/replicatedtest"
	"ndrbridge/test/require"
)

// startServer starts a server, unless change sets another configuration, and connects to it.
func startServer(t testing.TB, change func(*server.Options)) *nats.Conn {
	t.Helper()
	s, stop, err := natsserver.Start(t.TempDir(), change)
	require.NoError(t, err)
	t.Cleanup(stop)
	return connect(t, s.ClientURL())
}

func connect(t testing.TB, url string, options ...nats.Option) *nats.Conn {
	t.Helper()
	nc := require.Value(nats.Connect(url, options...))(t)
	t.Cleanup(nc.Close)
	return nc
}

func openJetStream(t testing.TB, nc *nats.Conn, o replicated.JetStreamOptions) *replicated.JetStream {
	t.Helper()
	j := require.Value(replicated.OpenJetStream(t.Context(), nc, o))(t)
	t.Cleanup(func() { j.Close() })
	return j
}

// openGeneration opens, or makes, the first generation of a cluster.
func openGeneration(t testing.TB, j *replicated.JetStream) (replicated.Stream, replicated.Snapshots) {
	t.Helper()
	log, snapshots, err := j.Generation(t.Context(), 1, true)
	require.NoError(t, err)
	return log, snapshots
}

// one are the options of a cluster with one server.
var one = replicated.JetStreamOptions{Name: "test", Replicas: 1, Wait: 10 * time.Second}

// publish sends a message and returns the answer.
func publish(t *testing.T, s replicated.Stream, after uint64, m replicated.Message) (uint64, error) {
	t.Helper()
	type answer struct {
		seq uint64
		err error
	}
	answers := make(chan answer, 10)
	require.NoError(t, s.Publish(after, m, func(seq uint64, err error) { answers <- answer{seq, err} }))
	a := <-answers
	return a.seq, a.err
}

// TestStream checks the contract of Stream, of the one in JetStream and of the fake.
func TestStream(t *testing.T) {
	streams := map[string]func(t *testing.T) replicated.Stream{
		"JetStream": func(t *testing.T) replicated.Stream {
			log, _ := openGeneration(t, openJetStream(t, startServer(t, nil), one))
			return log
		},
		"fake": func(*testing.T) replicated.Stream {
			return replicatedtest.New(1, replicatedtest.Faults{}).Stream("a", 1)
		},
	}
	message := func(n int) replicated.Message {
		return replicated.Message{ID: fmt.Sprintf("a.1.%d.1/1", n), Kind: replicated.KindRecord, Term: 7500 * time.Millisecond, Data: []byte{byte(n)}}
	}
	for name, open := range streams {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := open(t)
			for i := range 10 {
				require.Equal(t, require.Value(publish(t, s, uint64(i), message(i+1)))(t), uint64(i+1), "message", i+1, "stored as")
			}
			for _, after := range []uint64{0, 9, 11, 1 << 40} {
				var wrong *replicated.WrongLastError
				_, err := publish(t, s, after, message(99))
				assert.True(t, errors.As(err, &wrong) && wrong.Last == 10, "a message after", after, err, "want 10 as the last")
			}
			if m, err := s.Get(t.Context(), 3); err != nil || m.ID != "a.1.3.1/1" || m.Kind != replicated.KindRecord || m.Term != 7500*time.Millisecond || string(m.Data) != "\x03" {
				t.Errorf("message 3: %+v, %v", m, err)
			}
			_, err := s.Get(t.Context(), 11)
			require.ErrorIs(t, err, replicated.ErrNoMessage)
			wantFollow(t, s, 4, 10)
			require.NoError(t, s.Purge(t.Context(), 6))
			_, err = s.Get(t.Context(), 5)
			require.ErrorIs(t, err, replicated.ErrNoMessage)
			require.ErrorIs(t, s.Follow(t.Context(), 5, nil), replicated.ErrPurged)
			wantFollow(t, s, 6, 10)
			require.NoError(t, s.Purge(t.Context(), 11))
			assert.Equal(t, require.Value(s.Last(t.Context()))(t), 10, "the last is")
			require.ErrorIs(t, s.Follow(t.Context(), 10, nil), replicated.ErrPurged)
			for n, begin := range []uint64{11, 15} { // the next message, and one that is further away
				go func() {
					time.Sleep(200 * time.Millisecond)
					for i := 11 + n; i <= int(begin); i++ {
						_, _ = publish(t, s, uint64(i-1), message(i))
					}
				}()
				wantFollow(t, s, begin, begin)
			}
		})
	}
}

var errEnough = errors.New("enough")

// wantFollow checks that following yields the messages of some numbers.
func wantFollow(t *testing.T, s replicated.Stream, from, to uint64) {
	t.Helper()
	next := from
	err := s.Follow(t.Context(), from, func(seq uint64, m replicated.Message) error {
		if seq != next || m.ID != fmt.Sprintf("a.1.%d.1/1", seq) || m.Term != 7500*time.Millisecond || len(m.Data) != 1 || m.Data[0] != byte(seq) {
			return fmt.Errorf("message %d is %+v, want %d", seq, m, next)
		}
		next++
		if seq == to {
			return errEnough
		}
		return nil
	})
	require.ErrorIs(t, err, errEnough)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	require.ErrorIs(t, s.Follow(ctx, from, nil), context.Canceled)
}
