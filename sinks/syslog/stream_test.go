package syslog

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"pgregory.net/rapid"

	"ndrbridge/internal/failure"
	"ndrbridge/test/assert"
	"ndrbridge/test/certificate"
	"ndrbridge/test/leasetest"
	"ndrbridge/test/locked"
	"ndrbridge/test/loopback"
	"ndrbridge/test/require"
	"ndrbridge/test/sinktest"
	"ndrbridge/transform"
)

func open(t testing.TB, o Options) *Sink {
	t.Helper()
	s := New(o)
	t.Cleanup(func() { s.Close() })
	return s
}

// retry sends events until that succeeds, as a runner does.
func retry(t testing.TB, s *Sink, events []transform.Event) {
	t.Helper()
	var err error
	for range 100 {
		if err = s.Send(t.Context(), events); err == nil {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
	t.Fatal(err)
}

func idsOf(events []transform.Event) []string {
	var ids []string
	for _, e := range events {
		ids = append(ids, e.ID)
	}
	return ids
}

// A receiver that is restarted may lose what its system has acknowledged.
func TestWhatAReceiverHadNotReadIsSentAgainInOrder(t *testing.T) {
	r := newReceiver(t, newline, nil)
	s := open(t, Options{Address: r.addr(), Network: networkTCP, Framing: newline})
	events := sinktest.Events(9, 2, 200)
	require.NoError(t, s.Send(t.Context(), events[:3]))
	r.await("the first batch", func(m []received) bool { return len(m) == 3 })
	r.pause(true)
	for i := 3; i < 6; i++ {
		if err := s.Send(t.Context(), events[i:i+1]); err != nil {
			t.Fatal(err) // its system acknowledges it
		}
	}
	r.closeConns(nil)
	r.pause(false)
	awaitEnd(t, s)
	require.NoError(t, s.Send(t.Context(), events[6:]))
	r.await("the last event", func(m []received) bool { return m[len(m)-1].id() == events[8].ID })
	got := r.ids()
	want := idsOf(events)
	assert.True(t, len(got) >= 9 && slices.Equal(got[len(got)-9:], want), "the receiver", got, "not all of", want, "in their order at the end")
}

// awaitEnd waits until the sink knows that its connection has ended.
func awaitEnd(t testing.TB, s *Sink) {
	t.Helper()
	select {
	case <-s.transport.(*stream).conn.ended:
	case <-time.After(10 * time.Second):
		t.Fatal("the connection does not end")
	}
}

func TestOnlyWhatWasSentShortlyBeforeTheConnectionEndedIsSentAgain(t *testing.T) {
	for _, test := range []struct {
		name          string
		before, after time.Duration // the time that passes before and after the end
		want          []int         // the events that are received
	}{
		{"the connection ends much later", tailAge + time.Second, 0, []int{0, 1}},
		{"the connection ends soon, and its end is noticed much later", 0, tailAge + time.Second, []int{0, 0, 1}},
	} {
		t.Run(test.name, func(t *testing.T) {
			var elapsed atomic.Int64
			r := newReceiver(t, octetCounting, nil)
			s := open(t, Options{Address: r.addr(), Network: networkTCP, Now: func() time.Time { return time.Unix(0, elapsed.Load()) }})
			events := sinktest.Events(2, 1, 200)
			require.NoError(t, s.Send(t.Context(), events[:1]))
			elapsed.Add(int64(test.before))
			r.await("the first event", func(m []received) bool { return len(m) == 1 })
			r.closeConns(nil)
			awaitEnd(t, s)
			elapsed.Add(int64(test.after))
			require.NoError(t, s.Send(t.Context(), events[1:]))
			r.await("the second event", func(m []received) bool { return m[len(m)-1].id() == events[1].ID })
			var want []string
			for _, i := range test.want {
				want = append(want, events[i].ID)
			}
			assert.EqualSlices(t, r.ids(), want, "received")
		})
	}
}

// The repetition of a long tail to a slow receiver takes longer than tailAge.
func TestASlowRepetitionThatFailsLosesNothing(t *testing.T) {
	var elapsed atomic.Int64
	now := func() time.Time { return time.Unix(0, elapsed.Load()) }
	r := newReceiver(t, octetCounting, nil)
	s := open(t, Options{Address: r.addr(), Network: networkTCP, Now: now})
	events := sinktest.Events(4, 1, 200)
	for i := range 3 {
		require.NoError(t, s.Send(t.Context(), events[i:i+1]))
		elapsed.Add(int64(chunkAge))
	}
	r.await("the first events", func(m []received) bool { return len(m) == 3 })
	r.closeConns(nil)
	awaitEnd(t, s)

	// The second connection ends, much later, when the first event has been sent again.
	st := s.transport.(*stream)
	var calls atomic.Int32
	st.o.Now = func() time.Time {
		if calls.Add(1) == 2 {
			elapsed.Add(int64(tailAge + time.Second))
			st.conn.interrupt()
		}
		return now()
	}
	err := s.Send(t.Context(), events[3:])
	require.True(t, err != nil, "no error on a connection that has ended")
	st.o.Now = now
	require.Equal(t, st.tail.messages(), 3, "messages are to be sent again")
	retry(t, s, events[3:])
	r.await("the last event", func(m []received) bool { return m[len(m)-1].id() == events[3].ID })
	got := r.ids()
	assert.EqualSlices(t, got[len(got)-4:], idsOf(events), "the receiver", got, "in their order at the end")
}

func TestAConnectionIsKept(t *testing.T) {
	r := newReceiver(t, octetCounting, nil)
	s := open(t, Options{Address: r.addr(), Network: networkTCP})
	events := sinktest.Events(20, 1, 200)
	for i := range events {
		require.NoError(t, s.Send(t.Context(), events[i:i+1]))
	}
	r.await("every event", func(m []received) bool { return len(m) == 20 })
	last := r.all()[19]
	assert.Equal(t, last.conn, 1, "there were", "connections")
}

// A message that makes a receiver end the connection does not stop those behind it for ever.
func TestAMessageThatEndsEveryConnectionIsGivenUp(t *testing.T) {
	var text locked.Buffer
	r := newReceiver(t, octetCounting, nil)
	s := open(t, Options{Address: r.addr(), Network: networkTCP, Log: slog.New(slog.NewTextHandler(&text, nil))})
	events := sinktest.Events(2, 1, 200)
	r.mu.Lock()
	r.after = func(m received) {
		if m.id() == events[0].ID {
			r.closeConns(nil)
		}
	}
	r.mu.Unlock()
	retry(t, s, events[:1]) // acknowledged before it was read
	for range 2 * maxRepetitions {
		_ = s.Send(t.Context(), events[1:]) // behind it, the receiver reads nothing
		if strings.Contains(text.String(), "they are not sent again") {
			break
		}
		if c := s.transport.(*stream).conn; c != nil {
			awaitEnd(t, s)
		}
	}
	assert.Contains(t, text.String(), "repetitions=10", "the log is")
	retry(t, s, events[1:])
	r.await("the event behind it", func(m []received) bool { return m[len(m)-1].id() == events[1].ID })
}

// The end of a lease resets the connection, which is not the receiver's fault.
func TestMessagesAreNotGivenUpForTheEndsOfLeases(t *testing.T) {
	const term = 6 * time.Second
	var text locked.Buffer
	r := newReceiver(t, octetCounting, nil)
	l, clock := leasetest.NewLease(term)
	s := open(t, Options{Address: r.addr(), Network: networkTCP, Lease: l, Log: slog.New(slog.NewTextHandler(&text, nil))})
	events := sinktest.Events(2, 1, 200)
	retry(t, s, events[:1])
	for range 2 * maxRepetitions {
		clock.Advance(term)
		awaitEnd(t, s)
		l.Renew(clock.Now())
		retry(t, s, events[1:])
	}
	assert.NotContains(t, text.String(), "they are not sent again", "the log is")
}

// A receiver that reads nothing while its buffers are full takes no events.
func TestAReceiverThatReadsNothing(t *testing.T) {
	r := newReceiver(t, octetCounting, nil)
	r.pause(true)
	large := sinktest.Events(200, 1, 60_000)
	for name, test := range map[string]struct {
		timeout, cancel time.Duration
		want            string
	}{
		"ends a send by its timeout":   {300 * time.Millisecond, time.Minute, "no answer of the receiver's system within 300ms"},
		"ends a send with its context": {time.Minute, 300 * time.Millisecond, context.DeadlineExceeded.Error()},
	} {
		t.Run(name, func(t *testing.T) {
			s := open(t, Options{Address: r.addr(), Network: networkTCP, Timeout: test.timeout})
			ctx, cancel := context.WithTimeout(t.Context(), test.cancel)
			defer cancel()
			err := s.Send(ctx, large)
			assert.True(t, err != nil && (strings.Contains(err.Error(), test.want) || errors.Is(err, context.DeadlineExceeded)), err, test.want)
			sinktest.ExpectFailure(t, err, failure.Transient)
		})
	}
}

func TestWhatCannotBeDeliveredHasItsClass(t *testing.T) {
	server, pool := sinktest.Certificate(t)
	expired := certificate.New(t, "127.0.0.1", time.Now().Add(-time.Hour), nil)
	named := certificate.New(t, "siem.example", time.Now().Add(time.Hour), &server)
	serveTLS := func(config *tls.Config) string {
		return loopback.Serve(t, func(c net.Conn) {
			secured := tls.Server(c, config)
			_, _ = secured.Read(make([]byte, 1000))
		})
	}
	plain := loopback.Serve(t, func(c net.Conn) {
		buffer := make([]byte, 1000)
		for {
			if _, err := c.Read(buffer); err != nil {
				return
			}
		}
	})
	web := loopback.Serve(t, func(c net.Conn) { fmt.Fprint(c, "HTTP/1.1 400 Bad Request\r\n\r\n"); _, _ = c.Read(make([]byte, 1)) })
	for _, test := range []struct {
		name    string
		options Options
		class   failure.Class
		want    string
	}{
		{"nobody listens", Options{Address: loopback.Closed(t), Network: networkTCP}, failure.Transient, "refuses connections; nothing listens there"},
		{"a name that does not resolve", Options{Address: "siem.invalid:6514", Network: networkTCP}, failure.Transient, "siem.invalid"},
		{"another service answers", Options{Address: web, Network: networkTCP}, failure.Halted, `the server answers "HTTP/1.1 400`},
		{"an unknown authority", Options{Address: serveTLS(&tls.Config{Certificates: []tls.Certificate{server}})}, failure.Halted, "tls.ca_file"},
		{"a certificate that has expired", Options{Address: serveTLS(&tls.Config{Certificates: []tls.Certificate{expired}}), TLS: &tls.Config{RootCAs: poolOf(expired)}}, failure.Halted, "renew the certificate"},
		{"a certificate of another name", Options{Address: serveTLS(&tls.Config{Certificates: []tls.Certificate{named}}), TLS: &tls.Config{RootCAs: pool}}, failure.Halted, "tls.server_name"},
		{
			"a receiver that requires a client certificate",
			Options{Address: serveTLS(&tls.Config{Certificates: []tls.Certificate{server}, ClientAuth: tls.RequireAnyClientCert}), TLS: &tls.Config{RootCAs: pool}},
			failure.Halted, "tls.cert_file",
		},
		{"a receiver without TLS", Options{Address: plain, Timeout: 300 * time.Millisecond}, failure.Transient, "within 300ms"},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			err := open(t, test.options).Send(t.Context(), sinktest.Events(1, 1, 200))
			sinktest.ExpectFailure(t, err, test.class, test.want)
		})
	}
}

