//go:build e2e

package e2e

import (
	"bufio"
	"crypto/rand"
	"crypto/tls"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/textproto"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nkeys"
)

// natsLogin contains a reader's credentials; the zero value has none.
type natsLogin struct {
	User, Password, Token string
	JWT, Seed             string // of a user's nkey
	TLS                   *tls.Config
}

// natsReader is an independent implementation of NATS' protocol, which shares nothing with
// the bridge's client library. It is not safe for concurrent use.
type natsReader struct {
	conn     net.Conn
	in       *bufio.Reader
	inbox    string // with a dot at the end
	requests int
}

// natsMessage is a received message. The names of its headers are as sent.
type natsMessage struct {
	subject, reply string
	status         string // the text after the version of the headers; usually empty
	header         map[string][]string
	data           []byte
}

// natsPatience is the time limit of every wait of a reader.
const natsPatience = 10 * time.Second

// dialNATS connects a reader and subscribes to its inbox.
func dialNATS(address string, login natsLogin) (_ *natsReader, err error) {
	r := &natsReader{inbox: "_INBOX." + rand.Text() + "."}
	if r.conn, err = net.DialTimeout("tcp", address, natsPatience); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			r.conn.Close()
		}
	}()
	r.in = bufio.NewReader(r.conn)
	line, err := r.line()
	if err != nil {
		return nil, err
	}
	text, ok := strings.CutPrefix(line, "INFO ")
	var info struct{ Nonce string }
	if err := json.Unmarshal([]byte(text), &info); !ok || err != nil {
		return nil, fmt.Errorf("%s begins with %q: %v", address, line, err)
	}
	if login.TLS != nil {
		r.conn = tls.Client(r.conn, login.TLS)
		r.in = bufio.NewReader(r.conn)
	}
	connect, err := login.connect(info.Nonce)
	if err != nil {
		return nil, err
	}
	if err := r.say("CONNECT %s\r\nSUB %s* 0\r\nPING\r\n", connect, r.inbox); err != nil {
		return nil, err
	}
	return r, r.pong()
}

// pong waits for the response to a PING.
func (r *natsReader) pong() error {
	for {
		line, err := r.line()
		if err != nil || line == "PONG" {
			return err
		}
		if !strings.HasPrefix(line, "INFO ") {
			return errors.New(line)
		}
	}
}

// connect returns the argument of CONNECT, which signs a nonce.
func (l natsLogin) connect(nonce string) ([]byte, error) {
	options := map[string]any{"verbose": false, "pedantic": true, "headers": true, "protocol": 1, "lang": "test", "version": "1"}
	switch {
	case l.Seed != "":
		key, err := nkeys.FromSeed([]byte(l.Seed))
		if err != nil {
			return nil, err
		}
		signature, err := key.Sign([]byte(nonce))
		if err != nil {
			return nil, err
		}
		options["sig"] = base64.RawURLEncoding.EncodeToString(signature)
		if options["jwt"] = l.JWT; l.JWT == "" {
			delete(options, "jwt")
			if options["nkey"], err = key.PublicKey(); err != nil {
				return nil, err
			}
		}
	case l.Token != "":
		options["auth_token"] = l.Token
	case l.User != "":
		options["user"], options["pass"] = l.User, l.Password
	}
	return json.Marshal(options)
}

func (r *natsReader) close() { r.conn.Close() }

func (r *natsReader) say(format string, args ...any) error {
	if err := r.conn.SetWriteDeadline(time.Now().Add(natsPatience)); err != nil {
		return err
	}
	_, err := fmt.Fprintf(r.conn, format, args...)
	return err
}

func (r *natsReader) line() (string, error) {
	if err := r.conn.SetReadDeadline(time.Now().Add(natsPatience)); err != nil {
		return "", err
	}
	line, err := r.in.ReadString('\n')
	return strings.TrimSuffix(line, "\r\n"), err
}

// subscribe subscribes and returns when the server has processed it.
func (r *natsReader) subscribe(subject string) error {
	if err := r.say("SUB %s 1\r\nPING\r\n", subject); err != nil {
		return err
	}
	return r.pong()
}

// next waits for a message.
func (r *natsReader) next() (natsMessage, error) { return r.nextWithin(natsPatience) }

// nextWithin waits for a message for a limited time. After os.ErrDeadlineExceeded the reader
// is still usable.
func (r *natsReader) nextWithin(wait time.Duration) (natsMessage, error) {
	for {
		if err := r.conn.SetReadDeadline(time.Now().Add(wait)); err != nil {
			return natsMessage{}, err
		}
		if _, err := r.in.Peek(1); err != nil {
			return natsMessage{}, err
		}
		line, err := r.line()
		if err != nil {
			return natsMessage{}, err
		}
		switch command, rest, _ := strings.Cut(line, " "); command {
		case "PING":
			if err := r.say("PONG\r\n"); err != nil {
				return natsMessage{}, err
			}
		case "PONG", "INFO", "+OK":
		case "MSG":
			return r.message(strings.Fields(rest), 1)
		case "HMSG":
			return r.message(strings.Fields(rest), 2)
		default:
			return natsMessage{}, errors.New(line)
		}
	}
}

