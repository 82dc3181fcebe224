package elasticsearch_test

import (
	"net/http"
	"testing"

	"ndrbridge/preflight/finding"
	"ndrbridge/sinks/webhook"
	"ndrbridge/sinks/webhook/elasticsearch"
	"ndrbridge/sinks/webhook/presettest"
)

func elastic(index, privileges string) http.Handler {
	return presettest.API("Authorization", "ApiKey "+presettest.CheckKey, func(w http.ResponseWriter, _ *http.Request) {
		presettest.JSON(w, http.StatusUnauthorized, `{"error":{"type":"security_exception","reason":"unable to authenticate"},"status":401}`)
	}, map[string]string{
		"GET /":                                `200 {"version":{"number":"8.15.0"},"tagline":"You Know, for Search"}`,
		"GET /_resolve/index/ndr":              index,
		"POST /_security/user/_has_privileges": privileges,
	})
}

func TestChecks(t *testing.T) {
	toElastic := func(key string) func(string) (webhook.Preset, error) {
		return func(url string) (webhook.Preset, error) {
			return elasticsearch.New(webhook.PresetSettings{URL: url + "/ndr", Key: key})
		}
	}
	stream, allowed := `200 {"indices":[],"aliases":[],"data_streams":[{"name":"ndr"}]}`, `200 {"has_all_requested":true}`
	presettest.Checks(t, []presettest.CheckTest{
		{Name: "a data stream", Server: elastic(stream, allowed), Open: toElastic(presettest.CheckKey), Want: presettest.Row("index ndr", finding.OK, "data stream", "")},
		{Name: "a key that may write", Server: elastic(stream, allowed), Open: toElastic(presettest.CheckKey), Want: presettest.Row("privileges", finding.OK, "may create", "")},
		{Name: "an index that will be made", Server: elastic(`404 {"status":404}`, allowed), Open: toElastic(presettest.CheckKey), Want: presettest.Row("index ndr", finding.Remark, "is created with", "")},
		{Name: "a wrong key", Server: elastic(stream, allowed), Open: toElastic("wrong-key"), Want: presettest.Row("cluster", finding.Failed, "unable to authenticate", "check key")},
		{Name: "a key that may not write", Server: elastic(stream, `200 {"has_all_requested":false}`), Open: toElastic(presettest.CheckKey), Want: presettest.Row("privileges", finding.Failed, "may not create", "create_doc")},
		{Name: "opensearch, without privileges", Server: elastic(stream, `405 {}`), Open: toElastic(presettest.CheckKey), Want: presettest.Row("privileges", finding.Untried, "OpenSearch", "replay")},
		{Name: "something else", Server: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { presettest.JSON(w, 200, "{}") }), Open: toElastic(presettest.CheckKey), Want: presettest.Row("cluster", finding.Failed, "neither Elasticsearch nor OpenSearch", "check url")},
	}, "_has_privileges")
}
