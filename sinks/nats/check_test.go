package nats

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"net"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go/jetstream"

	"ndrbridge/internal/finding"
	"ndrbridge/sinks"
	"ndrbridge/test/assert"
	"ndrbridge/test/findingtest"
	"ndrbridge/test/loopback"
	"ndrbridge/test/sinktest"
)

func TestCheck(t *testing.T) {
	certificate, pool := sinktest.Certificate(t)
	secured := func(o *server.Options) {
		o.TLS, o.TLSConfig = true, &tls.Config{Certificates: []tls.Certificate{certificate}}
	}
	guarded := func(publish *server.SubjectPermission) func(*server.Options) {
		return func(o *server.Options) {
			o.Users = []*server.User{{Username: username, Password: password, Permissions: &server.Permissions{Publish: publish}}}
		}
	}
	signedIn := func(o *Options) { o.Username, o.Password = username, password }
	ndr := jetstream.StreamConfig{Name: "NDR", Subjects: []string{"ndr.*"}}
	with := func(change func(*jetstream.StreamConfig)) *jetstream.StreamConfig {
		config := ndr
		change(&config)
		return &config
	}
	const step = "stream NDR"
	for name, test := range map[string]struct {
		server func(*server.Options)
		stream *jetstream.StreamConfig // nil: there is none
		change func(*Options)
		trial  sinks.Trial
		within time.Duration // 0: as long as it takes
		want   findingtest.Row
	}{
		"a stream with the subjects": {
			stream: &ndr,
			want:   findingtest.Row{Step: step, Result: finding.OK, Detail: `its subjects are ["ndr.*"]`},
		},
		"a stream on one replica": {
			stream: &ndr,
			want:   findingtest.Row{Step: step, Result: finding.Remark, Detail: "one replica"},
		},
		"a stream in memory": {
			stream: with(func(c *jetstream.StreamConfig) { c.Storage = jetstream.MemoryStorage }),
			want:   findingtest.Row{Step: step, Result: finding.Remark, Detail: "kept in memory"},
		},
		"a stream with a short duplicate window": {
			stream: with(func(c *jetstream.StreamConfig) { c.Duplicates = time.Second }),
			want:   findingtest.Row{Step: step, Result: finding.Warning, Detail: "twice", Advice: "duplicate window"},
		},
		"no stream": {
			want: findingtest.Row{Step: step, Result: finding.Failed, Detail: "does not exist", Advice: "create_stream"},
		},
		"a stream that the first event creates": {
			change: func(o *Options) { o.CreateStream = true },
			want:   findingtest.Row{Step: step, Result: finding.Remark, Detail: "the first event creates it"},
		},
		"a stream without the subject": {
			stream: with(func(c *jetstream.StreamConfig) { c.Subjects = []string{"other.*"} }),
			want:   findingtest.Row{Step: step, Result: finding.Failed, Detail: "do not include ndr.detections", Advice: "check subject"},
		},
		"a stream with the subjects of the events, but not all of the template": {
			stream: with(func(c *jetstream.StreamConfig) { c.Subjects = []string{"ndr.detections"} }),
			want:   findingtest.Row{Step: step, Result: finding.OK, Detail: "ndr.detections"},
		},
		"the same stream if the sink may create it": {
			stream: with(func(c *jetstream.StreamConfig) { c.Subjects = []string{"ndr.detections"} }),
			change: func(o *Options) { o.CreateStream = true },
			want:   findingtest.Row{Step: step, Result: finding.Failed, Detail: "but not ndr.*", Advice: "check subject"},
		},
		"a stream without the subjects of filtered events": {
			stream: with(func(c *jetstream.StreamConfig) { c.Subjects = []string{"other.*"} }),
			trial:  sinks.Trial{Possible: sinktest.Events(1, 1, 10)},
			want:   findingtest.Row{Step: step, Result: finding.Warning, Detail: "match may filter out", Advice: "check subject"},
		},
		"a stream for an intake without a consumer": {
			stream: &ndr,
			trial:  sinks.Trial{Reads: "ndr.tickets", Durable: "ndrbridge"},
			want:   findingtest.Row{Step: step, Result: finding.Remark, Detail: "the consumer ndrbridge"},
		},
		"no JetStream": {
			server: func(o *server.Options) { o.JetStream = false },
			want:   findingtest.Row{Step: step, Result: finding.Failed, Detail: "JetStream does not answer", Advice: "enable it"},
		},
		"core NATS": {
			change: func(o *Options) { o.Stream = "" },
			want:   findingtest.Row{Step: "stream", Result: finding.Remark, Detail: "core NATS"},
		},
		"a wrong password": {
			server: guarded(nil),
			change: func(o *Options) { o.Username, o.Password = username, "wrong" },
			want:   findingtest.Row{Step: "sign-in", Result: finding.Failed, Detail: "Authorization Violation", Advice: "password_file"},
		},
		"a password in plain text": {
			server: guarded(nil),
			stream: &ndr,
			change: signedIn,
			want:   findingtest.Row{Step: "sign-in", Result: finding.Warning, Detail: "in plain text", Advice: "tls://"},
		},
		"a user who may publish": {
			server: guarded(&server.SubjectPermission{Allow: []string{"ndr.>", "$JS.API.>", "$SYS.REQ.USER.INFO"}}),
			change: func(o *Options) { signedIn(o); o.CreateStream = true },
			want:   findingtest.Row{Step: "permissions", Result: finding.OK, Detail: "may publish what the sink sends"},
		},
		"a user who may not publish there": {
			server: guarded(&server.SubjectPermission{Allow: []string{"other.>", "$JS.API.>", "$SYS.REQ.USER.INFO"}}),
			change: func(o *Options) { signedIn(o); o.CreateStream = true },
			want:   findingtest.Row{Step: "permissions", Result: finding.Failed, Detail: "may not publish to ndr.detections", Advice: "allow the user to publish"},
		},
		"a user with a deny rule": {
			server: guarded(&server.SubjectPermission{Deny: []string{"ndr.>"}}),
			change: func(o *Options) { signedIn(o); o.CreateStream = true },
			want:   findingtest.Row{Step: "permissions", Result: finding.Failed, Detail: "may not publish to ndr.detections", Advice: "allow the user to publish"},
		},
		"a server that is down": {
			change: func(o *Options) { o.URL = "nats://" + loopback.Closed(t) },
			want:   findingtest.Row{Step: "connect", Result: finding.Failed, Detail: "refuses connections", Advice: "url"},
		},
		"a server that is down beside another": {
			stream: &ndr,
			change: func(o *Options) { o.URL += ",nats://" + loopback.Closed(t) },
			want:   findingtest.Row{Step: "connect", Result: finding.Warning, Detail: "refuses connections", Advice: "url"},
		},
		"a server that is silent before another": {
			stream: &ndr,
			change: func(o *Options) { o.URL = "nats://" + loopback.Silent(t) + "," + o.URL },
			within: 2 * time.Second,
			want:   findingtest.Row{Step: "sign-in", Result: finding.Warning, Detail: "the server does not answer", Advice: "port for clients"},
		},
		"a port for TLS": {
			change: func(o *Options) {
				config := &tls.Config{Certificates: []tls.Certificate{certificate}}
				o.URL = "nats://" + loopback.Serve(t, func(c net.Conn) { _ = tls.Server(c, config).Handshake() })
			},
			within: 3 * time.Second,
			want:   findingtest.Row{Step: "sign-in", Result: finding.Failed, Detail: "does not answer", Advice: "port for clients"},
		},
		"a server with an unknown name": {
			change: func(o *Options) { o.URL = "nats://no-such-host.invalid" },
			want:   findingtest.Row{Step: "server no-such-host.invalid:4222 address", Result: finding.Failed, Detail: "no-such-host.invalid", Advice: "name servers"},
		},
		"a certificate that is trusted": {
			server: secured,
			change: func(o *Options) { o.TLS = &tls.Config{RootCAs: pool} },
			want:   findingtest.Row{Step: "tls", Result: finding.OK, Detail: "is trusted"},
		},
		"a certificate of an unknown authority": {
			server: secured,
			change: func(o *Options) { o.TLS = &tls.Config{RootCAs: x509.NewCertPool()} },
			want:   findingtest.Row{Step: "tls", Result: finding.Failed, Detail: "self-signed", Advice: "tls.ca_file"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := loopback.NATS(t, test.server)
			if test.stream != nil {
				makeStream(t, s, *test.stream)
			}
			o := Options{URL: s.ClientURL(), Stream: "NDR", Subject: "ndr.{stream}"}
			if test.change != nil {
				test.change(&o)
			}
			if test.trial.Possible == nil {
				test.trial.Sure = sinktest.Events(1, 1, 10)
			}
			test.trial.Now, test.trial.RetryMax = time.Now, time.Minute
			ctx := t.Context()
			if test.within > 0 {
				var cancel context.CancelFunc
				ctx, cancel = context.WithTimeout(ctx, test.within)
				defer cancel()
			}
			findingtest.Expect(t, open(t, o).Check(ctx, test.trial), test.want)
			is, err := s.Jsz(&server.JSzOptions{})
			assert.True(t, err != nil || test.stream != nil || is.Streams <= 0, "a stream was created")
		})
	}
}