// message reads the rest of a message after its first line, which ends with one or two
// lengths: that of the headers and the total.
func (r *natsReader) message(args []string, lengths int) (m natsMessage, err error) {
	at := len(args) - lengths
	if at < 2 {
		return m, fmt.Errorf("a message of %q", args)
	}
	m.subject = args[0]
	if at == 3 {
		m.reply = args[2]
	}
	all, err := strconv.Atoi(args[len(args)-1])
	if err != nil {
		return m, err
	}
	body := make([]byte, all+2)
	if _, err := io.ReadFull(r.in, body); err != nil {
		return m, err
	}
	if string(body[all:]) != "\r\n" {
		return m, fmt.Errorf("a message ends with %q", body[all:])
	}
	if body = body[:all]; lengths == 1 {
		m.data = body
		return m, nil
	}
	head, err := strconv.Atoi(args[at])
	if err != nil {
		return m, err
	}
	m.data = body[head:]
	m.status, m.header, err = natsHeader(string(body[:head]))
	return m, err
}

// natsHeader parses the headers of a message, which end with an empty line.
func natsHeader(text string) (status string, header map[string][]string, err error) {
	text, ends := strings.CutSuffix(text, "\r\n\r\n")
	lines := strings.Split(text, "\r\n")
	status, begins := strings.CutPrefix(lines[0], "NATS/1.0")
	if !ends || !begins {
		return "", nil, fmt.Errorf("headers of %q", text)
	}
	header = make(map[string][]string)
	for _, line := range lines[1:] {
		name, value, ok := strings.Cut(line, ":")
		if !ok {
			return "", nil, fmt.Errorf("a header of %q", line)
		}
		header[name] = append(header[name], textproto.TrimString(value))
	}
	return strings.TrimSpace(status), header, nil
}

// request publishes a request and waits for the response.
func (r *natsReader) request(subject string, payload []byte) (natsMessage, error) {
	r.requests++
	inbox := r.inbox + strconv.Itoa(r.requests)
	if err := r.say("PUB %s %s %d\r\n%s\r\n", subject, inbox, len(payload), payload); err != nil {
		return natsMessage{}, err
	}
	for {
		m, err := r.next()
		if err != nil || m.subject == inbox {
			return m, err
		}
	}
}

// api sends a request to JetStream's API. An error response is returned as an error.
func (r *natsReader) api(subject string, request, answer any) error {
	payload, err := json.Marshal(request)
	if err != nil {
		return err
	}
	m, err := r.request("$JS.API."+subject, payload)
	if err != nil {
		return fmt.Errorf("%s: %w", subject, err)
	}
	var refusal struct {
		Error *struct {
			Code        int `json:"err_code"`
			Description string
		}
	}
	if err := json.Unmarshal(m.data, &refusal); err != nil {
		return fmt.Errorf("%s: %w: %q", subject, err, m.data)
	}
	if refusal.Error != nil {
		return fmt.Errorf("%s: [%d] %s", subject, refusal.Error.Code, refusal.Error.Description)
	}
	return json.Unmarshal(m.data, answer)
}

// natsStream is the information about a stream.
type natsStream struct {
	Config  map[string]any
	State   struct{ Messages, LastSeq uint64 }
	Cluster struct {
		Leader   string
		Replicas []struct {
			Name    string
			Current bool
		}
	}
}

func (r *natsReader) stream(name string) (s natsStream, err error) {
	return s, r.api("STREAM.INFO."+name, struct{}{}, &s)
}

// makeStream creates a stream of ndr.> with further settings.
func (r *natsReader) makeStream(name string, settings map[string]any) error {
	config := map[string]any{"name": name, "subjects": []string{"ndr.>"}, "storage": "file", "retention": "limits", "num_replicas": 1}
	for key, value := range settings {
		config[key] = value
	}
	return r.api("STREAM.CREATE."+name, config, &struct{}{})
}

// read returns all messages in a stream, in order, with a pull consumer.
func (r *natsReader) read(stream string) ([]natsMessage, error) {
	var consumer struct {
		Name    string
		Pending int `json:"num_pending"`
	}
	err := r.api("CONSUMER.CREATE."+stream, map[string]any{
		"stream_name": stream,
		"config":      map[string]any{"deliver_policy": "all", "ack_policy": "none", "replay_policy": "instant", "num_replicas": 1},
	}, &consumer)
	if err != nil {
		return nil, err
	}
	var messages []natsMessage
	for lost := 0; len(messages) < consumer.Pending; {
		n := min(500, consumer.Pending-len(messages))
		pull := fmt.Sprintf(`{"batch":%d}`, n)
		if err := r.say("PUB $JS.API.CONSUMER.MSG.NEXT.%s.%s %spull %d\r\n%s\r\n", stream, consumer.Name, r.inbox, len(pull), pull); err != nil {
			return nil, err
		}
		for range n {
			m, err := r.nextWithin(natsPatience / 10)
			// In a cluster, this server may not know yet of the consumer created at another
			// one: then the pull is lost.
			if errors.Is(err, os.ErrDeadlineExceeded) && lost < 10 {
				lost++
				break
			}
			if err != nil {
				return nil, err
			}
			if strings.HasPrefix(m.subject, r.inbox) {
				return nil, fmt.Errorf("a pull ended with %s %q", m.status, m.data)
			}
			messages, lost = append(messages, m), 0
		}
	}
	return messages, nil
}
