package elasticsearch

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"ndrbridge/internal/failure"
	"ndrbridge/internal/finding"
	"ndrbridge/sinks/webhook"
	"ndrbridge/test/assert"
	"ndrbridge/test/presettest"
	"ndrbridge/test/require"
	"ndrbridge/test/sinktest"
	"ndrbridge/transform"
	"ndrbridge/transform/format"
)

// openAt opens the preset with a clock.
func openAt(s webhook.PresetSettings, now func() time.Time) (*webhook.Preset, error) {
	spec := Spec()
	spec.New = func(s webhook.PresetSettings, target *url.URL) (*webhook.Preset, error) { return open(s, target, now) }
	return spec.Open(s)
}

func at(url string) (*webhook.Preset, error) {
	return openAt(webhook.PresetSettings{URL: url + "/logs-ndr-default", Key: "c2VjcmV0OmtleQ=="}, clock)
}

// clock is the time of the tests.
func clock() time.Time { return time.Date(2026, 3, 14, 9, 30, 0, 5e6, time.UTC) }

// index answers as data streams of Elasticsearch do: those of the request's path or, if
// that names none, of the actions.
type index struct {
	documents map[string]json.RawMessage
	order     []string
	streams   map[string]int // documents by data stream
	// result answers for a document in the place of the index; nil: 201.
	result func(id string) (status int, kind string)
}

func newIndex() *index {
	return &index{documents: map[string]json.RawMessage{}, streams: map[string]int{}}
}

func (x *index) answer(r presettest.Request) presettest.Reply {
	illegal := func(why string) presettest.Reply {
		return presettest.Reply{Status: http.StatusBadRequest, Body: fmt.Sprintf(`{"error":{"type":"illegal_argument_exception","reason":%q},"status":400}`, why)}
	}
	switch {
	case r.Path != "/logs-ndr-default/_bulk" && r.Path != "/_bulk":
		return presettest.Reply{Status: http.StatusMethodNotAllowed}
	case r.Header.Get("Content-Type") != "application/x-ndjson":
		return presettest.Reply{Status: http.StatusNotAcceptable}
	case r.Header.Get("Authorization") != "ApiKey c2VjcmV0OmtleQ==":
		return presettest.Reply{Status: http.StatusUnauthorized}
	case len(r.Body) > 10<<20:
		return presettest.Reply{Status: http.StatusRequestEntityTooLarge}
	case !bytes.HasSuffix(r.Body, []byte("\n")):
		return illegal("The bulk request must be terminated by a newline [\\n]")
	}
	lines := strings.Split(strings.TrimSuffix(string(r.Body), "\n"), "\n")
	if len(lines)%2 != 0 {
		return illegal("odd number of lines")
	}
	var items []string
	failed := false
	for i := 0; i < len(lines); i += 2 {
		var action struct {
			Create *struct {
				Index *string `json:"_index"`
				ID    string  `json:"_id"`
			} `json:"create"`
		}
		var document struct {
			Timestamp time.Time `json:"@timestamp"`
		}
		if err := json.Unmarshal([]byte(lines[i]), &action); err != nil || action.Create == nil {
			return illegal("only write ops with an op_type of create are allowed in data streams")
		}
		if (action.Create.Index == nil) == (r.Path == "/_bulk") {
			return illegal("index is missing, or named twice")
		}
		id, stream := action.Create.ID, "logs-ndr-default"
		if action.Create.Index != nil {
			stream = *action.Create.Index
		}
		status, kind := 201, ""
		switch err := json.Unmarshal([]byte(lines[i+1]), &document); {
		case id == "" || len(id) > 512:
			status, kind = 400, "illegal_argument_exception"
		case err != nil || document.Timestamp.Year() < 2000:
			status, kind = 400, "document_parsing_exception"
		case x.documents[id] != nil:
			status, kind = 409, "version_conflict_engine_exception"
		case x.result != nil:
			status, kind = x.result(id)
		}
		if status/100 == 2 {
			x.documents[id] = json.RawMessage(lines[i+1])
			x.order = append(x.order, id)
			x.streams[stream]++
			items = append(items, `{"create":{"status":201}}`)
			continue
		}
		failed = true
		items = append(items, fmt.Sprintf(`{"create":{"status":%d,"error":{"type":%q,"reason":"see the type"}}}`, status, kind))
	}
	return presettest.Reply{Status: http.StatusOK, Body: fmt.Sprintf(`{"errors":%v,"items":[%s]}`, failed, strings.Join(items, ","))}
}

