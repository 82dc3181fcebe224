package configs

// Tracing configures tracing of polls and deliveries, which are exported with OTLP over
// HTTP. Of the environment variables of OpenTelemetry, only OTEL_RESOURCE_ATTRIBUTES
// applies.
type Tracing struct {
	// Endpoint is the http or https URL of the collector; /v1/traces is appended to its
	// path. Absent: nothing is traced.
	Endpoint URL `yaml:"endpoint" env:"ENDPOINT"`
	// Headers are HTTP headers to send with every export.
	Headers Headers `yaml:"headers" env:"HEADERS"`
	// Sample is the fraction of polls to trace, 0 to 1. Deliveries are traced if their
	// events come from a traced poll.
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
			c.wrong("tracing.endpoint", "has a query or a fragment; write only scheme, host and path")
		}
	}
	c.headers("tracing.headers", t.Headers)
	c.tls("tracing.tls", t.TLS)
}
