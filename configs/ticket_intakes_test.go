package configs

import (
	"testing"

	"ndrbridge/test/assert"
)

func TestTicketBrokerErrors(t *testing.T) {
	const (
		nats  = `nats: {url: "nats://127.0.0.1:4222", `
		kafka = `kafka: {brokers: ["127.0.0.1:9092"], `
	)
	expectErrors(t, func(text string) string { return "tickets: {enabled: true, " + text + "}" + valid }, []mistake{
		{"a stream on no server", `nats: {stream: NDR}`, "tickets.nats.url: is missing; set it, or the variable NDRBRIDGE_TICKETS_NATS_URL"},
		{"a user on no server", `nats: {username: ana, password: p}`, "tickets.nats.url: is missing"},
		{"a server without a stream", nats + `}`, "tickets.nats.stream: is missing"},
		{"a server with another protocol", `nats: {url: "http://127.0.0.1", stream: NDR}`, "tickets.nats.url: has a scheme that cannot be used here"},
		{"a stream that is none", nats + `stream: a.b}`, `tickets.nats.stream: "a.b" is not a stream name`},
		{"a subject with a placeholder", nats + `stream: NDR, subject: "ndr.{appliance}"}`, `tickets.nats.subject: "ndr.{appliance}" is not a valid subject`},
		{"a subject that goes on behind the end", nats + `stream: NDR, subject: "ndr.>.a"}`, "tickets.nats.subject: "},
		{"a consumer that is none", nats + `stream: NDR, durable: a b}`, `tickets.nats.durable: "a b" is not a consumer name`},
		{"two ways of signing in", nats + `stream: NDR, token: t, username: ana, password: p}`, "tickets.nats: has several forms of authentication: token and username"},
		{"a password without its user", nats + `stream: NDR, password: p}`, "tickets.nats.password: is set without username"},
		{"a login at no broker", `kafka: {sasl: {mechanism: plain, username: ana, password: p}}`, "tickets.kafka.brokers: is missing"},
		{"a broker without a port", `kafka: {brokers: [broker.example]}`, `tickets.kafka.brokers[0]: "broker.example" is not an address`},
		{"a topic with a placeholder", kafka + `topic: "ndr.{stream}"}`, `tickets.kafka.topic: "ndr.{stream}" is not a topic name`},
		{"no group", kafka + `group: ""}`, "tickets.kafka.group: is missing"},
		{"a password without a mechanism", kafka + `sasl: {username: ana, password: p}}`, "tickets.kafka.sasl.mechanism: is missing"},
		{"half a certificate", kafka + `tls: {cert_file: ticket_intakes_test.go}}`, "tickets.kafka.tls.cert_file: is set without key_file"},
	})
}

func TestTicketBrokersAreReadAsConfigured(t *testing.T) {
	config := parse(t, `
tickets:
  enabled: true
  nats: {url: "nats://a:4222, nats://b:4222", stream: NDR, subject: "ndr.tickets.*.>", tls: {}}
`+valid, "NDRBRIDGE_TICKETS_KAFKA_BROKERS=a:9092,b:9092", "NDRBRIDGE_TICKETS_NATS_TOKEN=t",
		"NDRBRIDGE_TICKETS_KAFKA_SASL_MECHANISM=plain", "NDRBRIDGE_TICKETS_KAFKA_SASL_USERNAME=ana", "NDRBRIDGE_TICKETS_KAFKA_SASL_PASSWORD=p")
	nats, kafka := config.Tickets.NATS, config.Tickets.Kafka
	assert.True(t, nats.Durable == "ndrbridge" && nats.Subject == "ndr.tickets.*.>" && nats.Connection().TLS != nil && nats.Connection().Token.IsSet(), nats)
	assert.True(t, kafka.Topic == "ndr.tickets" && kafka.Group == "ndrbridge" && len(kafka.Connection().Brokers) == 2 && kafka.Connection().SASL.Username == "ana", kafka)
}
