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

// The attacks of NATS.
const (
	NATSHTTP           = "an answer in HTTP"
	NATSTLS            = "a TLS alert"
	NATSGarbage        = "bytes without a line end"
	NATSSilence        = "silence before INFO"
	NATSDrip           = "INFO by one byte a second"
	NATSEndlessInfo    = "an INFO that does not end"
	NATSNoPayload      = "an INFO that allows no payload"
	NATSManyServers    = "an INFO that names 3,000 servers, and a closed connection"
	NATSSilenceInTLS   = "silence in the TLS handshake"
	NATSSilenceConnect = "silence after CONNECT"
	NATSHungUp         = "connections that end at once"
	NATSHuge           = "a message of 2^31-1 bytes"
	NATSNegative       = "a message of a negative size"
	NATSHugeHeaders    = "headers of 2^31-1 bytes"
	NATSNegativeHeader = "headers of a negative size"
	NATSEndlessLine    = "a line that does not end"
	NATSEndlessError   = "an -ERR that does not end"
	NATSPings          = "endless PING"
	NATSInfos          = "endless INFO"
	NATSErrors         = "endless -ERR"
	NATSMessages       = "endless messages that nobody asked for"
	NATSManyHeaders    = "endless messages of nothing but headers"
	NATSNoAnswer       = "silence after what is published"
	NATSHugeAnswer     = "answers of 60 MiB of JSON"
)

// NATSAttacks returns the names of all attacks of NATS.
func NATSAttacks() []string {
	return []string{
		NATSHTTP, NATSTLS, NATSGarbage, NATSSilence, NATSDrip, NATSEndlessInfo, NATSNoPayload, NATSManyServers, NATSSilenceInTLS,
		NATSSilenceConnect, NATSHungUp, NATSHuge, NATSNegative, NATSHugeHeaders, NATSNegativeHeader, NATSEndlessLine, NATSEndlessError,
		NATSPings, NATSInfos, NATSErrors, NATSMessages, NATSManyHeaders, NATSNoAnswer, NATSHugeAnswer,
	}
}

// NATSServer is a NATS server that attacks its clients.
type NATSServer struct {
	attack   string
	address  net.Addr
	accepted atomic.Int64
}

// Accepted returns the number of accepted connections.
func (s *NATSServer) Accepted() int { return int(s.accepted.Load()) }

// NATS serves l with one of NATSAttacks until l is closed. It behaves like a server until a
// client sends what the attack concerns, and accepts every credential. The connections end
// when their clients close them.
func NATS(l net.Listener, attack string) *NATSServer {
	if !slices.Contains(NATSAttacks(), attack) {
		panic("hostile: unknown attack " + attack)
	}
	s := &NATSServer{attack: attack, address: l.Addr()}
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			s.accepted.Add(1)
			go func() {
				defer c.Close()
				s.serve(c)
			}()
		}
	}()
	return s
}

const natsInfo = `INFO {"server_id":"x","version":"2.12.0","max_payload":1048576,"headers":true,"jetstream":true,"proto":1%s}` + "\r\n"

// greet attacks in place of INFO. It returns false if the connection has ended.
func (s *NATSServer) greet(c net.Conn) bool {
	more := ""
	switch s.attack {
	case NATSHTTP:
		io.WriteString(c, "HTTP/1.1 400 Bad Request\r\nContent-Length: 2000000000\r\n\r\n")
		endless(c, []byte("<p>"))
		return false
	case NATSTLS:
		c.Write([]byte{0x15, 3, 3, 0, 2, 2, 10})
		return false
	case NATSGarbage:
		endless(c, []byte{0})
		return false
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
	case NATSEndlessInfo:
		io.WriteString(c, `INFO {"max_payload":1048576,"server_id":"`)
		endless(c, []byte("x"))
		return false
	case NATSNoPayload:
		io.WriteString(c, `INFO {"server_id":"x","version":"2.12.0","headers":true,"max_payload":-1}`+"\r\n")
		return true
	case NATSManyServers:
		_, port, _ := net.SplitHostPort(s.address.String())
		var urls []string
		for i := range 3000 {
			urls = append(urls, fmt.Sprintf(`"127.0.%d.%d:%s"`, i/250, i%250+2, port))
		}
		fmt.Fprintf(c, natsInfo, `,"connect_urls":[`+strings.Join(urls, ",")+`]`)
		return false
	case NATSSilenceInTLS:
		more = `,"tls_required":true`
	case NATSHungUp:
		return false
	}
	fmt.Fprintf(c, natsInfo, more)
	if s.attack == NATSSilenceInTLS {
		io.Copy(io.Discard, c)
		return false
	}
	return true
}

// serve reads from a client until the connection ends.
func (s *NATSServer) serve(c net.Conn) {
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
			if s.attack == NATSSilenceConnect {
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
			go s.disturb(c, start+"1", fields[2])
		case "PUB", "HPUB":
			size, _ := strconv.Atoi(fields[len(fields)-1])
			if _, err := io.CopyN(io.Discard, lines, int64(size)+2); err != nil {
				return
			}
			if s.attack == NATSHugeAnswer {
				for start, number := range numbers {
					if len(fields) > 3 && strings.HasPrefix(fields[2], start) {
						body := bytes.Repeat([]byte("{},"), 20<<20)
						fmt.Fprintf(c, "MSG %s %s %d\r\n%s\r\n", fields[2], number, len(body), body)
					}
				}
			}
		}
	}
}

// disturb attacks a client that has subscribed to subject.
func (s *NATSServer) disturb(c net.Conn, subject, number string) {
	switch s.attack {
	case NATSHuge:
		fmt.Fprintf(c, "MSG %s %s 2147483647\r\nx", subject, number)
		endless(c, []byte("x"))
	case NATSNegative:
		fmt.Fprintf(c, "MSG %s %s -1\r\n\r\n", subject, number)
	case NATSHugeHeaders:
		fmt.Fprintf(c, "HMSG %s %s 2147483647 2147483647\r\nNATS/1.0\r\n", subject, number)
		endless(c, []byte("a:b\r\n"))
	case NATSNegativeHeader:
		fmt.Fprintf(c, "HMSG %s %s -5 5\r\nhello\r\n", subject, number)
	case NATSEndlessLine:
		io.WriteString(c, "MSG ")
		endless(c, []byte("x"))
	case NATSEndlessError:
		io.WriteString(c, "-ERR 'Permissions Violation for ")
		endless(c, []byte("x"))
	case NATSPings:
		endless(c, []byte("PING\r\n"))
	case NATSInfos:
		endless(c, fmt.Appendf(nil, natsInfo, `,"connect_urls":["127.0.0.2:4222"]`))
	case NATSErrors:
		endless(c, []byte("-ERR 'Permissions Violation for Publish to \"x\"'\r\n"))
	case NATSMessages:
		endless(c, fmt.Appendf(nil, "MSG %s %s 100000\r\n%s\r\n", subject, number, bytes.Repeat([]byte("x"), 100000)))
	case NATSManyHeaders:
		headers := "NATS/1.0\r\n" + strings.Repeat("a:\r\n", 20000) + "\r\n"
		endless(c, fmt.Appendf(nil, "HMSG %s %s %d %d\r\n%s\r\n", subject, number, len(headers), len(headers), headers))
	}
}

// endless writes a text until the connection ends.
func endless(c net.Conn, text []byte) {
	block := bytes.Repeat(text, max(1, 64<<10/len(text)))
	for {
		if _, err := c.Write(block); err != nil {
			return
		}
	}
}
