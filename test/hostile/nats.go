package hostile

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"
)

// Attacks of NATS that tests or the server treat specially.
const (
	NATSSilence        = "silence before INFO"
	NATSDrip           = "INFO by one byte a second"
	NATSEndlessInfo    = "an INFO that does not end"
	NATSManyServers    = "an INFO that names 3,000 servers, and a closed connection"
	NATSHuge           = "a message of 2^31-1 bytes"
	NATSHugeHeaders    = "headers of 2^31-1 bytes"
	NATSHugeAnswer     = "answers of 60 MiB of JSON"
	natsNoPayload      = "an INFO that allows no payload"
	natsSilenceInTLS   = "silence in the TLS handshake"
	natsSilenceConnect = "silence after CONNECT"
	natsNoAnswer       = "silence after what is published"
)

// natsScript is what a server sends: head, and then repeat, unless it is empty, until the
// connection ends.
type natsScript struct{ name, head, repeat string }

const natsInfo = `INFO {"server_id":"x","version":"2.12.0","max_payload":1048576,"headers":true,"jetstream":true,"proto":1%s}` + "\r\n"

// natsGreetings are attacks in place of INFO, after which the connection ends.
func natsGreetings() []natsScript {
	return []natsScript{
		{"an answer in HTTP", "HTTP/1.1 400 Bad Request\r\nContent-Length: 2000000000\r\n\r\n", "<p>"},
		{"a TLS alert", "\x15\x03\x03\x00\x02\x02\x0a", ""},
		{"bytes without a line end", "", "\x00"},
		{NATSEndlessInfo, `INFO {"max_payload":1048576,"server_id":"`, "x"},
		{"connections that end at once", "", ""},
	}
}

// natsMessages are attacks on a client that has subscribed. SUB stands for the subject and the
// number of the subscription.
func natsMessages() []natsScript {
	headers := "NATS/1.0\r\n" + strings.Repeat("a:\r\n", 20000) + "\r\n"
	return []natsScript{
		{NATSHuge, "MSG SUB 2147483647\r\nx", "x"},
		{"a message of a negative size", "MSG SUB -1\r\n\r\n", ""},
		{NATSHugeHeaders, "HMSG SUB 2147483647 2147483647\r\nNATS/1.0\r\n", "a:b\r\n"},
		{"headers of a negative size", "HMSG SUB -5 5\r\nhello\r\n", ""},
		{"a line that does not end", "MSG ", "x"},
		{"an -ERR that does not end", "-ERR 'Permissions Violation for ", "x"},
		{"endless PING", "", "PING\r\n"},
		{"endless INFO", "", fmt.Sprintf(natsInfo, `,"connect_urls":["127.0.0.2:4222"]`)},
		{"endless -ERR", "", "-ERR 'Permissions Violation for Publish to \"x\"'\r\n"},
		{"endless messages that nobody asked for", "", "MSG SUB 100000\r\n" + strings.Repeat("x", 100000) + "\r\n"},
		{"endless messages of nothing but headers", "", fmt.Sprintf("HMSG SUB %d %[1]d\r\n%s\r\n", len(headers), headers)},
	}
}

// NATSAttacks returns the names of all attacks of NATS.
func NATSAttacks() []string {
	all := []string{
		NATSSilence, NATSDrip, NATSManyServers, natsNoPayload, natsSilenceInTLS, natsSilenceConnect, natsNoAnswer, NATSHugeAnswer,
	}
	for _, script := range append(natsGreetings(), natsMessages()...) {
		all = append(all, script.name)
	}
	return all
}

// NATSServer is a NATS server that attacks its clients.
type NATSServer struct {
	attack            string
	greeting, message *natsScript // if the attack is one
	accepted          atomic.Int64
}

