package configs

import (
	"testing"

	"ndrbridge/test/assert"
)

func TestFilesOfASink(t *testing.T) {
	for _, test := range []struct {
		name string
		sink Sink
		want []string
	}{
		{"a sink that names none", Sink{Webhook: &Webhook{}}, nil},
		{"what it writes is not read", Sink{File: &File{Path: "events.jsonl"}}, nil},
		{"files of keys, secrets and blocks that are optional", Sink{Kafka: &Kafka{
			TLS: &TLS{CAFile: "ca.pem", KeyFile: "key.pem"}, SASL: SASL{Password: Secret{File: "password"}},
		}}, []string{"ca.pem", "key.pem", "password"}},
		{"a file that is named twice", Sink{NATS: &NATS{NATSLogin: NATSLogin{CredsFile: "creds", TLS: &TLS{CertFile: "pem", KeyFile: "pem"}}}}, []string{"creds", "pem"}},
		{"a secret without a file", Sink{Webhook: &Webhook{Auth: WebhookAuth{Bearer: NewSecret("sesame")}}}, nil},
	} {
		t.Run(test.name, func(t *testing.T) {
			assert.EqualSlices(t, FilesIn(test.sink), test.want)
		})
	}
}

func TestFilesThatAReloadReads(t *testing.T) {
	c := Config{
		Admin: Admin{Token: Secret{File: "admin"}},
		Appliances: []Appliance{
			{APIKey: Secret{File: "key"}, TLS: TLS{CAFile: "ca.pem", CertFile: "cert.pem", KeyFile: "key.pem"}},
			{APIKey: Secret{File: "key"}},
		},
		Sinks: []Sink{
			{Webhook: &Webhook{TemplateFile: "template", TLS: TLS{CAFile: "ca.pem"}}},
			{NATS: &NATS{NATSLogin: NATSLogin{CredsFile: "creds"}}},
		},
		Tickets: Tickets{NATS: NATSIntake{NATSLogin: NATSLogin{Token: Secret{File: "token"}}}},
	}
	assert.EqualSlices(t, c.ReloadedFiles(), []string{"ca.pem", "creds", "template", "token"})
}
