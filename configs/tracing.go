package configs

// Tracing is where traces of polls and deliveries are sent, by OpenTelemetry's protocol
// over HTTP (OTLP/HTTP). The variables that OpenTelemetry's own libraries read are not
// read, but for what OTEL_RESOURCE_ATTRIBUTES adds to what is told of the service.
type Tracing struct {
	// Endpoint is the http or https URL of the collector, to whose path /v1/traces is
	// added; empty: nothing is traced.
	Endpoint URL `yaml:"endpoint" env:"ENDPOINT"`
	// Headers go with every request to it.
	Headers Headers `yaml:"headers" env:"HEADERS"`
	// Sample is the share of polls that are traced, 0 to 1. Deliveries are traced of
	// what a traced poll has shown.
	Sample float64 `yaml:"sample" env:"SAMPLE" default:"1" min:"0" max:"1"`
	TLS    TLS     `yaml:"tls" envPrefix:"TLS_"`
}

func (c checks) tracing(t Tracing) {
	if t.Endpoint.Value() != "" {
		u := c.url("tracing.endpoint", t.Endpoint, "http", "https")
		switch {
		case u == nil:
		case u.User != nil:
			c.wrong("tracing.endpoint", "has a user name or a password; write them into headers, as Authorization")
		case u.RawQuery != "" || u.Fragment != "":
			c.wrong("tracing.endpoint", "has something behind its path; write scheme, host and path alone")
		}
	}
	c.headers("tracing.headers", t.Headers)
	c.tls("tracing.tls", t.TLS)
}
