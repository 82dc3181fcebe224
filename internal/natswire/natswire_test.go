package natswire

import (
	"bufio"
	"fmt"
	"io"
	"strings"
	"testing"

	nats "github.com/nats-io/nats.go"
	"pgregory.net/rapid"

	"ndrbridge/test/assert"
	"ndrbridge/test/require"
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

func reading(text string, sizes []int, o Options) *guarded {
	return &guarded{r: bufio.NewReaderSize(&pieces{text: []byte(text), sizes: sizes}, maxLine), o: o}
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
		c := reading(sent, sizes, Options{MaxMessage: limit, Cut: true})
		var got []byte
		for {
			p := make([]byte, rapid.IntRange(1, 60).Draw(t, "asked for"))
			n, err := c.Read(p)
			if got = append(got, p[:n]...); err != nil {
				require.ErrorIs(t, err, io.EOF)
				break
			}
		}
		require.Equal(t, string(got), want, sent, "came")
	})
}

func TestProtocolViolations(t *testing.T) {
	for what, text := range map[string]string{
		"a message above the limit":   "MSG a 1 101\r\n",
		"a message of 2^31-1 bytes":   "MSG a 1 2147483647\r\n",
		"a negative size":             "MSG a 1 -1\r\n",
		"a size with a sign":          "MSG a 1 +1\r\n",
		"a size of many digits":       "MSG a 1 18446744073709551617\r\n",
		"no size":                     "MSG\r\n",
		"a message that goes on":      "MSG a 1 1\r\nxx\r\n",
		"a line that ends without CR": "PING\n",
		"a CR inside a line":          "MSG a 1 1\r1\r\n",
		"a line that is too long":     "MSG " + strings.Repeat("x", maxLine) + " 1 1\r\n",
		"an empty line":               "PING\r\n\r\n",
	} {
		t.Run(what, func(t *testing.T) {
			_, err := io.Copy(io.Discard, reading(text, []int{1000}, Options{MaxMessage: 100}))
			assert.ErrorIs(t, err, ErrProtocol)
		})
	}
	for text, want := range map[string]error{
		"HTTP/1.1 400 Bad Request\r\n":           nats.ErrNoInfoReceived,
		"\x15\x03\x01\x00\x02\x02\x0a":           nats.ErrNoInfoReceived,
		"\x00":                                   nats.ErrNoInfoReceived,
		"INFO {\r\n":                             ErrProtocol,
		"PUB a 1\r\n":                            nats.ErrNoInfoReceived,
		`INFO {"tls_required":true}` + "\r\n+OK": ErrProtocol,
	} {
		assert.ErrorIs(t, new(dialer).secureIfRequired(reading(text, []int{1000}, Options{}), ""), want, text)
	}
}

func FuzzRead(f *testing.F) {
	f.Add([]byte(greeting + "MSG a 1 2\r\nhi\r\nPING\r\n"))
	f.Add([]byte("HMSG a 1 r 12 12\r\nNATS/1.0\r\n\r\n\r\n"))
	f.Fuzz(func(t *testing.T, text []byte) {
		n, err := io.Copy(io.Discard, reading(string(text), []int{3, 1, 100}, Options{MaxMessage: 50, Cut: true}))
		assert.True(t, n <= int64(len(text))+100, n, "bytes of", len(text), err)
	})
}
