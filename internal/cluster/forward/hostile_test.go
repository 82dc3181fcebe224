package forward

import (
	"bytes"
	"encoding/binary"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"ndrbridge/test/require"
)

// data returns a message of data.
func data(number uint64, payload []byte) []byte {
	return append(binary.AppendUvarint([]byte{kindData}, number), payload...)
}

// Whatever messages arrive, a connection holds no more than the window, ends or goes on, and publishes to
// inboxes only.
func FuzzConnection(f *testing.F) {
	f.Add(true, []byte("\x01A\x05D\x00abc\x05D\x01abc\x03S\x00\x01\x03Elab"))
	f.Add(false, []byte("\x05D\x00abc\x03S\x07\x07\x03Elab"))
	f.Add(true, []byte("\x01B"))
	f.Fuzz(func(t *testing.T, isClient bool, messages []byte) {
		synctest.Test(t, func(t *testing.T) {
			b := new(memoryBus)
			peer := "_INBOX.peer"
			if isClient {
				peer = ""
			}
			reply := "_INBOX.peer"
			if len(messages)%5 == 0 {
				reply = "ndr.test.log.03"
			}
			c, unsubscribe, err := newConn(b, peer)
			require.NoError(t, err)
			defer unsubscribe()
			for len(messages) > 0 {
				n := min(int(messages[0]), len(messages)-1)
				c.receive(message{reply: reply, data: messages[1 : 1+n]})
				messages = messages[1+n:]
			}
			go c.run()
			synctest.Wait()
			c.end(errLeft)
			synctest.Wait()
			for _, subject := range b.subjects() {
				if !b.isInbox(subject) {
					t.Errorf("published to %s", subject)
				}
			}
		})
	})
}

// raw is a side of a connection that sends what it likes. It collects the answers.
type raw struct {
	b     *memoryBus
	inbox string

	mu       sync.Mutex
	peer     string
	answered [][]byte
}

func newRaw(t *testing.T, b *memoryBus) *raw {
	r := &raw{b: b, inbox: b.newInbox()}
	stop, err := b.subscribe(r.inbox, func(m message) {
		if m.nobody {
			return
		}
		r.mu.Lock()
		defer r.mu.Unlock()
		r.peer, r.answered = m.reply, append(r.answered, m.data)
	})
	require.NoError(t, err)
	t.Cleanup(stop)
	return r
}

func (r *raw) send(to string, payload []byte) {
	_ = r.b.publish(to, r.inbox, payload)
	synctest.Wait()
}

// answer sends to the side that answered.
func (r *raw) answer(payload []byte) {
	r.mu.Lock()
	peer := r.peer
	r.mu.Unlock()
	r.send(peer, payload)
}

// last returns the last answer.
func (r *raw) last() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.answered) == 0 {
		return ""
	}
	return string(r.answered[len(r.answered)-1])
}

const post = "POST / HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n"

func TestHostileClients(t *testing.T) {
	for _, c := range []struct {
		name string
		send func(r *raw) // after open and accept
		want string
	}{
		{"more than was read", func(r *raw) {
			for n := range uint64(window + 2) {
				r.answer(data(n, pattern(maxChunk)))
			}
		}, "unexpected message"},
		{"more at once than is allowed", func(r *raw) { r.answer(data(0, pattern(maxChunk+1))) }, "unexpected message"},
		{"an answer to what was not sent", func(r *raw) { r.answer([]byte{kindStatus, 0, 7}) }, "unexpected message"},
		{"an answer without a number", func(r *raw) { r.answer([]byte{kindStatus, 0xff}) }, "unexpected message"},
		{"garbage", func(r *raw) { r.answer([]byte("garbage")) }, "unexpected message"},
		{"nothing", func(r *raw) { r.answer(nil) }, "unexpected message"},
		{"more sent than arrived", func(r *raw) { r.answer([]byte{kindStatus, 1, 0}) }, "messages were lost"},
		{"a gap", func(r *raw) { r.answer(data(1, []byte(post))) }, "messages were lost"},
		{"no request", func(r *raw) {
			for range 10 {
				time.Sleep(aliveEvery)
				r.answer([]byte{kindStatus, 0, 0})
			}
		}, "closed the connection"},
		{"no HTTP", func(r *raw) {
			r.answer(data(0, []byte("GET\r\n\r\n")))
			r.answer([]byte{kindStatus, 1, 1})
			time.Sleep(time.Second)
		}, "closed the connection"},
	} {
		bubble(t, c.name, func(t *testing.T, b *memoryBus) {
			start(t, b, func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() })
			r := newRaw(t, b)
			r.send(subject, []byte{kindOpen, version})
			if r.last() != string(kindAccept) {
				t.Fatalf("answered %q", r.answered)
			}
			c.send(r)
			if !strings.HasPrefix(r.last(), string(kindEnd)) || !strings.Contains(r.last(), c.want) {
				t.Errorf("answered %q, want the end: %s", r.last(), c.want)
			}
		})
	}
	bubble(t, "another version", func(t *testing.T, b *memoryBus) {
		start(t, b, func(http.ResponseWriter, *http.Request) { t.Error("the handler was called") })
		r := newRaw(t, b)
		r.send(subject, []byte{1, 'O', 0})
		if !strings.Contains(r.last(), "version 2") {
			t.Errorf("answered %q", r.last())
		}
	})
	bubble(t, "a reply subject that is no inbox", func(t *testing.T, b *memoryBus) {
		start(t, b, func(http.ResponseWriter, *http.Request) { t.Error("the handler was called") })
		_ = b.publish(subject, "ndr.test.log.03", []byte{kindOpen, version})
		_ = b.publish(subject, "ndr.test.log.03", []byte("garbage"))
		_ = b.publish(subject, "", []byte{kindOpen, version})
		time.Sleep(time.Minute)
		for _, to := range b.subjects() {
			if to != subject {
				t.Errorf("published to %s", to)
			}
		}
	})
}

func TestHostileServers(t *testing.T) {
	large := []byte("HTTP/1.1 200 OK\r\nX: " + strings.Repeat("x", maxChunk-100))
	for _, c := range []struct {
		name    string
		answers [][]byte
		want    string
	}{
		{"data before it accepts", [][]byte{data(0, nil)}, "unexpected message"},
		{"no HTTP", [][]byte{{kindAccept}, data(0, []byte("?\r\n\r\n"))}, "malformed HTTP response"},
		{"an open", [][]byte{{kindAccept}, {kindOpen, version}}, "unexpected message"},
		{"more than was read", [][]byte{{kindAccept}, data(0, large), data(1, large), data(2, large), data(3, large), data(4, large), data(5, large), data(6, large)}, "unexpected message"},
		{"an end without a reason", [][]byte{{kindEnd}}, ErrLost.Error()},
	} {
		bubble(t, c.name, func(t *testing.T, b *memoryBus) {
			stop, err := b.subscribe(subject, func(m message) {
				for _, answer := range c.answers {
					_ = b.publish(m.reply, "_INBOX.server", answer)
				}
			})
			require.NoError(t, err)
			defer stop()
			if resp, err := client(b).Get("http://localhost/"); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%v (%v), want %q", resp, err, c.want)
			}
		})
	}
	bubble(t, "a head without end", func(t *testing.T, b *memoryBus) {
		c := start(t, b, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("X-Large", strings.Repeat("x", 2*maxHead))
			_, _ = io.Copy(w, bytes.NewReader(pattern(10)))
		})
		if _, err := c.Get("http://localhost/"); err == nil || !strings.Contains(err.Error(), "exceeded") {
			t.Error(err)
		}
	})
}