// batchOf returns a batch of messages with the given sizes.
func batchOf(sizes ...int) *batch {
	b := &batch{}
	for _, size := range sizes {
		b.framed = append(b.framed, make([]byte, size)...)
		b.ends = append(b.ends, len(b.framed))
	}
	return b
}

func TestATailIsBounded(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var kept tail
		now := time.Unix(0, 0)
		for range rapid.IntRange(1, 30).Draw(t, "batches") {
			now = now.Add(time.Duration(rapid.IntRange(0, 20).Draw(t, "seconds")) * time.Second)
			b := batchOf(rapid.SliceOfN(rapid.IntRange(1, 2<<20), 1, 6).Draw(t, "sizes")...)
			kept.add(b, now)
			bytes := 0
			for _, c := range kept.chunks {
				if bytes += len(c.frames); now.Sub(c.sent) > tailAge {
					t.Fatalf("a chunk is %v old", now.Sub(c.sent))
				}
			}
			require.True(t, bytes == kept.bytes && bytes <= tailBytes, bytes, "bytes, counted as", kept.bytes)
			last := b.ends[len(b.ends)-1]
			require.True(t, last > tailBytes || bytes >= last, bytes, "bytes of the last", last, "are kept")
		}
	})
}

func TestATailGivesUpWhatItRepeatedTooOften(t *testing.T) {
	var kept tail
	now := time.Unix(0, 0)
	kept.add(batchOf(1, 2, 3), now)
	now = now.Add(chunkAge)
	kept.add(batchOf(4), now)
	for range maxRepetitions - 1 {
		kept.repeat(0, now)
	}
	if n := kept.giveUp(); n != 0 || kept.messages() != 4 {
		t.Fatalf("gave up %d, kept %d", n, kept.messages())
	}
	kept.repeat(0, now)
	if n := kept.giveUp(); n != 3 || kept.messages() != 1 || kept.bytes != 4 {
		t.Errorf("gave up %d, kept %d of %d bytes: the oldest are given up first", n, kept.messages(), kept.bytes)
	}
	n := kept.giveUp()
	assert.True(t, n == 0 && kept.messages() == 1, "gave up", n, "that were not sent again")
}

