package configs

import (
	"strings"
	"testing"
)

func TestTracingKeyErrors(t *testing.T) {
	for _, test := range []struct{ name, keys, want string }{
		{"an endpoint that is not a URL", "endpoint: collector", "tracing.endpoint: has no scheme"},
		{"an endpoint of gRPC", `endpoint: "grpc://collector:4317"`, "tracing.endpoint: has a scheme that cannot be used here; write one of http, https"},
		{"an endpoint with a password", `endpoint: "https://ana:sesame@collector"`, "tracing.endpoint: has a user name or a password; write them into headers"},
		{"an endpoint with a query", `endpoint: "https://collector/?k=sesame"`, "tracing.endpoint: has a query or a fragment"},
		{"a header that is none", `headers: {"X Key": sesame}`, "tracing.headers.X…: is not the name of a header"},
		{"a header twice", "headers: {x-key: a, X-Key: b}", "tracing.headers.x-key: is set twice with different capitalization"},
		{"a share below none", "sample: -0.1", "tracing.sample: is -0.1; it must be between 0 and 1"},
		{"a share above all", "sample: 1.1", "tracing.sample: is 1.1; it must be between 0 and 1"},
		{"a fraction that is not a number", "sample: .nan", "tracing.sample: "},
		{"half a certificate", "tls: {server_name: a, cert_file: tracing.go}", "tracing.tls.cert_file: is set without key_file"},
	} {
		t.Run(test.name, func(t *testing.T) {
			_, err := Parse("f.yaml", []byte("tracing: {"+test.keys+"}"+valid), nil)
			if err == nil || !strings.Contains(err.Error(), test.want) || strings.Contains(err.Error(), "sesame") {
				t.Errorf("error %v, want one with %q", err, test.want)
			}
		})
	}
	t.Run("left out, nothing is traced", func(t *testing.T) {
		if c := parse(t, valid).Tracing; c.Endpoint.Value() != "" || c.Sample != 1 {
			t.Errorf("%+v", c)
		}
	})
	t.Run("what is right is taken, of the environment, too", func(t *testing.T) {
		c := parse(t, "tracing: {sample: 0.1}"+valid, "NDRBRIDGE_TRACING_ENDPOINT=http://127.0.0.1:4318", "NDRBRIDGE_TRACING_HEADERS=X-Api-Key: sesame").Tracing
		key, err := c.Headers["X-Api-Key"].Read()
		if c.Endpoint.Value() != "http://127.0.0.1:4318" || c.Sample != 0.1 || key != "sesame" || err != nil {
			t.Errorf("%+v, %v", c, err)
		}
	})
}
