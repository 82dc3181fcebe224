package elasticsearch

import (
	"net/http"
	"testing"

	"ndrbridge/internal/finding"
	"ndrbridge/sinks/webhook"
	"ndrbridge/test/presettest"
	"ndrbridge/transform/format"
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

// elasticStreams answers for data streams: the index template of the first, those that
// exist, and the privileges.
func elasticStreams(template, streams, privileges string) http.Handler {
	return presettest.API("Authorization", "ApiKey "+presettest.CheckKey, func(w http.ResponseWriter, _ *http.Request) {
		presettest.JSON(w, http.StatusUnauthorized, `{"status":401}`)
	}, map[string]string{
		"GET /": `200 {"version":{"number":"8.15.0"}}`,
		"POST /_index_template/_simulate_index/logs-ndrbridge.detection-default": template,
		"GET /_resolve/index/logs-ndrbridge.*-default":                           streams,
		"POST /_security/user/_has_privileges":                                   privileges,
	})
}

func TestChecksOfDataStreams(t *testing.T) {
	toStreams := func(url string) (*webhook.Preset, error) {
		return openAt(webhook.PresetSettings{URL: url, Key: presettest.CheckKey, Format: format.ECS}, clock)
	}
	const (
		mapped  = `200 {"template":{"mappings":{"properties":{"@timestamp":{"type":"date"},"ndrbridge":{"properties":{}}}}},"overlapping":[]}`
		stream  = `200 {"indices":[],"aliases":[],"data_streams":[{"name":"logs-ndrbridge.audit-default"},{"name":"logs-ndrbridge.detection-default"}]}`
		nothing = `200 {"indices":[],"aliases":[],"data_streams":[]}`
		plain   = `200 {"indices":[{"name":"logs-ndrbridge.detection-default"}],"aliases":[],"data_streams":[]}`
		allowed = `200 {"has_all_requested":true}`
		some    = `200 {"has_all_requested":false,"index":{"logs-ndrbridge.*-default":{"create_doc":true,"auto_configure":false}}}`
		none    = `200 {"has_all_requested":false,"index":{"logs-ndrbridge.*-default":{"create_doc":false,"auto_configure":false}}}`
		streams = "data streams logs-ndrbridge.*-default"
	)
	var tests []presettest.CheckTest
	for _, test := range []struct {
		name, template, streams, privileges string
		step                                string
		result                              finding.Result
		detail, advice                      string
	}{
		{"a template that is loaded", mapped, stream, allowed, "index template", finding.OK, "maps the fields", ""},
		{"no template", `200 {}`, stream, allowed, "index template", finding.Warning, "none maps", "load the templates"},
		{"the template of all logs", `200 {"template":{"mappings":{"properties":{"@timestamp":{"type":"date"}}}}}`, stream, allowed, "index template", finding.Warning, "none maps", "load the templates"},
		{"a template that the key may not read", `403 {}`, stream, allowed, "index template", finding.Untried, "may not read", "load the templates"},
		{"a server without templates", `405 {}`, stream, allowed, "index template", finding.Untried, "status 405", "load the templates"},
		{"data streams", mapped, stream, allowed, streams, finding.OK, "logs-ndrbridge.audit-default, logs-ndrbridge.detection-default", ""},
		{"data streams that will be made", mapped, nothing, allowed, streams, finding.Remark, "with its first event", ""},
		{"an index in the place of a data stream", mapped, plain, allowed, streams, finding.Warning, "is an index", "load the templates"},
		{"a key that may write", mapped, stream, allowed, "privileges", finding.OK, "may create documents", ""},
		{"a key that may not make data streams", mapped, stream, some, "privileges", finding.Warning, "no data streams", "auto_configure"},
		{"a key that may not write", mapped, stream, none, "privileges", finding.Failed, "may not create", "create_doc"},
	} {
		tests = append(tests, presettest.CheckTest{
			Name: test.name, Server: elasticStreams(test.template, test.streams, test.privileges), Open: toStreams,
			Want: presettest.Row(test.step, test.result, test.detail, test.advice),
		})
	}
	presettest.Checks(t, tests, "_has_privileges", "_simulate_index")
}

func TestChecks(t *testing.T) {
	toElastic := func(key string) func(string) (*webhook.Preset, error) {
		return func(url string) (*webhook.Preset, error) {
			return openAt(webhook.PresetSettings{URL: url + "/ndr", Key: key}, clock)
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
