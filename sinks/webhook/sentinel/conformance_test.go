package sentinel

import (
	"encoding/json"
	"net/http"
	"testing"

	"ndrbridge/sinks/webhook"
	"ndrbridge/test/presettest"
)

func TestConformance(t *testing.T) {
	tokens := presettest.NewTokenServer(t)
	presettest.Conformance(t, presettest.Store{
		Open: func(url string) (*webhook.Preset, error) { return Spec().Open(settings(url)) },
		Unpack: func(body []byte) (all [][]byte, err error) {
			var documents []json.RawMessage
			err = json.Unmarshal(body, &documents)
			for _, d := range documents {
				all = append(all, d)
			}
			return all, err
		},
		Answer: presettest.Whole(http.StatusNoContent, ""),
		Options: webhook.Options{
			Concurrency: 4,
			OAuth:       &webhook.OAuth{TokenURL: tokens.URL, ClientID: presettest.ClientID, ClientSecret: presettest.ClientSecret},
		},
	})
}
