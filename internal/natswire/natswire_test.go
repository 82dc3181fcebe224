package natswire

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"

	nats "github.com/nats-io/nats.go"
	"pgregory.net/rapid"
)

// pieces reads a text in pieces of changing sizes.
type pieces struct {
	text  []byte
	sizes []int
	next  int
}

func (p *pieces) Read(b []byte) (int, error) {
	if len(p.text) == 0 {
		return 0, io.EOF
	}
	n := min(len(p.text), len(b), p.sizes[p.next%len(p.sizes)])
	p.next++
	copy(b, p.text[:n])
	p.text = p.text[n:]
	return n, nil
}

func reading(text string, sizes []int, limits Limits) *conn {
	return &conn{src: &pieces{text: []byte(text), sizes: sizes}, limits: limits, buf: make([]byte, maxLine)}
}

const greeting = `INFO {"max_payload":1048576}` + "\r\n"

func TestWellFormedDataIsUnchanged(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		const limit = 40
		sent, want := greeting, greeting
		for range rapid.IntRange(0, 20).Draw(t, "lines") {
			body := strings.Repeat("x\n", rapid.IntRange(0, 40).Draw(t, "body")/2)
			shortened := func(subject string) string {
				return fmt.Sprintf("MSG %s 1 %d\r\n%s\r\n", subject, limit+1, (body + body)[:limit+1])
			}
			line := rapid.SampledFrom([]string{"PING\r\n", "PONG\r\n", "+OK\r\n", "-ERR 'x y'\r\n", greeting, "MSG", "HMSG", "large"}).Draw(t, "line")
			switch line {
			case "MSG":
				line = fmt.Sprintf("MSG a.b  12\tr.1 %d\r\n%s\r\n", len(body), body)
			case "HMSG":
				line = fmt.Sprintf("HMSG a.b 12 %d %d\r\n%s\r\n", len(body)/2, len(body), body)
			case "large":
				body = strings.Repeat("y\r", 30)
				line = fmt.Sprintf("HMSG a.b 1 12 %d\r\n%s\r\n", len(body), body)
				sent, want = sent+line, want+shortened("a.b")
				continue
			}
			sent, want = sent+line, want+line
		}
		sizes := rapid.SliceOfN(rapid.IntRange(1, 50), 1, 5).Draw(t, "sizes")
		c := reading(sent, sizes, Limits{Message: limit, Cut: true})
		var got []byte
		for {
			p := make([]byte, rapid.IntRange(1, 60).Draw(t, "asked for"))
			n, err := c.Read(p)
			if got = append(got, p[:n]...); err != nil {
				if !errors.Is(err, io.EOF) {
					t.Fatal(err)
				}
				break
			}
		}
		if string(got) != want {
			t.Fatalf("of %q came\n%q, want\n%q", sent, got, want)
		}
	})
}

func TestProtocolViolations(t *testing.T) {
	for what, text := range map[string]string{
		"a message above the limit":         "MSG a 1 101\r\n",
		"a message of 2^31-1 bytes":         "MSG a 1 2147483647\r\n",
		"a negative size":                   "MSG a 1 -1\r\n",
		"a size with a sign":                "MSG a 1 +1\r\n",
		"a size of many digits":             "MSG a 1 00000000001\r\n",
		"headers larger than the message":   "HMSG a 1 3 2\r\nxx\r\n",
		"too few arguments":                 "MSG a 1\r\n",
		"too many arguments":                "MSG a 1 r x 2\r\nxx\r\n",
		"a message that goes on":            "MSG a 1 1\r\nxx\r\n",
		"a line that ends without CR":       "PING\n",
		"a CR inside a line":                "MSG a 1 1\r1\r\n",
		"a verb that no server has":         "PUB a 1\r\n",
		"a line that is too long":           "MSG " + strings.Repeat("x", maxLine) + " 1 1\r\n",
		"a byte that begins no line":        "\x00",
		"an INFO that is no JSON":           "INFO {\r\n",
		"an INFO that allows no payload":    `INFO {"max_payload":0}` + "\r\n",
		"a thousand lines that say nothing": strings.Repeat("PING\r\n", maxIdleLines+1),
	} {
		t.Run(what, func(t *testing.T) {
			_, err := io.Copy(io.Discard, reading(text, []int{1000}, Limits{Message: 100}))
			if !errors.Is(err, ErrProtocol) {
				t.Errorf("%v", err)
			}
		})
	}
	for text, want := range map[string]error{"HTTP/1.1 400 Bad Request\r\n": ErrHTTP, "\x15\x03\x01\x00\x02\x02\x0a": ErrTLS} {
		if _, err := io.Copy(io.Discard, reading(text, []int{1000}, Limits{})); !errors.Is(err, want) {
			t.Errorf("%q: %v", text, err)
		}
	}
}

