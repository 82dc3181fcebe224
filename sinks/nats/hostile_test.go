package nats

import (
	"fmt"
	"net"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"ndrbridge/internal/failure"
	"ndrbridge/test/assert"
	"ndrbridge/test/hostile"
	"ndrbridge/test/loopback"
	"ndrbridge/test/require"
	"ndrbridge/test/sinktest"
)

// attacked serves an attack and returns the address.
func attacked(t *testing.T, attack string) (*hostile.NATSServer, string) {
	t.Helper()
	s := hostile.NewNATSServer(attack)
	return s, loopback.Serve(t, s.Serve)
}

func TestHostileServer(t *testing.T) {
	for _, attack := range hostile.NATSAttacks() {
		for _, stream := range []string{"", "NDR"} {
			t.Run(fmt.Sprintf("%s, stream %q", attack, stream), func(t *testing.T) {
				t.Parallel()
				_, address := attacked(t, attack)
				sink := open(t, Options{
					URL: "nats://" + address, Subject: "ndr.{stream}", Stream: stream, CreateStream: stream != "",
					Timeout: 500 * time.Millisecond, AckTimeout: 250 * time.Millisecond,
				})
				failed := 0
				for range 2 {
					err := sink.Send(t.Context(), sinktest.Events(3, 3, 0))
					class, _ := failure.ClassOf(err)
					assert.True(t, class != failure.Rejected, "events are rejected", err)
					if err != nil {
						failed++
					}
				}
				// Core NATS may have published before the attack.
				assert.True(t, stream == "" || failed >= 2, failed, "of 2 failed")
			})
		}
	}
}

func TestAdvertisedServersAreNotContacted(t *testing.T) {
	server, address := attacked(t, hostile.NATSManyServers)
	l, err := net.Listen("tcp", "127.0.0.2:"+address[len("127.0.0.1:"):])
	if err != nil {
		t.Skipf("this machine has no second loopback address: %v", err)
	}
	defer l.Close()
	sink := open(t, Options{URL: "nats://" + address, Subject: "x", Username: "ana", Password: "correct-horse", Timeout: 2 * time.Second})
	assert.Error(t, sink.Send(t.Context(), sinktest.Events(3, 3, 0)), "the events are reported as delivered")
	assert.Equal(t, server.Accepted(), 1, "connections")
	_ = l.(*net.TCPListener).SetDeadline(time.Now().Add(50 * time.Millisecond)) // any connection waits already
	_, err = l.Accept()
	assert.Error(t, err, "an advertised server is contacted")
}

func TestUnreadAcknowledgementsAreBounded(t *testing.T) {
	s := loopback.NATS(t, nil)
	sink := open(t, Options{URL: s.ClientURL(), Stream: "NDR", Subject: "ndr.{stream}", CreateStream: true, MaxPending: 1})
	require.NoError(t, sink.Send(t.Context(), sinktest.Events(1, 1, 0)))
	nc := client(t, s)
	answer := make([]byte, maxAnswer)
	for range 2 * (1 + maxUntracked) * ackBytes / len(answer) {
		require.NoError(t, nc.Publish(sink.conn.reply(0), answer))
	}
	select {
	case err := <-sink.conn.faults:
		assert.ErrorIs(t, err, nats.ErrSlowConsumer)
	case <-time.After(30 * time.Second):
		t.Error("acknowledgements that are not read are kept")
	}
}