// A repetition may be as unread as the first copy.
func TestATailKeepsWhatWasSentAgain(t *testing.T) {
	var kept tail
	now := time.Unix(0, 0)
	kept.add(batchOf(1), now)
	now = now.Add(tailAge)
	kept.repeat(0, now)
	now = now.Add(tailAge)
	if kept.expire(now); kept.messages() != 1 {
		t.Error("it is not sent once more")
	}
	if kept.expire(now.Add(1)); kept.messages() != 0 {
		t.Error("it is kept for longer than what was sent first")
	}
}

// The sink may send a batch for each event, thousands in a second.
func TestATailOfSmallBatchesHasFewChunks(t *testing.T) {
	var kept tail
	now := time.Unix(0, 0)
	for i := range 10_000 {
		kept.add(batchOf(i%100+1, 500), now)
		now = now.Add(time.Millisecond)
	}
	assert.Equal(t, kept.messages(), 20_000, "messages are kept")
	n := len(kept.chunks)
	assert.True(t, n <= 50, "they are in", n, "chunks")
	kept.expire(now.Add(tailAge - 5*time.Second))
	n = kept.messages()
	assert.True(t, n >= 10_000 && n <= 10_000+2*int(chunkAge/time.Millisecond), n, "messages are left of half the time")
}