func TestEveryKindOfEventIsADocument(t *testing.T) {
	for _, kind := range presettest.Events(t) {
		t.Run(kind.Name, func(t *testing.T) {
			x := newIndex()
			s := presettest.Serve(t, x.answer)
			require.NoError(t, presettest.Send(t, s.URL, presettest.Open(t, at, s.URL), kind.Event))
			if len(x.order) != 1 || !strings.HasSuffix(x.order[0], "/"+kind.Event.ID) {
				t.Fatalf("documents: %v", x.order)
			}
			presettest.Golden(t, kind.Name, x.documents[x.order[0]])
		})
	}
}

func TestDataWithATimestampIsTheDocument(t *testing.T) {
	e, err := transform.New(transform.Attributes{ID: "1-2", Source: "ndrbridge://hq/detections", Type: "io.ndrbridge.detection.created"},
		[]byte("{\"@timestamp\": \"2026-03-14T09:26:53.589Z\",\n\"event\": {\"kind\": \"alert\"}}"))
	require.NoError(t, err)
	x := newIndex()
	s := presettest.Serve(t, x.answer)
	require.NoError(t, presettest.Send(t, s.URL, presettest.Open(t, at, s.URL), e))
	if got := string(x.documents["hq/detections/1-2"]); !strings.HasPrefix(got, `{"@timestamp": "2026`) || strings.Contains(got, "specversion") {
		t.Errorf("document %s", got)
	}
}

// inECS opens the preset of a sink with format ecs.
func inECS(url string) (*webhook.Preset, error) {
	return openAt(webhook.PresetSettings{URL: url, Key: "c2VjcmV0OmtleQ==", Format: format.ECS}, clock)
}

// documented returns an event with its ECS document.
func documented(t testing.TB, e transform.Event) transform.Event {
	t.Helper()
	encoder := require.Value(format.New(format.ECS, format.Options{Version: "1.0.0"}))(t)
	return encoder.Encode(e)
}

func TestABatchOfECSDocumentsGoesToADataStreamForEachDataset(t *testing.T) {
	x := newIndex()
	s := presettest.Serve(t, x.answer)
	var events []transform.Event
	for _, kind := range presettest.Events(t) {
		events = append(events, documented(t, kind.Event))
	}
	for range 2 { // the second time, all exist already
		require.NoError(t, presettest.Send(t, s.URL, presettest.Open(t, inECS, s.URL), events...))
	}
	want := map[string]int{
		"logs-ndrbridge.detection-default": 12, "logs-ndrbridge.audit-default": 1, "logs-ndrbridge.record-default": 1, "logs-ndrbridge.event-default": 13,
	}
	assert.True(t, maps.Equal(x.streams, want), "documents", x.streams, want)
	assert.Equal(t, len(s.Requests()), 2, "documents", x.streams, want, "requests")
	golden(t, "testdata/bulk.ndjson", s.Requests()[0].Body)
}

// golden compares text with a file. If UPDATE_GOLDEN is set in the environment it writes
// the file instead.
func golden(t *testing.T, file string, text []byte) {
	t.Helper()
	if os.Getenv("UPDATE_GOLDEN") != "" {
		require.NoError(t, os.WriteFile(file, text, 0o644))
		return
	}
	want := require.Value(os.ReadFile(file))(t)
	assert.True(t, bytes.Equal(text, want), "the request differs from", file, string(text))
}

func TestADocumentInAFormatWithoutATimestampGetsOne(t *testing.T) {
	x := newIndex()
	s := presettest.Serve(t, x.answer)
	p, err := openAt(webhook.PresetSettings{URL: s.URL + "/logs-ndr-default", Key: "c2VjcmV0OmtleQ==", Format: format.OCSF}, clock)
	require.NoError(t, err)
	e := presettest.Events(t)[0].Event.WithDocument("application/json", []byte(`{"class_uid":2004}`))
	require.NoError(t, presettest.Send(t, s.URL, p, e))
	const want = `{"@timestamp":"2026-03-14T09:26:52.000Z","class_uid":2004}`
	assert.Equal(t, string(x.documents[x.order[0]]), want, "document")
}

func TestAnEventSentAgainExistsAlready(t *testing.T) {
	x := newIndex()
	s := presettest.Serve(t, x.answer)
	events := sinktest.Events(700, 10, 0)
	for range 2 {
		require.NoError(t, presettest.Send(t, s.URL, presettest.Open(t, at, s.URL), events...))
	}
	assert.Equal(t, len(x.documents), 700, "documents")
}

