package forward

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"ndrbridge/test/require"
)

func FuzzParseFrame(f *testing.F) {
	f.Add([]byte{})
	for _, k := range []kind{frameOpen, frameAccept, frameStart, frameHead, frameData, frameEnd, frameCredit, frameAlive, frameAbort, 'Z'} {
		f.Add(frame{k, 300, []byte("payload")}.appendTo(nil))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		parsed, err := parseFrame(b)
		if err != nil {
			if !errors.Is(err, errFrame) {
				t.Error(err)
			}
			return
		}
		again, err := parseFrame(parsed.appendTo(nil))
		if err != nil || again.kind != parsed.kind || again.number != parsed.number || !bytes.Equal(again.payload, parsed.payload) {
			t.Errorf("%+v (%v), want %+v", again, err, parsed)
		}
	})
}

// frames splits data into frames with rising numbers: a kind, a length and a payload each.
func frames(data []byte) (all []frame) {
	for len(data) >= 2 {
		n := min(int(data[1])*300, maxChunk)
		payload := data[2:]
		if data[0] == byte(frameData) {
			payload = make([]byte, n)
		}
		all = append(all, frame{kind: kind(data[0]), number: uint64(len(all)), payload: payload[:min(n, len(payload))]})
		data = data[min(2+int(data[1]), len(data)):]
	}
	return all
}

// Whatever frames arrive, an exchange holds no more than the window, ends or goes on, and
// publishes to inboxes only.
func FuzzExchange(f *testing.F) {
	f.Add(true, []byte("A\x00H\x00D\x05D\x05C\x01\x05E\x00"))
	f.Add(false, []byte("S\x00D\x05D\x05C\x01\x05E\x00X\x03lab"))
	f.Add(true, bytes.Repeat([]byte("D\xff"), 20))
	f.Fuzz(func(t *testing.T, isClient bool, data []byte) {
		synctest.Test(t, func(t *testing.T) {
			b := new(memoryBus)
			x := newExchange(t.Context(), b, isClient)
			if !isClient {
				x.peer = "_INBOX.peer"
			}
			reply := "_INBOX.peer"
			if len(data)%5 == 0 {
				reply = "ndr.test.log.03"
			}
			for _, f := range frames(data) {
				x.receive(message{reply: reply, data: f.appendTo(nil)})
			}
			if n := x.body.Len(); n > window {
				t.Errorf("%d bytes are held", n)
			}
			_, _, _ = x.takeBody(make([]byte, window))
			_ = x.send(frameAlive, nil)
			x.end(errors.New("over"))
			x.keepAlive()
			for _, subject := range b.subjects() {
				if subject != "" && !b.isInbox(subject) {
					t.Errorf("published to %s", subject)
				}
			}
			if isClient && x.head != nil {
				if resp, err := parseResponse(x.head, nil, http.NoBody); err == nil {
					resp.Body.Close()
				}
			}
		})
	})
}

func FuzzHeads(f *testing.F) {
	f.Add([]byte("GET /a?b HTTP/1.1\r\nHost: localhost\r\nContent-Length: 3\r\n\r\n"))
	f.Add([]byte("HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\n"))
	f.Fuzz(func(t *testing.T, head []byte) {
		if r, err := parseRequest(head, http.NoBody); err == nil && (r.URL == nil || r.Body == nil) {
			t.Errorf("%+v", r)
		}
		if resp, err := parseResponse(head, nil, http.NoBody); err == nil {
			if resp.Header == nil || resp.Body == nil {
				t.Errorf("%+v", resp)
			}
			resp.Body.Close()
		}
	})
}

// raw sends frames to a server as a client would and collects the answers.
type raw struct {
	b      *memoryBus
	inbox  string
	number uint64

	mu       sync.Mutex
	server   string
	answered []frame
}

func newRaw(t *testing.T, b *memoryBus) *raw {
	r := &raw{b: b, inbox: b.newInbox()}
	stop, err := b.subscribe(r.inbox, func(m message) {
		if m.nobody {
			return
		}
		f, err := parseFrame(m.data)
		if err != nil {
			t.Error(err)
		}
		r.mu.Lock()
		defer r.mu.Unlock()
		r.server = m.reply
		r.answered = append(r.answered, f)
	})
	require.NoError(t, err)
	t.Cleanup(stop)
	return r
}

func (r *raw) send(to string, k kind, payload []byte) {
	_ = r.b.publish(to, r.inbox, frame{k, r.number, payload}.appendTo(nil))
	r.number++
	synctest.Wait()
}

// last returns the text of the abort frame that came last, or its kind.
func (r *raw) last() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.answered) == 0 {
		return ""
	}
	f := r.answered[len(r.answered)-1]
	if f.kind != frameAbort {
		return string(f.kind)
	}
	return string(f.payload[1:])
}

const post = "POST / HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n"

