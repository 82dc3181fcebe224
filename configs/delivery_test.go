package configs

import (
	"strings"
	"testing"
)

func TestDeliveryKeysTellWhatIsWrong(t *testing.T) {
	for _, test := range []struct{ name, keys, want string }{
		{"fewer attempts than none", `file: {path: "-"}, max_attempts: -1`, "sinks[0].max_attempts: is -1; it must be at least 0"},
		{"a rate below none", `file: {path: "-"}, rate_limit: -0.5`, "sinks[0].rate_limit: is -0.5; write how many events a second"},
		{"a rate that is no number", `file: {path: "-"}, rate_limit: .nan`, "sinks[0].rate_limit: "},
		{"a field that is no path", `file: {path: "-"}, redact: [detection.title, ".title"]`, `sinks[0].redact[1]: ".title" is no path of a field`},
		{"no request in flight", `webhook: {url: "https://h", concurrency: 0}`, "sinks[0].webhook.concurrency: is 0; it must be at least 1"},
	} {
		t.Run(test.name, func(t *testing.T) {
			_, err := Parse("f.yaml", []byte(sink(test.keys)), nil)
			if err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("error %v, want one with %q", err, test.want)
			}
		})
	}
	t.Run("what is right is taken", func(t *testing.T) {
		s := parse(t, sink(`webhook: {url: "https://h", concurrency: 8, gzip: true}, max_attempts: 5, rate_limit: 0.5, redact: [detection.title]`)).Sinks[0]
		if s.MaxAttempts != 5 || s.RateLimit != 0.5 || len(s.Redact) != 1 || s.Webhook.Concurrency != 8 || !s.Webhook.Gzip {
			t.Errorf("%+v", s)
		}
	})
}