func TestALargeBatchIsSeveralRequests(t *testing.T) {
	x := newIndex()
	s := presettest.Serve(t, x.answer)
	events := sinktest.Events(2500, 10, 4<<10)
	require.NoError(t, presettest.Send(t, s.URL, presettest.Open(t, at, s.URL), events...))
	for i, id := range x.order {
		require.True(t, strings.HasSuffix(id, "/"+events[i].ID), "document", i, "is", id)
	}
	if n := len(s.Requests()); len(x.order) != 2500 || n < 2 || n > 4 {
		t.Errorf("%d documents of %d requests", len(x.order), n)
	}
}

func TestEachEventHasItsOwnResult(t *testing.T) {
	events := sinktest.Events(8, 8, 0)
	results := []struct {
		status int
		kind   string
		class  failure.Class
	}{
		{201, "", ""},
		{429, "es_rejected_execution_exception", failure.Throttled},
		{400, "document_parsing_exception", failure.Rejected},
		{409, "version_conflict_engine_exception", ""},
		{503, "unavailable_shards_exception", failure.Transient},
		{403, "cluster_block_exception", failure.Halted},
		{404, "index_not_found_exception", failure.Halted},
		{413, "too_large", failure.Rejected},
	}
	x := newIndex()
	x.result = func(id string) (int, string) {
		for i, e := range events {
			if strings.HasSuffix(id, "/"+e.ID) {
				return results[i].status, results[i].kind
			}
		}
		return 500, "not found"
	}
	s := presettest.Serve(t, x.answer)
	err := presettest.Send(t, s.URL, presettest.Open(t, at, s.URL), events...)
	each, ok := errors.AsType[failure.EventErrors](err)
	if !ok || len(each) != len(events) {
		t.Fatalf("%v", err)
	}
	for i, f := range results {
		if class, _ := presettest.Result(each[i]); class != f.class {
			t.Errorf("%d %s: %s, want %s", f.status, f.kind, class, f.class)
		}
		if each[i] != nil && (!strings.Contains(each[i].Error(), f.kind) || strings.Contains(each[i].Error(), "c2VjcmV0")) {
			t.Errorf("%d: %v", f.status, each[i])
		}
	}
}

func TestDocumentsStoredBehindAThrottledOneAreNotSentAgain(t *testing.T) {
	events := sinktest.Events(3, 1, 0) // of one key
	waits := true
	x := newIndex()
	x.result = func(id string) (int, string) {
		if waits && strings.HasSuffix(id, "/"+events[0].ID) {
			return 429, "es_rejected_execution_exception"
		}
		return 201, ""
	}
	s := presettest.Serve(t, x.answer)
	err := presettest.Send(t, s.URL, presettest.Open(t, at, s.URL), events...)
	each, ok := errors.AsType[failure.EventErrors](err)
	if !ok || each[0] == nil || each[1] != nil || each[2] != nil {
		t.Fatalf("%v", err)
	}
	waits = false
	if err := presettest.Send(t, s.URL, presettest.Open(t, at, s.URL), events[0]); err != nil || len(x.order) != 3 {
		t.Errorf("documents %v; %v", x.order, err)
	}
}

func TestTheAnswersToABulk(t *testing.T) {
	text := func(status int, body string) presettest.Reply { return presettest.Reply{Status: status, Body: body} }
	presettest.Answers(t, presettest.Events(t)[0].Event, at, []presettest.Case{
		{Name: "no errors is durable", Reply: text(200, `{"errors":false,"items":[{"create":{"status":201}}]}`)},
		{Name: "fewer items than documents do not acknowledge", Reply: text(200, `{"errors":true,"items":[]}`), Class: failure.Transient},
		{Name: "an item without a result does not acknowledge", Reply: text(200, `{"errors":true,"items":[{}]}`), Class: failure.Transient},
		{Name: "a result of another action does not acknowledge", Reply: text(200, `{"errors":true,"items":[{"delete":{"status":200}}]}`), Class: failure.Transient},
		{Name: "a reason that quotes half a surrogate pair rejects", Reply: text(200, `{"errors":true,"items":[{"create":{"status":400,"error":{"type":"document_parsing_exception","reason":"Preview of field's value: '\ud83d'"}}}]}`), Class: failure.Rejected},
		{Name: "a reason that is not UTF-8 rejects", Reply: text(200, "{\"errors\":true,\"items\":[{\"create\":{\"status\":400,\"error\":{\"reason\":\"\xff\"}}}]}"), Class: failure.Rejected},
		{Name: "an answer of another service does not acknowledge", Reply: text(200, `{"name":"node-1","tagline":"You Know, for Search"}`), Class: failure.Transient},
		{Name: "a truncated answer does not acknowledge", Reply: text(200, `{"errors":fal`), Class: failure.Transient},
		{Name: "an unrelated page does not acknowledge", Reply: text(200, "<html>"), Class: failure.Halted},
		{Name: "a bulk that is too large is rejected", Reply: text(413, ""), Class: failure.Rejected},
		{Name: "a bulk that is too much waits", Reply: text(429, `{"error":{"type":"circuit_breaking_exception"}}`), Class: failure.Throttled},
		{Name: "a key that is not known halts", Reply: text(401, ""), Class: failure.Halted},
		{Name: "a key that is not allowed halts", Reply: text(403, ""), Class: failure.Halted},
		{Name: "a cluster without a master passes", Reply: text(503, ""), Class: failure.Transient},
	})
}

