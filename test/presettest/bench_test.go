package presettest_test

import (
	"testing"

	"ndrbridge/sinks/webhook"
	"ndrbridge/sinks/webhook/datadog"
	"ndrbridge/sinks/webhook/elasticsearch"
	"ndrbridge/sinks/webhook/slack"
	"ndrbridge/sinks/webhook/splunk"
	"ndrbridge/test/require"
	"ndrbridge/test/sinktest"
)

// BenchmarkCompose is what a request of 400 events of 2 KB costs to make.
func BenchmarkCompose(b *testing.B) {
	events := sinktest.Events(400, 100, 2<<10)
	for name, test := range map[string]struct {
		spec webhook.PresetSpec
		url  string
	}{
		"splunk": {splunk.Spec(), "https://s.example"}, "elasticsearch": {elasticsearch.Spec(), "https://e.example/ndr"},
		"datadog": {datadog.Spec(), ""}, "slack": {slack.Spec(), ""},
	} {
		b.Run(name, func(b *testing.B) {
			key := ""
			if test.spec.KeyRequired {
				key = "k"
			}
			p := require.Value(test.spec.Open(webhook.PresetSettings{URL: test.url, Key: key}))(b)
			b.ReportAllocs()
			size := 0
			for b.Loop() {
				r, err := p.Compose(events)
				if err != nil || r.Events != len(events) {
					b.Fatalf("%d events: %v", r.Events, err)
				}
				size = len(r.Body)
			}
			b.SetBytes(int64(size))
		})
	}
}
