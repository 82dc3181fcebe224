package siem_test

import (
	"bufio"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"testing"

	"ndrbridge/configs"
	"ndrbridge/test/loopback"
	"ndrbridge/test/syslogread"
)

// framing is how a receiver reads messages from a connection.
type framing func(*bufio.Reader) ([]byte, error)

// syslogServer returns the stand-in of a receiver of syslog, over TLS unless the recipe has
// network tcp. It reads one connection to its end, and fails the test for anything but
// messages of RFC 5424 of at most maxBytes.
func syslogServer(read framing, maxBytes int) func(*testing.T, *recipe) *received {
	return func(t *testing.T, r *recipe) *received {
		got := &received{ended: make(chan struct{})}
		first := make(chan bool, 1)
		first <- true
		r.Syslog.Address = loopback.Serve(t, func(c net.Conn) {
			if r.Syslog.Network == configs.SyslogTLS {
				c = tls.Server(c, &tls.Config{Certificates: []tls.Certificate{r.certificate}})
				if err := c.(*tls.Conn).HandshakeContext(t.Context()); err != nil {
					return // the sink trusts another authority
				}
			}
			select {
			case <-first:
			default:
				t.Error("a second connection")
				return
			}
			defer close(got.ended)
			for from := bufio.NewReader(c); ; {
				text, err := read(from)
				if errors.Is(err, io.EOF) && len(text) == 0 {
					return
				}
				if err == nil && len(text) > maxBytes {
					err = fmt.Errorf("a message of %d bytes", len(text))
				}
				if err == nil {
					err = got.addSyslog(text)
				}
				if err != nil {
					t.Error(err)
					return
				}
			}
		})
		if r.Syslog.Network == configs.SyslogTLS {
			r.Syslog.TLS = &configs.TLS{CAFile: r.authority}
		}
		return got
	}
}

// addSyslog adds a message, which must have what the bridge promises: a time, the name of
// the host, its own name, the event's action, and structured data.
func (r *received) addSyslog(text []byte) error {
	m, err := syslogread.Parse(text)
	if err != nil {
		return err
	}
	if m.Timestamp == nil || m.Hostname == nil || m.Appname == nil || *m.Appname != "ndrbridge" || m.MsgID == nil || m.StructuredData == nil || m.Message == nil {
		return fmt.Errorf("a message without a field: %.300q", text)
	}
	r.add(strings.Replace(string(text), " "+*m.Hostname+" ", " bridge.example ", 1), *m.Message)
	return nil
}
