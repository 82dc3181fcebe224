package splunk

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"testing"

	"ndrbridge/sinks/webhook"
	"ndrbridge/test/presettest"
)

func TestConformance(t *testing.T) {
	presettest.Conformance(t, presettest.Store{
		Open: func(url string) (*webhook.Preset, error) {
			return Spec().Open(webhook.PresetSettings{URL: url, Key: "s3cret-key"})
		},
		Unpack: func(body []byte) (all [][]byte, err error) {
			for decoder := json.NewDecoder(bytes.NewReader(body)); ; {
				var one struct{ Event json.RawMessage }
				if err := decoder.Decode(&one); err == io.EOF {
					return all, nil
				} else if err != nil {
					return nil, err
				}
				all = append(all, one.Event)
			}
		},
		Answer: presettest.Whole(http.StatusOK, `{"text":"Success","code":0}`),
	})
}
