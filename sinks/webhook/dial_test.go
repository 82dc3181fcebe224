package webhook_test

import (
	"context"
	"encoding/binary"
	"net"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"ndrbridge/internal/failure"
	"ndrbridge/sinks/webhook"
	"ndrbridge/test/sinktest"
	"ndrbridge/transform"
)

// resolve has every name that the test looks up lead to an address.
func resolve(t *testing.T, to netip.Addr) {
	server, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		query := make([]byte, 512)
		for {
			n, from, err := server.ReadFrom(query)
			if err != nil {
				return
			}
			_, _ = server.WriteTo(answerQuery(query[:n], to), from)
		}
	}()
	before := net.DefaultResolver
	net.DefaultResolver = &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "udp", server.LocalAddr().String())
	}}
	t.Cleanup(func() {
		net.DefaultResolver = before
		server.Close()
		<-done
	})
}

// answerQuery answers a DNS query (RFC 1035, section 4) with the address if the type
// matches, and otherwise with no record.
func answerQuery(query []byte, to netip.Addr) []byte {
	const header, ipv4, ipv6 = 12, 1, 28
	question := query[header:]
	question = question[:slices.Index(question, 0)+1+4]
	kind := binary.BigEndian.Uint16(question[len(question)-4:])
	message := append([]byte{query[0], query[1], 0x81, 0x80, 0, 1, 0, 0, 0, 0, 0, 0}, question...)
	if kind == ipv4 && to.Is4() || kind == ipv6 && !to.Is4() {
		message[7] = 1
		message = append(message, 0xc0, header)
		message = binary.BigEndian.AppendUint16(message, kind)
		message = append(message, 0, 1, 0, 0, 0, 60, 0, byte(to.BitLen()/8))
		message = append(message, to.AsSlice()...)
	}
	return message
}

func TestLinkLocalAndMetadataAddressesAreNotConnectedTo(t *testing.T) {
	for _, test := range []struct {
		name, host string
		leads      string // what the host's name leads to
	}{
		{"where clouds keep credentials", "169.254.169.254", ""},
		{"another link-local address", "169.254.1.1:8080", ""},
		{"an IPv4 address within IPv6", "[::ffff:169.254.169.254]", ""},
		{"the same in another spelling", "[::ffff:a9fe:a9fe]:80", ""},
		{"a link-local address of IPv6", "[fe80::1%25lo]", ""},
		{"where AWS keeps credentials in IPv6", "[fd00:ec2::254]", ""},
		{"where Google does", "[fd20:ce::254]", ""},
		{"where Alibaba does", "100.100.100.200", ""},
		{"a name that leads to one", "hooks.example", "169.254.169.254"},
		{"a name that leads to one of IPv6", "hooks.example:8443", "fd00:ec2::254"},
		{"a name that leads to one of IPv4 within IPv6", "hooks.example", "::ffff:169.254.169.254"},
	} {
		for _, scheme := range []string{"http", "https"} {
			t.Run(test.name+" by "+scheme, func(t *testing.T) {
				if test.leads != "" {
					resolve(t, netip.MustParseAddr(test.leads))
				}
				s := open(t, webhook.Options{URL: scheme + "://" + test.host + "/latest/s3cret", Mode: transform.Batch})
				err := s.Send(t.Context(), sinktest.Events(1, 1, 0))
				class, _ := failure.ClassOf(err)
				if class != failure.Halted || !strings.Contains(err.Error(), "allow_link_local") || strings.Contains(err.Error(), "s3cret") {
					t.Errorf("class %s: %v", class, err)
				}
			})
		}
	}
	t.Run("the proxy's address is checked instead of the target's", func(t *testing.T) {
		proxy := &url.URL{Scheme: "http", Host: "169.254.169.254:3128", User: url.UserPassword("u", "s3cret")}
		err := open(t, webhook.Options{URL: "https://hooks.example", Proxy: proxy, Mode: transform.Batch}).Send(t.Context(), sinktest.Events(1, 1, 0))
		if class, _ := failure.ClassOf(err); class != failure.Halted || !strings.Contains(err.Error(), "allow_link_local") {
			t.Errorf("class %s: %v", class, err)
		}
	})
	t.Run("they are where that is allowed", func(t *testing.T) {
		// Whether the connection succeeds does not matter: it is attempted.
		s := open(t, webhook.Options{URL: "http://169.254.1.1:9", AllowLinkLocal: true, Mode: transform.Batch, Timeout: 50 * time.Millisecond})
		err := s.Send(t.Context(), sinktest.Events(1, 1, 0))
		if err != nil && strings.Contains(err.Error(), "allow_link_local") {
			t.Error(err)
		}
	})
	t.Run("a name that leads elsewhere is connected to", func(t *testing.T) {
		r := newReceiver(t).start()
		_, port, _ := net.SplitHostPort(r.server.Listener.Addr().String())
		resolve(t, netip.MustParseAddr("127.0.0.1"))
		if err := open(t, webhook.Options{URL: "http://hooks.example:" + port}).Send(t.Context(), sinktest.Events(1, 1, 0)); err != nil {
			t.Error(err)
		}
	})
}
