// Package elasticsearch indexes events in Elasticsearch, or OpenSearch, by the bulk
// API.
package elasticsearch

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"ndrbridge/internal/failure"
	"ndrbridge/internal/jsonscan"
	"ndrbridge/sinks/webhook"
	"ndrbridge/transform"
	"ndrbridge/transform/format"
)

// Spec describes the preset.
func Spec() webhook.PresetSpec {
	return webhook.PresetSpec{
		Name:    "elasticsearch",
		Address: "with the index or data stream: `https://es.example:9200/ndr`; without one, data streams of ECS; OpenSearch, too",
		Limits:  "2,000 events or 5 MiB per request",
		About:   "Elasticsearch and OpenSearch, in the Elastic Common Schema",
		Example: `    webhook:
      preset: elasticsearch
      url: https://es.example.com:9200
      key_file: ./elasticsearch.key # a file with the API key, encoded as Elasticsearch shows it
    format: ecs
`,
		Guide: webhook.Guide{
			Title: "Elastic", Prepare: "install the index templates, and create an API key with the privileges monitor of the cluster, and create_doc, auto_configure and view_index_metadata of logs-ndrbridge.*",
			Look: "Discover shows the data stream `logs-ndrbridge.detection-default`",
		},
		Key:           "an API key",
		KeyAuthorizes: true,
		Formats:       []format.Name{format.ECS, format.OCSF},
		PublicPath:    true,
		Defaults:      webhook.PresetDefaults{MaxBatchBytes: 4 << 20, Gzip: true, Concurrency: 4},
		Sample:        webhook.PresetSettings{URL: "https://elasticsearch.example/events"},
		Check:         checkSettings,
		New: func(s webhook.PresetSettings, target *url.URL) (*webhook.Preset, error) {
			return open(s, target, time.Now)
		},
	}
}

func checkSettings(s webhook.PresetSettings) []webhook.SettingError {
	u, err := url.Parse(s.URL)
	if s.URL == "" || err != nil {
		return nil
	}
	index := indexOf(u.Path)
	if other := strings.ReplaceAll(index, datasetVariable, ""); strings.ContainsAny(other, "{}") && !strings.Contains(other, "<") {
		return []webhook.SettingError{{Key: "url", Problem: "has an index with a placeholder that is not known; the only one is " + datasetVariable}}
	}
	if s.Format == format.ECS || index != "" {
		return nil
	}
	return []webhook.SettingError{{Key: "url", Problem: "has no index; write https://host:9200/ followed by the index or data stream, or set format: ecs for data streams"}}
}

// preset creates a document for each event: every version of a detection has its own,
// ordered by @timestamp. Its _id is derived from the event, so an event that is sent
// again is detected as existing, which counts as delivered.
//
// A bulk request is not atomic: if one of its documents has to be sent again, those
// behind it are stored anyway, possibly including later versions of the same detection.
// So versions may be stored in an order that differs from their @timestamp. Sending one
// version at a time would only help readers that depend on the order of storing, at the
// cost of one request for each audit log entry.
//
// The document is what the event carries in the sink's format, with an event.ingested if
// that is ECS. Without a format it is the CloudEvent with an @timestamp, or the event's
// data if that has an @timestamp.
type preset struct {
	format format.Name
	now    func() time.Time
	bulk   *url.URL
	// actions are the beginnings of action lines up to the _id, by dataset. If index is
	// not a pattern, all are under the empty name.
	actions map[string]string
	index   string // as the settings name it, decoded, perhaps with {dataset}
}

const (
	// datasetVariable stands for the dataset in the name of an index.
	datasetVariable = "{dataset}"
	// dataStreams are the data streams of ECS documents if the URL has no index: their
	// names consist of a type, a dataset and a namespace.
	dataStreams = "logs-" + datasetVariable + "-default"
)

// datasets are the values of {dataset}, as event.dataset in ECS.
var datasets = []string{"ndrbridge.detection", "ndrbridge.audit", "ndrbridge.record", "ndrbridge.event"}

// dataset returns the dataset of an event.
func dataset(e *transform.Event) string { return "ndrbridge." + strings.TrimSuffix(e.Stream(), "s") }

// open returns the preset for an index or a data stream at bulk, such as
// https://es.example:9200/ndr, with or without /_bulk. In its name, {dataset} stands for
// one of the datasets. If Format is ECS, the index may be missing, which means
// logs-{dataset}-default. Key is an encoded API key, if any. now is the time of
// event.ingested. The error names the faulty setting.
func open(s webhook.PresetSettings, bulk *url.URL, now func() time.Time) (_ *webhook.Preset, err error) {
	// Keep the escaped path: the slash of a date index, <ndr-{now/d}>, is encoded.
	path := indexOf(bulk.EscapedPath())
	p := &preset{format: s.Format, now: now, bulk: bulk, actions: make(map[string]string)}
	before, name := "", path
	if i := strings.LastIndex(path, "/"); i >= 0 { // behind a proxy's path
		before, name = path[:i+1], path[i+1:]
	}
	if p.index, err = url.PathUnescape(name); err != nil {
		return nil, errors.New("the path of url cannot be decoded")
	}
	if p.index == "" {
		p.index = dataStreams
	}
	if p.isPattern() {
		path = strings.TrimSuffix(before, "/")
		for _, dataset := range datasets {
			index, err := jsontext.AppendQuote(nil, strings.ReplaceAll(p.index, datasetVariable, dataset))
			if err != nil {
				return nil, errors.New("the index in url is not valid UTF-8")
			}
			p.actions[dataset] = `{"create":{"_index":` + string(index) + `,"_id":`
		}
	} else {
		p.actions[""] = `{"create":{"_id":`
	}
	bulk.RawPath = strings.TrimSuffix("/"+path, "/") + "/_bulk"
	if bulk.Path, err = url.PathUnescape(bulk.RawPath); err != nil {
		return nil, errors.New("the path of url cannot be decoded")
	}
	query := bulk.Query()
	query.Set("filter_path", "errors,items.*.status,items.*.error.type,items.*.error.reason")
	bulk.RawQuery = query.Encode()
	header := map[string]string{"Content-Type": "application/x-ndjson"}
	if s.Key != "" {
		header["Authorization"] = "ApiKey " + s.Key
	}
	// The size is one that Elasticsearch handles well; its default maximum is 100 MB.
	body := webhook.Body{URL: bulk, Encode: p.appendDocument, MaxEvents: 2000, MaxBytes: 5 << 20}
	return &webhook.Preset{Header: header, Compose: body.Compose, Judge: judge, Checks: p.checks()}, nil
}