// NewNATSServer returns a server with one of NATSAttacks. It behaves like a server until a
// client sends what the attack concerns, and accepts every credential.
func NewNATSServer(attack string) *NATSServer {
	if !slices.Contains(NATSAttacks(), attack) {
		panic("hostile: unknown attack " + attack)
	}
	of := func(scripts []natsScript) *natsScript {
		i := slices.IndexFunc(scripts, func(s natsScript) bool { return s.name == attack })
		if i < 0 {
			return nil
		}
		return &scripts[i]
	}
	return &NATSServer{attack: attack, greeting: of(natsGreetings()), message: of(natsMessages())}
}

// Accepted returns the number of accepted connections.
func (s *NATSServer) Accepted() int { return int(s.accepted.Load()) }

// Serve serves a connection until the attack or the client ends it.
func (s *NATSServer) Serve(c net.Conn) {
	s.accepted.Add(1)
	if !s.greet(c) {
		return
	}
	numbers := map[string]string{} // of subscriptions, by the start of their subject
	lines := bufio.NewReader(c)
	for {
		line, err := lines.ReadString('\n')
		if err != nil {
			return
		}
		fields := strings.Fields(line)
		if len(fields) == 0 {
			return
		}
		switch strings.ToUpper(fields[0]) {
		case "PING":
			if s.attack == natsSilenceConnect {
				io.Copy(io.Discard, lines)
				return
			}
			io.WriteString(c, "PONG\r\n")
		case "SUB": // subject and number; clients here use no queue group
			if len(fields) != 3 {
				return
			}
			start, _, _ := strings.Cut(fields[1], "*")
			numbers[start] = fields[2]
			if s.message != nil {
				go s.message.play(c, start+"1 "+fields[2])
			}
		case "PUB", "HPUB":
			size, _ := strconv.Atoi(fields[len(fields)-1])
			if _, err := io.CopyN(io.Discard, lines, int64(size)+2); err != nil {
				return
			}
			if s.attack == NATSHugeAnswer {
				for start, number := range numbers {
					if len(fields) > 3 && strings.HasPrefix(fields[2], start) {
						block := bytes.Repeat([]byte("{},"), 1<<20)
						fmt.Fprintf(c, "MSG %s %s %d\r\n", fields[2], number, 20*len(block))
						for range 20 {
							c.Write(block)
						}
						io.WriteString(c, "\r\n")
					}
				}
			}
		}
	}
}

// greet sends INFO, or attacks in its place. It returns false if the connection has ended.
func (s *NATSServer) greet(c net.Conn) bool {
	if s.greeting != nil {
		s.greeting.play(c, "")
		return false
	}
	switch s.attack {
	case NATSSilence:
		io.Copy(io.Discard, c)
		return false
	case NATSDrip:
		for _, b := range []byte(natsInfo) {
			if _, err := c.Write([]byte{b}); err != nil {
				break
			}
			time.Sleep(time.Second)
		}
		return false
	case natsNoPayload:
		io.WriteString(c, `INFO {"server_id":"x","version":"2.12.0","headers":true,"max_payload":-1}`+"\r\n")
		return true
	case NATSManyServers:
		_, port, _ := net.SplitHostPort(c.LocalAddr().String())
		var urls []string
		for i := range 3000 {
			urls = append(urls, fmt.Sprintf(`"127.0.%d.%d:%s"`, i/250, i%250+2, port))
		}
		fmt.Fprintf(c, natsInfo, `,"connect_urls":[`+strings.Join(urls, ",")+`]`)
		return false
	case natsSilenceInTLS:
		fmt.Fprintf(c, natsInfo, `,"tls_required":true`)
		io.Copy(io.Discard, c)
		return false
	}
	fmt.Fprintf(c, natsInfo, "")
	return true
}

// play sends the script, with subscription in place of SUB.
func (s *natsScript) play(c net.Conn, subscription string) {
	io.WriteString(c, strings.ReplaceAll(s.head, "SUB", subscription))
	if s.repeat != "" {
		endlessly(c, []byte(strings.ReplaceAll(s.repeat, "SUB", subscription)))
	}
}