func TestUnreadAcknowledgementsAreBounded(t *testing.T) {
	limits := Limits{Message: 1, Inbox: "_INBOX.x.", InboxMessage: 10, InboxBytes: 100}
	ack := "MSG _INBOX.x.1 1 4\r\nhave\r\n"
	c := reading(strings.Repeat(ack, 1000), []int{len(ack)}, limits)
	for range 100 { // acknowledgements that are read do not count
		if _, err := c.Read(make([]byte, len(ack))); err != nil {
			t.Fatal(err)
		}
		c.waiting.Add(-int64((&nats.Msg{Subject: "_INBOX.x.1", Data: []byte("have")}).Size()))
	}
	if _, err := io.Copy(io.Discard, c); !errors.Is(err, ErrProtocol) {
		t.Errorf("%v", err)
	}
}

func TestWebSocketFrames(t *testing.T) {
	const upgrade = "HTTP/1.1 101 Switching Protocols\r\n\r\n"
	frame := func(first byte, body string) string {
		if len(body) < 126 {
			return string([]byte{first, byte(len(body))}) + body
		}
		return string([]byte{first, 126, byte(len(body) >> 8), byte(len(body))}) + body
	}
	socket := func(text string) *conn {
		source := &pieces{text: []byte(text), sizes: []int{7, 300, 1}}
		c := &conn{socket: &websocket{r: source}, limits: Limits{Message: 1000}, buf: make([]byte, maxLine)}
		c.src = c.socket
		return c
	}
	t.Run("carry the protocol, wherever they are split", func(t *testing.T) {
		message := "MSG a 1 300\r\n" + strings.Repeat("x", 300) + "\r\n"
		got, err := io.ReadAll(socket(upgrade + frame(2, greeting[:5]) + frame(0x80, greeting[5:]+message[:20]) + frame(0x89, "ping") + frame(0x82, message[20:])))
		if err != nil || !bytes.HasPrefix(got, []byte(upgrade)) || !bytes.Contains(got, []byte(frame(0x89, "ping"))) {
			t.Fatalf("%q, %v", got, err)
		}
		again, err := io.ReadAll(readerOfFrames(got[len(upgrade):]))
		if err != nil || string(again) != greeting+message {
			t.Errorf("%q, %v", again, err)
		}
	})
	for what, text := range map[string]string{
		"that are compressed":                    upgrade + frame(0xc2, "x"),
		"that are masked":                        upgrade + "\x82\x81mask",
		"of control that are long":               upgrade + "\x89\x7e\x01\x00",
		"with a message above the limit":         upgrade + frame(0x82, greeting+"MSG a 1 1001\r\n"),
		"after a handshake that does not end":    "HTTP/1.1 101 " + strings.Repeat("x", maxHandshake),
		"after a handshake that was not granted": "HTTP/1.1 403 Forbidden\r\n\r\n",
	} {
		t.Run(what, func(t *testing.T) {
			if _, err := io.ReadAll(socket(text)); !errors.Is(err, ErrProtocol) {
				t.Errorf("%v", err)
			}
		})
	}
}

// readerOfFrames returns the payload of frames without control frames.
func readerOfFrames(frames []byte) io.Reader {
	w := &websocket{r: bytes.NewReader(frames)}
	return readerFunc(func(p []byte) (int, error) { return w.Read(p) })
}

type readerFunc func([]byte) (int, error)

func (f readerFunc) Read(p []byte) (int, error) { return f(p) }

func FuzzRead(f *testing.F) {
	f.Add([]byte(greeting + "MSG a 1 2\r\nhi\r\nPING\r\n"))
	f.Add([]byte("HMSG a 1 r 12 12\r\nNATS/1.0\r\n\r\n\r\n"))
	f.Fuzz(func(t *testing.T, text []byte) {
		limits := Limits{Message: 50, Cut: true, Inbox: "a", InboxMessage: 3, InboxBytes: 1000}
		n, err := io.Copy(io.Discard, reading(string(text), []int{3, 1, 100}, limits))
		if n > int64(len(text))+100 {
			t.Errorf("%d bytes of %d, %v", n, len(text), err)
		}
	})
}
