package presettest_test

import (
	"testing"
	"time"

	"ndrbridge/sinks/webhook"
	"ndrbridge/sinks/webhook/datadog"
	"ndrbridge/sinks/webhook/elasticsearch"
	"ndrbridge/sinks/webhook/slack"
	"ndrbridge/sinks/webhook/splunk"
	"ndrbridge/test/sinktest"
)

// BenchmarkCompose is what a request of 400 events of 2 KB costs to make.
func BenchmarkCompose(b *testing.B) {
	events := sinktest.Events(400, 100, 2<<10)
	must := func(p webhook.Preset, err error) webhook.Preset {
		if err != nil {
			b.Fatal(err)
		}
		return p
	}
	splunkPreset, splunkErr := splunk.New(webhook.PresetSettings{URL: "https://s.example", Key: "t"})
	elasticPreset, elasticErr := elasticsearch.New(webhook.PresetSettings{URL: "https://e.example/ndr"}, time.Now)
	datadogPreset, datadogErr := datadog.New(webhook.PresetSettings{Key: "k"}, time.Now)
	slackPreset, slackErr := slack.New(webhook.PresetSettings{})
	for name, p := range map[string]webhook.Preset{
		"splunk": must(splunkPreset, splunkErr), "elasticsearch": must(elasticPreset, elasticErr),
		"datadog": must(datadogPreset, datadogErr), "slack": must(slackPreset, slackErr),
	} {
		b.Run(name, func(b *testing.B) {
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
