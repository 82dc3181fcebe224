package elasticsearch

import (
	"bytes"
	"fmt"
	"net/http"
	"regexp"
	"strings"
	"testing"

	"ndrbridge/sinks/webhook"
	"ndrbridge/test/presettest"
)

func TestConformance(t *testing.T) {
	timestamp := regexp.MustCompile(`^\{"@timestamp":"[^"]*",`)
	presettest.Conformance(t, presettest.Store{
		Open: func(url string) (*webhook.Preset, error) {
			return openAt(webhook.PresetSettings{URL: url + "/ndr", Key: "s3cret-key"}, clock)
		},
		Unpack: func(body []byte) (all [][]byte, err error) {
			lines := bytes.Split(bytes.TrimSuffix(body, []byte("\n")), []byte("\n"))
			for i := 1; i < len(lines); i += 2 {
				all = append(all, timestamp.ReplaceAll(lines[i], []byte("{")))
			}
			return all, nil
		},
		Answer: func(w http.ResponseWriter, refused []bool) {
			items := make([]string, len(refused))
			for i, r := range refused {
				items[i] = `{"create":{"status":201}}`
				if r {
					items[i] = `{"create":{"status":400,"error":{"type":"document_parsing_exception"}}}`
				}
			}
			fmt.Fprintf(w, `{"errors":true,"items":[%s]}`, strings.Join(items, ","))
		},
		Options: webhook.Options{Concurrency: 4, Gzip: true},
	})
}