func TestHostileClients(t *testing.T) {
	for _, c := range []struct {
		name string
		send func(r *raw) // after open and accept
		want string
	}{
		{"more than the window", func(r *raw) {
			for range 2 * window / maxChunk {
				r.send(r.server, frameData, pattern(maxChunk))
			}
		}, "unexpected frame"},
		{"a body before start and a head", func(r *raw) { r.send(r.server, frameHead, []byte("HTTP/1.1 200 OK\r\n\r\n")) }, "unexpected frame"},
		{"data after the end", func(r *raw) {
			r.send(r.server, frameStart, nil)
			r.send(r.server, frameEnd, nil)
			r.send(r.server, frameData, pattern(1))
		}, "unexpected frame"},
		{"credit for more than was sent", func(r *raw) { r.send(r.server, frameCredit, binary.AppendUvarint(nil, 1<<40)) }, "unexpected frame"},
		{"credit that is no number", func(r *raw) { r.send(r.server, frameCredit, []byte{0xff}) }, "unexpected frame"},
		{"garbage", func(r *raw) { _ = r.b.publish(r.server, r.inbox, []byte("garbage")) }, "not a frame"},
		{"a gap", func(r *raw) { r.number++; r.send(r.server, frameStart, nil) }, "messages were lost"},
		{"no start", func(*raw) { time.Sleep(time.Minute) }, "the client does not start the request"},
	} {
		bubble(t, c.name, func(t *testing.T, b *memoryBus) {
			start(t, b, func(_ http.ResponseWriter, r *http.Request) {
				<-r.Context().Done()
			})
			r := newRaw(t, b)
			r.send(subject, frameOpen, []byte(post))
			if r.last() != string(frameAccept) {
				t.Fatalf("answered %+v", r.answered)
			}
			c.send(r)
			synctest.Wait()
			if !strings.Contains(r.last(), c.want) {
				t.Errorf("answered %q, want %q", r.last(), c.want)
			}
		})
	}
	bubble(t, "an invalid head", func(t *testing.T, b *memoryBus) {
		start(t, b, func(http.ResponseWriter, *http.Request) { t.Error("the handler was called") })
		r := newRaw(t, b)
		r.send(subject, frameOpen, []byte("GET"))
		r.send(r.server, frameStart, nil)
		if !strings.Contains(r.last(), "read the head of the request") {
			t.Errorf("answered %q", r.last())
		}
	})
	bubble(t, "another version", func(t *testing.T, b *memoryBus) {
		start(t, b, func(http.ResponseWriter, *http.Request) { t.Error("the handler was called") })
		r := newRaw(t, b)
		_ = b.publish(subject, r.inbox, []byte{2, 'O', 0})
		synctest.Wait()
		if !strings.Contains(r.last(), "version 2") {
			t.Errorf("answered %q", r.last())
		}
	})
	bubble(t, "a reply subject that is no inbox", func(t *testing.T, b *memoryBus) {
		start(t, b, func(http.ResponseWriter, *http.Request) { t.Error("the handler was called") })
		_ = b.publish(subject, "ndr.test.log.03", frame{frameOpen, 0, []byte(post)}.appendTo(nil))
		_ = b.publish(subject, "ndr.test.log.03", []byte("garbage"))
		_ = b.publish(subject, "", frame{frameOpen, 0, []byte(post)}.appendTo(nil))
		time.Sleep(time.Minute)
		for _, to := range b.subjects() {
			if to != subject {
				t.Errorf("published to %s", to)
			}
		}
	})
}

func TestHostileServers(t *testing.T) {
	for _, c := range []struct {
		name    string
		answers []frame
		want    string
	}{
		{"a head before it accepts", []frame{{kind: frameHead}}, "unexpected frame"},
		{"an invalid head", []frame{{kind: frameAccept}, {kind: frameHead, payload: []byte("?")}}, "read the head of the response"},
		{"data before the head", []frame{{kind: frameAccept}, {kind: frameData}}, "unexpected frame"},
		{"the end before the head", []frame{{kind: frameAccept}, {kind: frameEnd}}, "unexpected frame"},
		{"start", []frame{{kind: frameAccept}, {kind: frameStart}}, "unexpected frame"},
		{"an abort without a reason", []frame{{kind: frameAbort}}, "the other side ended it"},
	} {
		bubble(t, c.name, func(t *testing.T, b *memoryBus) {
			stop, err := b.subscribe(subject, func(m message) {
				for i, f := range c.answers {
					f.number = uint64(i)
					_ = b.publish(m.reply, "_INBOX.server", f.appendTo(nil))
				}
			})
			require.NoError(t, err)
			defer stop()
			ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
			defer cancel()
			r, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://localhost/", nil)
			require.NoError(t, err)
			if resp, err := client(b).Do(r); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%v (%v), want %q", resp, err, c.want)
			}
		})
	}
	bubble(t, "more than the window", func(t *testing.T, b *memoryBus) {
		stop, err := b.subscribe(subject, func(m message) {
			all := []frame{{kind: frameAccept}, {kind: frameHead, payload: []byte("HTTP/1.1 200 OK\r\n\r\n")}}
			for range 100 {
				all = append(all, frame{kind: frameData, payload: pattern(maxChunk)})
			}
			for i, f := range all {
				f.number = uint64(i)
				_ = b.publish(m.reply, "_INBOX.server", f.appendTo(nil))
			}
		})
		require.NoError(t, err)
		defer stop()
		resp, err := client(b).Get("http://localhost/")
		if err != nil {
			if !errors.Is(err, ErrLost) {
				t.Error(err)
			}
			return
		}
		defer resp.Body.Close()
		synctest.Wait()
		if _, err := io.ReadAll(resp.Body); !errors.Is(err, ErrLost) {
			t.Errorf("%v, want ErrLost", err)
		}
	})
}
