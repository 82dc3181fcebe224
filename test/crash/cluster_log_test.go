package crash

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"ndrbridge/test/assert"
	"ndrbridge/test/require"
)

// clusterLog is what the evaluation needs of the cluster's log: who took it and when, and who
// appended to it.
type clusterLog struct {
	generation int    // 0: the first
	last       uint64 // the last message that was read
	messages   int
	takes      []take
	intruders  []string // messages of others than the owner
}

// take is a message with which a member became the owner.
type take struct {
	owner string    // the instance of the member
	at    time.Time // when the log stored it
	works time.Time // when the log stored the first record behind it; zero: never
}

// member returns the name of the member that took the log.
func (t take) member() string {
	name, _, _ := strings.Cut(t.owner, ".")
	return name
}

// takers returns the names of the members that took the log, in order.
func (l *clusterLog) takers() (members []string) {
	for _, t := range l.takes {
		members = append(members, t.member())
	}
	return members
}

// add adds the next message of the log by its headers.
func (l *clusterLog) add(seq uint64, id, kind string, at time.Time) {
	l.last = seq
	l.messages++
	owner := id // owner.epoch.number.part/parts, and the owner has a dot
	for range 3 {
		owner = owner[:max(0, strings.LastIndexByte(owner, '.'))]
	}
	if kind == "take" {
		l.takes = append(l.takes, take{owner: owner, at: at})
		return
	}
	if n := len(l.takes); n == 0 || l.takes[n-1].owner != owner {
		by := "nobody"
		if n > 0 {
			by = l.takes[n-1].owner
		}
		l.intruders = append(l.intruders, fmt.Sprintf("message %d (%s %s) is in the log, which %s owned", seq, kind, id, by))
		return
	}
	if of := &l.takes[len(l.takes)-1]; kind == "record" && of.works.IsZero() {
		of.works = at
	}
}

// readLog reads what came to the log since the last call. The NATS servers must run.
func (s *clusterScene) readLog(t *testing.T) {
	t.Helper()
	js := s.jetStream(t)
	// A request is lost if the servers have just lost and found each other.
	for deadline := time.Now().Add(patience); ; time.Sleep(50 * time.Millisecond) {
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		err := s.log.read(ctx, js)
		cancel()
		if err == nil {
			return
		}
		require.True(t, time.Now().Before(deadline), "read the log", err)
	}
}

// jetStream connects to the NATS servers until the test ends.
func (s *clusterScene) jetStream(t *testing.T) jetstream.JetStream {
	t.Helper()
	if s.js != nil {
		return s.js
	}
	options := []nats.Option{
		nats.MaxReconnects(-1), nats.RetryOnFailedConnect(true), nats.ReconnectWait(50 * time.Millisecond),
		nats.PingInterval(time.Second), // a server may be paused
	}
	url := "nats://member"
	if s.embedded != nil {
		options = append(options, nats.SetCustomDialer(s), nats.SkipHostLookup())
	} else {
		url = s.servers.URL()
	}
	conn, err := nats.Connect(url, options...)
	require.NoError(t, err)
	t.Cleanup(conn.Close)
	s.js, err = jetstream.New(conn)
	require.NoError(t, err)
	return s.js
}

// stream returns the name of the log's stream.
func (l *clusterLog) stream() string { return fmt.Sprintf("NDR_torture_%d", max(1, l.generation)) }

// begin goes on with a generation.
func (l *clusterLog) begin(generation int) { l.generation, l.last = generation, 0 }

// read reads the headers of the messages behind the last one.
func (l *clusterLog) read(ctx context.Context, js jetstream.JetStream) error {
	stream, err := js.Stream(ctx, l.stream())
	if err != nil {
		return err
	}
	info, err := stream.Info(ctx)
	if err != nil {
		return err
	}
	if info.State.FirstSeq > l.last+1 {
		return fmt.Errorf("it begins with message %d, and %d was the last one read", info.State.FirstSeq, l.last)
	}
	if info.State.LastSeq == l.last {
		return nil
	}
	consumer, err := stream.OrderedConsumer(ctx, jetstream.OrderedConsumerConfig{
		DeliverPolicy: jetstream.DeliverByStartSequencePolicy, OptStartSeq: l.last + 1, HeadersOnly: true,
	})
	if err != nil {
		return err
	}
	messages, err := consumer.Messages()
	if err != nil {
		return err
	}
	defer messages.Stop()
	defer context.AfterFunc(ctx, messages.Stop)()
	for l.last < info.State.LastSeq {
		m, err := messages.Next()
		if err != nil {
			return errors.Join(err, context.Cause(ctx))
		}
		about, err := m.Metadata()
		if err != nil {
			return err
		}
		l.add(about.Sequence.Stream, m.Headers().Get("Ndr-Record"), m.Headers().Get("Ndr-Kind"), about.Timestamp)
	}
	return nil
}

func TestIntrudersInALogAreDetected(t *testing.T) {
	for _, c := range []struct {
		name     string
		messages []string // kind and id
		fault    bool
	}{
		{"one owner after the other", []string{"take a.1.1.0.1/1", "record a.1.1.1.1/2", "record a.1.1.1.2/2", "release a.1.1.2.1/1", "take b.7.2.0.1/1", "renew b.7.2.1.1/1"}, false},
		{"a record of the old owner", []string{"take a.1.1.0.1/1", "take b.7.2.0.1/1", "record a.1.1.1.1/1"}, true},
		{"a record of the same member's last life", []string{"take a.1.1.0.1/1", "take a.2.2.0.1/1", "renew a.1.1.1.1/1"}, true},
		{"a record without a take", []string{"record a.1.1.1.1/1"}, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			var l clusterLog
			for n, message := range c.messages {
				kind, id, _ := strings.Cut(message, " ")
				l.add(uint64(n+1), id, kind, time.Now())
			}
			assert.Equal(t, len(l.intruders) > 0, c.fault, l.intruders)
		})
	}
}
