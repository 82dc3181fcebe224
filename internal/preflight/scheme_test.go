package preflight_test

import (
	"crypto/tls"
	"encoding/binary"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/twmb/franz-go/pkg/kfake"

	"ndrbridge/configs"
	"ndrbridge/internal/finding"
	"ndrbridge/internal/preflight"
	standin "ndrbridge/test/appliance"
	"ndrbridge/test/findingtest"
	"ndrbridge/test/loopback"
	"ndrbridge/test/require"
	"ndrbridge/test/sinktest"
)

// kafkaPort listens in front of a broker's plain port, and closes a connection whose first
// request is above 100 MiB, as Kafka does. A TLS handshake reads as one.
func kafkaPort(t *testing.T, broker string) string {
	t.Helper()
	return loopback.Serve(t, func(c net.Conn) {
		size := make([]byte, 4)
		if _, err := io.ReadFull(c, size); err != nil || binary.BigEndian.Uint32(size) > 100<<20 {
			return
		}
		to, err := net.Dial("tcp", broker)
		if err != nil {
			return
		}
		defer to.Close()
		_, _ = to.Write(size)
		go func() {
			defer to.Close()
			_, _ = io.Copy(to, c)
		}()
		_, _ = io.Copy(c, to)
	})
}

func TestCheckReportsThatABrokersPortSpeaksAnotherProtocol(t *testing.T) {
	t.Parallel()
	appliance := httptest.NewServer(standin.New(standin.Options{Seed: 1}))
	t.Cleanup(appliance.Close)
	certificate, _ := sinktest.Certificate(t)
	secured := &tls.Config{Certificates: []tls.Certificate{certificate}}
	web := func(start func(*httptest.Server)) string {
		s := httptest.NewUnstartedServer(http.NotFoundHandler())
		s.Config.ErrorLog = log.New(io.Discard, "", 0)
		start(s)
		t.Cleanup(s.Close)
		return s.Listener.Addr().String()
	}
	kafka := func(options ...kfake.Opt) string {
		c, err := kfake.NewCluster(append(options, kfake.NumBrokers(1), kfake.SeedTopics(1, "ndr.tickets"))...)
		require.NoError(t, err)
		t.Cleanup(c.Close)
		return c.ListenAddrs()[0]
	}
	nats := func(change func(*server.Options)) string { return loopback.NATS(t, change).Addr().String() }
	var (
		plainWeb, secureWeb     = web((*httptest.Server).Start), web((*httptest.Server).StartTLS)
		plainKafka, secureKafka = kafka(), kafka(kfake.TLS(secured))
		plainNATS               = nats(nil)
		secureNATS              = nats(func(o *server.Options) { o.TLS, o.TLSConfig = true, secured })
		handshakeFirst          = nats(func(o *server.Options) { o.TLS, o.TLSHandshakeFirst, o.TLSConfig = true, true, secured })
		inKafka, inKafkaTLS     = "kafka: {topic: ndr.tickets, brokers: [\"ADDRESS\"]}", "kafka: {topic: ndr.tickets, tls: {insecure_skip_verify: true}, brokers: [\"ADDRESS\"]}"
		inNATS, inNATSTLS       = "nats: {stream: NDR, subject: ndr.tickets, url: \"nats://ADDRESS\"}", "nats: {stream: NDR, subject: ndr.tickets, url: \"tls://ADDRESS\"}"
		inNATSTLSKey            = "nats: {stream: NDR, subject: ndr.tickets, url: \"nats://ADDRESS\", tls: {insecure_skip_verify: true}}"
	)
	failed := func(step, detail, advice string) findingtest.Row {
		return findingtest.Row{Step: step, Result: finding.Failed, Detail: detail, Advice: advice}
	}
	for name, test := range map[string]struct {
		peer, address string
		want          findingtest.Row
	}{
		"Kafka in plain text to a port for TLS":             {inKafka, secureKafka, failed("sign-in", "expects TLS", "set tls")},
		"Kafka in plain text to a port for HTTPS":           {inKafka, secureWeb, failed("sign-in", "expects TLS", "in brokers")},
		"Kafka in plain text to a port for HTTP":            {inKafka, plainWeb, failed("sign-in", "does not answer", "a Kafka broker")},
		"Kafka in plain text to NATS":                       {inKafka, plainNATS, failed("sign-in", "not Kafka's protocol", "Check brokers")},
		"Kafka in TLS to a plain port":                      {inKafkaTLS, plainKafka, failed("sign-in", "does not answer", "what tls and sasl say")},
		"Kafka in TLS to a plain port that hangs up":        {inKafkaTLS, kafkaPort(t, plainKafka), failed("sign-in", "the connection broke", "tls")},
		"Kafka in TLS to a port for HTTP":                   {inKafkaTLS, plainWeb, failed("tls", "speaks HTTP instead of TLS", "port")},
		"Kafka in TLS to NATS":                              {inKafkaTLS, plainNATS, failed("tls", "does not speak TLS", "port")},
		"NATS in plain text to a port for TLS":              {inNATS, secureNATS, failed("tls", "self-signed", "tls.ca_file")}, // the server has both sides change to TLS
		"NATS in plain text to a port that begins with TLS": {inNATS, handshakeFirst, failed("sign-in", "first line", "handshake_first")},
		"NATS in plain text to a port for HTTP":             {inNATS, plainWeb, failed("sign-in", "does not answer", "port for clients")},
		"NATS in plain text to a port for HTTPS":            {inNATS, secureWeb, failed("sign-in", "does not answer", "port for clients")},
		"NATS in TLS to a plain port":                       {inNATSTLS, plainNATS, failed("sign-in", "secure connection not available", "use nats://")},
		"NATS with tls to a plain port":                     {inNATSTLSKey, plainNATS, failed("sign-in", "secure connection not available", "remove tls")},
		"NATS in TLS to a port that begins with TLS":        {inNATSTLS, handshakeFirst, failed("sign-in", "first line", "handshake_first")},
		"NATS in TLS to a port for HTTP":                    {inNATSTLS, plainWeb, failed("sign-in", "does not answer", "port for clients")},
		"NATS in TLS to a port for HTTPS":                   {inNATSTLS, secureWeb, failed("sign-in", "does not answer", "port for clients")},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			peer := strings.Replace(test.peer, "ADDRESS", test.address, 1)
			yaml := "state: " + t.TempDir() + "/state.db\nappliances: [{name: hq, url: \"" + appliance.URL + "\", api_key: " + standin.DefaultAPIKey + "}]\n" +
				"sinks: [{name: bus, " + peer + "}]\ntickets: {enabled: true, " + peer + "}\n"
			config := require.Value(configs.Parse("ndrbridge.yaml", []byte(yaml), nil))(t)
			all := preflight.Check(t.Context(), config, preflight.Options{Timeout: 5 * time.Second, Now: time.Now})
			for _, target := range []string{"sink bus", "tickets from "} {
				findingtest.Expect(t, slices.DeleteFunc(slices.Clone(all), func(f finding.Finding) bool { return !strings.HasPrefix(f.Target, target) }), test.want)
			}
		})
	}
}
