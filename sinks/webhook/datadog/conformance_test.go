package datadog

import (
	"encoding/json"
	"net/http"
	"testing"
	"time"

	"ndrbridge/sinks/webhook"
	"ndrbridge/test/presettest"
)

func TestConformance(t *testing.T) {
	presettest.Conformance(t, presettest.Store{
		Open: func(string) (*webhook.Preset, error) {
			return openAt(webhook.PresetSettings{Key: "s3cret-key"}, time.Now)
		},
		Unpack: func(body []byte) (all [][]byte, err error) {
			var logs []struct{ Event json.RawMessage }
			err = json.Unmarshal(body, &logs)
			for _, log := range logs {
				all = append(all, log.Event)
			}
			return all, err
		},
		Answer:  presettest.Whole(http.StatusAccepted, `{}`),
		Options: webhook.Options{Concurrency: 4, Gzip: true},
	})
}
