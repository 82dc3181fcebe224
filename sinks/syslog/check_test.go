package syslog

import (
	"crypto/tls"
	"net"
	"strings"
	"testing"
	"time"

	"ndrbridge/internal/finding"
	"ndrbridge/sinks"
	"ndrbridge/test/assert"
	"ndrbridge/test/certificate"
	"ndrbridge/test/loopback"
	"ndrbridge/test/require"
	"ndrbridge/test/sinktest"
)

func TestCheckExplainsEachStep(t *testing.T) {
	server, pool := sinktest.Certificate(t)
	named := certificate.New(t, "siem.example", time.Now().Add(time.Hour), &server)
	overTLS := func(c tls.Certificate, auth tls.ClientAuthType) string {
		return newReceiver(t, octetCounting, &tls.Config{Certificates: []tls.Certificate{c}, ClientAuth: auth}).addr()
	}
	plain := newReceiver(t, octetCounting, nil)
	datagrams := newDatagramReceiver(t)
	closing := loopback.Serve(t, func(net.Conn) {})
	trusted := &tls.Config{RootCAs: pool}
	for _, test := range []struct {
		name    string
		options Options
		want    []string // each a step with its result, and part of the detail or advice
	}{
		{"tls", Options{Address: overTLS(server, tls.NoClientCert), TLS: trusted}, []string{"connect ok connected", "certificate warning self-signed", "tls ok trusted", "delivery not tried no answer"}},
		{"an unknown authority", Options{Address: overTLS(server, tls.NoClientCert)}, []string{"connect ok connected", "certificate warning self-signed", "tls failed ca_file"}},
		{"another name", Options{Address: overTLS(named, tls.NoClientCert), TLS: trusted}, []string{"connect ok connected", "certificate warning siem.example", "tls failed siem.example"}},
		{"no client certificate", Options{Address: overTLS(server, tls.RequireAnyClientCert), TLS: trusted}, []string{"connect ok connected", "certificate warning self-signed", "tls ok trusted", "delivery failed tls.cert_file"}},
		{"tcp", Options{Address: plain.addr(), Network: networkTCP}, []string{"connect ok connected", "tls warning plain TCP", "delivery not tried no answer"}},
		{"a server that closes at once", Options{Address: closing, Network: networkTCP}, []string{"connect ok connected", "delivery failed ended at once"}},
		{"nobody listens", Options{Address: loopback.Closed(t)}, []string{"connect failed refuses connections"}},
		{"an unknown name", Options{Address: "siem.invalid:6514"}, []string{"address failed siem.invalid"}},
		{"udp", Options{Address: datagrams.address, Network: networkUDP}, []string{"connect remark over UDP", "delivery not tried cannot be known"}},
		{"an unknown name over UDP", Options{Address: "siem.invalid:514", Network: networkUDP}, []string{"address failed siem.invalid"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			found := open(t, test.options).Check(t.Context(), sinks.Trial{Now: time.Now})
			require.Equal(t, len(found), len(test.want), found)
			for i, f := range found {
				begin := f.Step + " " + string(f.Result) + " "
				part, ok := strings.CutPrefix(test.want[i], begin)
				assert.True(t, ok && strings.Contains(f.Detail+" "+f.Advice, part), f, test.want)
				assert.True(t, f.Result != finding.Failed || f.Advice != "", f, "has no advice")
			}
		})
	}
	assert.Empty(t, append(plain.all(), datagrams.all()...), "messages of the check")
}
