// Package sentinel sends events to Microsoft Sentinel, by the Logs Ingestion API of Azure
// Monitor.
package sentinel

import (
	"cmp"
	"net/http"
	"net/url"
	"regexp"
	"strings"

	"github.com/go-json-experiment/json"

	"ndrbridge/internal/failure"
	"ndrbridge/sinks/webhook"
	"ndrbridge/transform"
	"ndrbridge/transform/format"
)

// Spec describes the preset.
func Spec() webhook.PresetSpec {
	return webhook.PresetSpec{
		Name:    "sentinel",
		Address: "the logs ingestion endpoint: `https://ndr-x1.westeurope-1.ingest.monitor.azure.com`; requires `auth.oauth`",
		Limits:  "1 MB per request, and per event",
		About:   "Microsoft Sentinel",
		Example: `    webhook:
      preset: sentinel
      url: https://REPLACE.westeurope-1.ingest.monitor.azure.com # of the data collection endpoint
      rule_id: dcr-REPLACE # of the data collection rule
      auth:
        oauth:
          token_url: https://login.microsoftonline.com/REPLACE/oauth2/v2.0/token # with the tenant's id
          client_id: REPLACE
          client_secret_file: ./sentinel.key # a file with the client secret
`,
		Guide: webhook.Guide{
			Title: "Sentinel", Prepare: "create the tables and the data collection rule, and register an application with the role Monitoring Metrics Publisher on that rule and a client secret",
			Look: "the table `NdrbridgeDetection_CL` has a row for each version of a detection; the first ones take minutes",
		},
		OAuthScope: "https://monitor.azure.com//.default",
		Keys:       []string{"rule_id", "stream"},
		Formats:    []format.Name{format.OCSF, format.ECS},
		PublicPath: true,
		Defaults:   webhook.PresetDefaults{MaxBatchBytes: 4 << 20, Gzip: true, Concurrency: 8},
		Sample: webhook.PresetSettings{
			URL: "https://sentinel.example", RuleID: "dcr-00000000000000000000000000000000",
		},
		Check: checkSettings,
		New:   open,
	}
}

var (
	ruleID     = regexp.MustCompile(`^dcr-[0-9a-f]{32}$`)
	streamName = regexp.MustCompile(`^(Custom|Microsoft)-[A-Za-z0-9_-]{1,100}$`)
)

func checkSettings(s webhook.PresetSettings) (errs []webhook.SettingError) {
	if u, err := url.Parse(s.URL); err == nil && strings.Contains(u.Path, "dataCollectionRules") {
		errs = append(errs, webhook.SettingError{Key: "url", Problem: "names a rule; write the logs ingestion endpoint only, https://host, and set rule_id"})
	}
	switch {
	case s.RuleID == "":
		errs = append(errs, webhook.SettingError{Key: "rule_id", Problem: "is missing; set it to the immutable id of the data collection rule, dcr- and 32 digits"})
	case !ruleID.MatchString(s.RuleID):
		errs = append(errs, webhook.SettingError{Key: "rule_id", Problem: "is not an immutable id of a data collection rule; write dcr- and 32 hexadecimal digits, as the rule's JSON view shows it"})
	}
	if s.Stream != "" && !streamName.MatchString(s.Stream) {
		errs = append(errs, webhook.SettingError{Key: "stream", Problem: "is not the name of a stream; write Custom- followed by letters, digits, _ and -, as in the rule's streamDeclarations"})
	}
	return errs
}

// preset sends arrays of documents to the streams of a data collection rule, which
// transforms them into rows of tables. The rule is expected to make TimeGenerated.
//
// The API confirms that it received the rows. It reports neither a row that the rule cannot
// transform nor a column that it does not declare.
type preset struct {
	streams map[string]*url.URL // by the event's stream
	other   *url.URL            // of any other stream
}

// apiVersion is the version of the API.
const apiVersion = "2023-01-01"

// streams are the names of the rule's streams, by the event's.
var streams = map[string]string{
	transform.StreamDetections: "Custom-NdrbridgeDetection",
	transform.StreamAudit:      "Custom-NdrbridgeAudit",
	transform.StreamRecords:    "Custom-NdrbridgeRecord",
	transform.StreamEvents:     "Custom-NdrbridgeEvent",
}

// open returns the preset for the logs ingestion endpoint of the rule or of a data collection
// endpoint; RuleID is the rule's immutable id. Stream is the rule's stream for all events; if
// it is empty, events of different streams go to different streams of the rule. Requests are
// authorized by OAuth.
func open(s webhook.PresetSettings, endpoint *url.URL) (*webhook.Preset, error) {
	if endpoint.Path == "" {
		endpoint.Path = "/" // JoinPath keeps a relative path relative
	}
	to := func(stream string) *url.URL {
		u := endpoint.JoinPath("dataCollectionRules", s.RuleID, "streams", stream)
		query := u.Query()
		query.Set("api-version", apiVersion)
		u.RawQuery = query.Encode()
		return u
	}
	p := preset{streams: make(map[string]*url.URL), other: to(cmp.Or(s.Stream, streams[transform.StreamEvents]))}
	if s.Stream == "" {
		for stream, name := range streams {
			p.streams[stream] = to(name)
		}
	}
	return &webhook.Preset{Compose: p.compose, Judge: judge}, nil
}

func (p preset) target(e transform.Event) *url.URL {
	if u, ok := p.streams[e.Stream()]; ok {
		return u
	}
	return p.other
}

// maxBytes applies to the request before and after compression. As the API's own clients do,
// it takes a million bytes for a megabyte.
const maxBytes = 1_000_000

// compose returns an array of the documents of the leading events that go to one stream.
func (p preset) compose(events []transform.Event) (webhook.Request, error) {
	to, n := p.target(events[0]), 1
	for n < len(events) && p.target(events[n]) == to {
		n++
	}
	return webhook.Body{
		URL: to, Encode: webhook.AppendPayload, MaxEvents: 10_000, MaxBytes: maxBytes, MaxEvent: maxBytes - len("[]"), Open: "[", Between: ",", Close: "]",
	}.Compose(events[:n])
}

// reply is the answer to a request that failed.
type reply struct {
	Error struct {
		Code string `json:"code"`
	} `json:"error"`
}

// judge accepts the whole request on status 204.
func judge(_ webhook.Request, a webhook.Answer) error {
	var answer reply
	switch err := a.Refusal(); {
	case err == nil && a.Status != http.StatusNoContent:
		return a.Error(failure.Transient) // not from this API
	case err != nil && json.Unmarshal(a.Body, &answer) == nil && answer.Error.Code == "InvalidStream":
		return a.Error(failure.Halted) // the rule has no such stream
	default:
		return err
	}
}
