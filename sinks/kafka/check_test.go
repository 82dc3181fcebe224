package kafka

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"

	"ndrbridge/internal/finding"
	"ndrbridge/internal/kafkaconn"
	"ndrbridge/sinks"
	"ndrbridge/test/assert"
	"ndrbridge/test/findingtest"
	"ndrbridge/test/loopback"
	"ndrbridge/test/require"
	"ndrbridge/test/sinktest"
)

func TestCheck(t *testing.T) {
	const password = "correct horse"
	certificate, pool := sinktest.Certificate(t)
	secured := kfake.TLS(&tls.Config{Certificates: []tls.Certificate{certificate}})
	ana := &kafkaconn.SASL{Mechanism: "plain", Username: "ana", Password: password}
	may := func(operations ...kmsg.ACLOperation) []kfake.Opt {
		var acls []kfake.ACL
		for _, operation := range operations {
			acls = append(acls, kfake.ACL{Resource: kmsg.ACLResourceTypeTopic, Name: "ndr.", Pattern: kmsg.ACLResourcePatternTypePrefixed, Operation: operation, Allow: true})
		}
		return []kfake.Opt{kfake.EnableSASL(), kfake.EnableACLs(), kfake.Superuser("PLAIN", "root", "root"), kfake.User("PLAIN", "ana", password, acls...)}
	}
	for name, test := range map[string]struct {
		cluster []kfake.Opt
		fault   *kfake.Fault
		change  func(*Options)
		trial   sinks.Trial
		within  time.Duration // 0: as long as it takes
		want    findingtest.Row
	}{
		"a topic that is there": {
			want: findingtest.Row{Step: "topic ndr.detections", Result: finding.OK, Detail: "3 partitions"},
		},
		"a missing topic": {
			change: func(o *Options) { o.Topic = "other.{stream}" },
			want:   findingtest.Row{Step: "topic other.detections", Result: finding.Failed, Detail: "does not exist", Advice: "create_topic"},
		},
		"a missing topic that only filtered events may need": {
			change: func(o *Options) { o.Topic = "other.{stream}" },
			trial:  sinks.Trial{Possible: sinktest.Events(1, 1, 10)},
			want:   findingtest.Row{Step: "topic other.detections", Result: finding.Warning, Detail: "match", Advice: "create_topic"},
		},
		"a topic that the first event creates": {
			change: func(o *Options) { o.Topic, o.CreateTopic = "other.{stream}", &CreateTopic{Partitions: 1} },
			want:   findingtest.Row{Step: "topic other.detections", Result: finding.Remark, Detail: "the first event creates it"},
		},
		"a topic that may not be created": {
			fault:  &kfake.Fault{Keys: []kmsg.Key{kmsg.CreateTopics}, Err: kerr.TopicAuthorizationFailed, Count: -1},
			change: func(o *Options) { o.Topic, o.CreateTopic = "other.{stream}", &CreateTopic{Partitions: 1} },
			want:   findingtest.Row{Step: "topic other.detections", Result: finding.Failed, Detail: "[29]", Advice: "Write and Describe"},
		},
		"a user who may write": {
			cluster: may(kmsg.ACLOperationDescribe, kmsg.ACLOperationWrite),
			change:  func(o *Options) { o.SASL = ana },
			want:    findingtest.Row{Step: "topic ndr.detections", Result: finding.OK, Detail: "3 partitions"},
		},
		"a user who may only describe": {
			cluster: may(kmsg.ACLOperationDescribe),
			change:  func(o *Options) { o.SASL = ana },
			want:    findingtest.Row{Step: "topic ndr.detections", Result: finding.Failed, Detail: "lacks the operation Write", Advice: "Write and Describe"},
		},
		"a user who may not read": {
			cluster: may(kmsg.ACLOperationDescribe, kmsg.ACLOperationWrite),
			change:  func(o *Options) { o.SASL = ana },
			trial:   sinks.Trial{Sure: sinktest.Events(1, 1, 10), Reads: "ndr"},
			want:    findingtest.Row{Step: "topic ndr.detections", Result: finding.Failed, Detail: "lacks the operation Read", Advice: "Read and Describe"},
		},
		"a password in plain text": {
			cluster: may(kmsg.ACLOperationDescribe, kmsg.ACLOperationWrite),
			change:  func(o *Options) { o.SASL = ana },
			want:    findingtest.Row{Step: "sign-in", Result: finding.Warning, Detail: "in plain text", Advice: "set tls"},
		},
		"a wrong password": {
			cluster: may(),
			change:  func(o *Options) { o.SASL = &kafkaconn.SASL{Mechanism: "plain", Username: "ana", Password: "wrong"} },
			want:    findingtest.Row{Step: "sign-in", Result: finding.Failed, Detail: "SASL authentication of ana", Advice: "sasl.username"},
		},
		"a mechanism that the broker does not have": {
			cluster: may(),
			change: func(o *Options) {
				o.SASL = &kafkaconn.SASL{Mechanism: "scram-sha-512", Username: "ana", Password: password}
			},
			want: findingtest.Row{Step: "sign-in", Result: finding.Failed, Detail: "SASL authentication of ana", Advice: "sasl.mechanism"},
		},
		"a broker that is down": {
			change: func(o *Options) { o.Brokers = []string{loopback.Closed(t)} },
			want:   findingtest.Row{Step: "connect", Result: finding.Failed, Detail: "refuses connections", Advice: "brokers"},
		},
		"a broker that is down beside another": {
			change: func(o *Options) { o.Brokers = append(o.Brokers, loopback.Closed(t)) },
			want:   findingtest.Row{Step: "connect", Result: finding.Warning, Detail: "refuses connections", Advice: "brokers"},
		},
		"a broker that is silent before another": {
			change: func(o *Options) { o.Brokers = append([]string{loopback.Silent(t)}, o.Brokers...) },
			within: 2 * time.Second,
			want:   findingtest.Row{Step: "sign-in", Result: finding.Warning, Detail: "does not answer", Advice: "tls and sasl"},
		},
		"a broker with an unknown name": {
			change: func(o *Options) { o.Brokers = []string{"no-such-host.invalid:9092"} },
			want:   findingtest.Row{Step: "address", Result: finding.Failed, Detail: "no-such-host.invalid", Advice: "name servers"},
		},
		"a broker that requires TLS": {
			cluster: []kfake.Opt{secured},
			want:    findingtest.Row{Step: "sign-in", Result: finding.Failed, Detail: "expects TLS", Advice: "set tls"},
		},
		"TLS to a broker without it": {
			change: func(o *Options) { o.TLS = &tls.Config{RootCAs: pool} },
			within: 3 * time.Second,
			want:   findingtest.Row{Step: "sign-in", Result: finding.Failed, Detail: "does not answer", Advice: "what tls and sasl say"},
		},
		"a certificate that is trusted": {
			cluster: []kfake.Opt{secured},
			change:  func(o *Options) { o.TLS = &tls.Config{RootCAs: pool} },
			want:    findingtest.Row{Step: "tls", Result: finding.OK, Detail: "is trusted"},
		},
		"a certificate of an unknown authority": {
			cluster: []kfake.Opt{secured},
			change:  func(o *Options) { o.TLS = &tls.Config{RootCAs: x509.NewCertPool()} },
			want:    findingtest.Row{Step: "tls", Result: finding.Failed, Detail: "self-signed", Advice: "tls.ca_file"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			c := startCluster(t, test.cluster...)
			if test.fault != nil {
				c.Fault(*test.fault)
			}
			o := Options{Brokers: c.ListenAddrs(), Topic: "ndr.{stream}"}
			if test.change != nil {
				test.change(&o)
			}
			if test.trial.Possible == nil && test.trial.Sure == nil {
				test.trial.Sure = sinktest.Events(1, 1, 10)
			}
			test.trial.Now = time.Now
			s := open(t, o)
			ctx := t.Context()
			if test.within > 0 {
				var cancel context.CancelFunc
				ctx, cancel = context.WithTimeout(ctx, test.within)
				defer cancel()
			}
			findingtest.Expect(t, s.Check(ctx, test.trial), test.want)
			info := c.TopicInfo("other.detections")
			assert.True(t, info == nil, "a topic was created")
		})
	}
}

func TestSinkDeliversAfterCheck(t *testing.T) {
	c := startCluster(t)
	s := open(t, Options{Brokers: c.ListenAddrs(), Topic: "ndr.{stream}"})
	events := sinktest.Events(3, 1, 100)
	findingtest.ExpectGood(t, s.Check(t.Context(), sinks.Trial{Sure: events, Now: time.Now}))
	assert.Empty(t, require.Value(c.records(streamTopics))(t), "the check left", "records")
	assert.NoError(t, s.Send(t.Context(), events))
	assert.Equal(t, len(require.Value(c.events())(t)), len(events), "events")
}