// isPattern reports whether the events of each dataset have an index of their own.
func (p *preset) isPattern() bool { return strings.Contains(p.index, datasetVariable) }

// indexOf returns the part of a URL's path that names the index.
func indexOf(path string) string {
	return strings.Trim(strings.TrimSuffix("/"+strings.Trim(path, "/"), "/_bulk"), "/")
}

func (p *preset) appendDocument(dst []byte, e transform.Event) ([]byte, error) {
	action := ""
	if p.isPattern() {
		action = dataset(&e)
	}
	dst = append(dst, p.actions[action]...)
	dst, err := jsontext.AppendQuote(dst, documentID(e))
	if err != nil {
		return nil, err
	}
	dst = append(dst, "}}\n"...)
	document := e.Payload()
	switch {
	case p.format == format.ECS:
		dst = appendTime(dst, "event.ingested", p.now())
		document = document[1:]
	case p.isCloudEvents() && hasTimestamp(e.Data()):
		document = e.Data()
	case !hasTimestamp(document):
		dst = appendTime(dst, "@timestamp", e.When())
		document = document[1:]
	}
	return transform.AppendLine(dst, document), nil
}

// appendTime appends the beginning of an object whose first member is a time.
func appendTime(dst []byte, name string, at time.Time) []byte {
	dst = append(append(append(dst, `{"`...), name...), `":"`...)
	return append(transform.AppendTime(dst, at), `",`...)
}

func (p *preset) isCloudEvents() bool { return p.format == "" || p.format == format.CloudEvents }

func hasTimestamp(data []byte) bool {
	for name := range jsonscan.Members(data) {
		if string(name) == "@timestamp" {
			return true
		}
	}
	return false
}

// maxID is the maximum length of an _id in bytes.
const maxID = 512

// documentID derives the _id from the event's source and id, which identify it.
func documentID(e transform.Event) string {
	id := strings.TrimPrefix(e.Source, "ndrbridge://") + "/" + e.ID
	if len(id) > maxID {
		sum := sha256.Sum256([]byte(id))
		id = hex.EncodeToString(sum[:])
	}
	return id
}

// reply is the answer to a bulk request, reduced by filter_path.
type reply struct {
	Errors *bool             `json:"errors"`
	Items  []map[string]item `json:"items"` // each keyed by its action
}

type item struct {
	Status int `json:"status"`
	Error  struct {
		Type   string `json:"type"`
		Reason string `json:"reason"`
	} `json:"error"`
}

// judge returns the result of each event.
func judge(r webhook.Request, a webhook.Answer) error {
	if err := a.Refusal(); err != nil {
		return err
	}
	var bulk reply
	if err := json.Unmarshal(a.Body, &bulk, jsontext.AllowInvalidUTF8(true)); err != nil || bulk.Errors == nil {
		return failure.Errorf(failure.Transient, "status %d, but the answer is not a bulk response: %s", a.Status, a.QuoteBody())
	}
	if !*bulk.Errors {
		return nil
	}
	if len(bulk.Items) != r.Events {
		return failure.Errorf(failure.Transient, "the answer has %d items for a bulk of %d", len(bulk.Items), r.Events)
	}
	each := make(failure.EventErrors, r.Events)
	failed := false
	for i, action := range bulk.Items {
		each[i] = action["create"].result(a) // without one, status 0
		failed = failed || each[i] != nil
	}
	if !failed {
		return nil
	}
	return each
}

// result returns the result of the event, which is part of a.
func (i item) result(a webhook.Answer) error {
	var class failure.Class
	var scope failure.Scope
	switch {
	case i.Status/100 == 2, i.Status == http.StatusConflict: // the document exists already
		return nil
	case i.Status == http.StatusTooManyRequests: // its shard is busy
		class, scope = failure.Throttled, failure.ScopePart
	case i.Status/100 == 5: // its shard is not available
		class, scope = failure.Transient, failure.ScopePart
	case i.Status == http.StatusForbidden, i.Status == http.StatusUnauthorized, // a block, a role
		i.Status == http.StatusNotFound: // no such index, and it is not created automatically
		class = failure.Halted
	case i.Status/100 == 4:
		class = failure.Rejected
	default:
		class = failure.Transient
	}
	err := failure.Errorf(class, "%d %s: %s", i.Status, a.Quote(i.Error.Type), a.Quote(i.Error.Reason))
	err.Scope = scope
	return err
}