func TestBulksGoToTheIndexOfTheURL(t *testing.T) {
	for _, test := range []struct {
		url    string
		format format.Name
		path   string
		index  string // of the action
	}{
		{"https://es.example/ndr", "", "/ndr/_bulk", ""},
		{"https://es.example/ndr/", "", "/ndr/_bulk", ""},
		{"https://es.example/ndr/_bulk", "", "/ndr/_bulk", ""},
		{"https://es.example/in_bulk", "", "/in_bulk/_bulk", ""},
		{"https://proxy.example/es/ndr", "", "/es/ndr/_bulk", ""},
		{"https://es.example/ndr/_bulk/?x", "", "/ndr/_bulk", ""},
		{"https://es.example/%3Cndr-%7Bnow%2Fd%7D%3E", "", "/%3Cndr-%7Bnow%2Fd%7D%3E/_bulk", ""},
		{"https://es.example/ndr", format.ECS, "/ndr/_bulk", ""},
		{"https://es.example", format.ECS, "/_bulk", "logs-ndrbridge.detection-default"},
		{"https://es.example/_bulk", format.ECS, "/_bulk", "logs-ndrbridge.detection-default"},
		{"https://es.example/logs-{dataset}-prod", format.ECS, "/_bulk", "logs-ndrbridge.detection-prod"},
		{"https://es.example/logs-%7Bdataset%7D-prod/_bulk", format.ECS, "/_bulk", "logs-ndrbridge.detection-prod"},
		{"https://proxy.example/es/logs-{dataset}-prod", format.ECS, "/es/_bulk", "logs-ndrbridge.detection-prod"},
		{"https://es.example/{dataset}", "", "/_bulk", "ndrbridge.detection"},
	} {
		p := require.Value(openAt(webhook.PresetSettings{URL: test.url, Format: test.format}, clock))(t)
		request := require.Value(p.Compose([]transform.Event{documented(t, presettest.Burst(t, 1)[0])}))(t)
		assert.Equal(t, request.URL.EscapedPath(), test.path, test.url, "to", request.URL)
		var action struct {
			Create struct {
				Index string `json:"_index"`
			}
		}
		line, _, _ := bytes.Cut(request.Body, []byte("\n"))
		if err := json.Unmarshal(line, &action); err != nil || action.Create.Index != test.index {
			t.Errorf("%s: action %s, want index %q", test.url, line, test.index)
		}
	}
}

func TestWrongURLs(t *testing.T) {
	for _, s := range []webhook.PresetSettings{
		{URL: "https://es.example:9200"}, {URL: "https://es.example:9200/_bulk"}, {URL: "::"},
		{URL: "https://es.example:9200", Format: format.OCSF},
		{URL: "https://es.example:9200/logs-{stream}-prod", Format: format.ECS},
	} {
		if _, err := openAt(s, clock); err == nil {
			t.Errorf("%s in format %q is taken", s.URL, s.Format)
		}
	}
}

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
		{Name: "opensearch, without privileges", Server: elastic(stream, `405 {}`), Open: toElastic(presettest.CheckKey), Want: presettest.Row("privileges", finding.Untried, "OpenSearch", "ndrbridge send")},
		{Name: "something else", Server: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { presettest.JSON(w, 200, "{}") }), Open: toElastic(presettest.CheckKey), Want: presettest.Row("cluster", finding.Failed, "neither Elasticsearch nor OpenSearch", "check url")},
	}, "_has_privileges")
}
