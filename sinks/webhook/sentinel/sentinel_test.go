package sentinel

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"ndrbridge/internal/failure"
	"ndrbridge/internal/finding"
	"ndrbridge/internal/oauthtoken"
	"ndrbridge/sinks"
	"ndrbridge/sinks/webhook"
	"ndrbridge/test/assert"
	"ndrbridge/test/findingtest"
	"ndrbridge/test/presettest"
	"ndrbridge/test/require"
	"ndrbridge/test/sinktest"
	"ndrbridge/transform"
	"ndrbridge/transform/format"
)

const testRule = "dcr-0123456789abcdef0123456789abcdef"

func settings(url string) webhook.PresetSettings {
	return webhook.PresetSettings{URL: url, RuleID: testRule}
}

func opened(t testing.TB, s webhook.PresetSettings) *webhook.Preset {
	t.Helper()
	p := require.Value(Spec().Open(s))(t)
	return p
}

// send sends events by the preset, in batches as a runner does.
func send(t *testing.T, url string, settings webhook.PresetSettings, events ...transform.Event) error {
	t.Helper()
	s, err := webhook.New(webhook.Options{URL: url, Preset: opened(t, settings), Gzip: true, Timeout: 20 * time.Second})
	require.NoError(t, err)
	defer s.Close()
	return s.Send(t.Context(), events)
}

// ingestion is the Logs Ingestion API of a rule, as strict as its documentation.
type ingestion struct {
	tokens *presettest.TokenServer // nil: requests are not authorized
	// streams are those that the rule declares.
	streams []string

	mu       sync.Mutex
	ids      map[string][]string // of the documents that were accepted, by stream
	requests []string            // the stream of each request
	bodies   []string
}

func (in *ingestion) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	compressed, err := io.ReadAll(r.Body)
	if err != nil {
		return // the sink gave up
	}
	r.Body = io.NopCloser(strings.NewReader(string(compressed)))
	body, err := presettest.Body(r)
	in.mu.Lock()
	defer in.mu.Unlock()
	refuse := func(status int, code string) {
		presettest.JSON(w, status, fmt.Sprintf(`{"error":{"code":%q,"message":"see the code"}}`, code))
	}
	var rule, stream string
	path := strings.NewReplacer("/", " ").Replace(r.URL.EscapedPath())
	_, scanErr := fmt.Sscanf(path, " dataCollectionRules %s streams %s", &rule, &stream)
	var documents []struct {
		ID string `json:"id"`
	}
	switch {
	case in.tokens != nil && !in.tokens.Valid(r.Header.Get("Authorization")):
		refuse(http.StatusUnauthorized, "AuthenticationFailed")
	case r.Method != http.MethodPost || scanErr != nil || strings.Count(path, " ") != 4 || rule != testRule:
		refuse(http.StatusNotFound, "NotFound")
	case r.URL.RawQuery != "api-version=2023-01-01":
		refuse(http.StatusBadRequest, "UnsupportedApiVersion")
	case !slices.Contains(in.streams, stream):
		refuse(http.StatusBadRequest, "InvalidStream")
	case r.Header.Get("Content-Type") != "application/json" || err != nil:
		refuse(http.StatusUnsupportedMediaType, "UnsupportedMediaType")
	case len(compressed) > 1_000_000 || len(body) > 1_000_000:
		refuse(http.StatusRequestEntityTooLarge, "ContentLengthLimitExceeded")
	case body[0] != '[' || json.Unmarshal(body, &documents) != nil || len(documents) == 0:
		refuse(http.StatusBadRequest, "InvalidPayload")
	default:
		for _, d := range documents {
			in.ids[stream] = append(in.ids[stream], d.ID)
		}
		in.requests, in.bodies = append(in.requests, stream), append(in.bodies, string(body))
		w.WriteHeader(http.StatusNoContent)
	}
}

// all are the streams of the rule in deploy/sentinel.
var all = []string{"Custom-NdrbridgeAudit", "Custom-NdrbridgeDetection", "Custom-NdrbridgeEvent", "Custom-NdrbridgeRecord"}

func serve(t *testing.T, streams ...string) (*ingestion, string) {
	in := &ingestion{streams: streams, ids: make(map[string][]string)}
	server := httptest.NewServer(in)
	t.Cleanup(server.Close)
	return in, server.URL
}

func TestEveryKindOfEventIsARow(t *testing.T) {
	for _, kind := range presettest.Events(t) {
		t.Run(kind.Name, func(t *testing.T) {
			in, url := serve(t, all...)
			require.NoError(t, send(t, url, settings(url), kind.Event))
			presettest.Golden(t, kind.Name, fmt.Appendf(nil, `{"stream":%q,"body":%s}`, in.requests[0], in.bodies[0]))
		})
	}
}

func TestABatchTakesARequestForEachRunOfAStream(t *testing.T) {
	in, url := serve(t, all...)
	var events []transform.Event
	want := make(map[string][]string)
	for _, kind := range []struct{ path, stream string }{
		{"detections", "Custom-NdrbridgeDetection"}, {"audit", "Custom-NdrbridgeAudit"},
		{"records/dns", "Custom-NdrbridgeRecord"}, {"events", "Custom-NdrbridgeEvent"},
	} {
		for i := range 40 {
			id := fmt.Sprint(kind.path, "-", i)
			e, err := transform.New(transform.Attributes{ID: id, Source: "ndrbridge://hq/" + kind.path, Type: "io.ndrbridge.a.b"}, []byte(`{}`))
			require.NoError(t, err)
			events = append(events, e)
			want[kind.stream] = append(want[kind.stream], id)
		}
	}
	require.NoError(t, send(t, url, settings(url), events...))
	assert.Equal(t, fmt.Sprint(in.ids), fmt.Sprint(want), "in them", in.ids)
	assert.Equal(t, len(in.requests), 4, "in them", in.ids, "requests")

	t.Run("but one if all have the same stream", func(t *testing.T) {
		in, url := serve(t, "Custom-Everything")
		s := settings(url + "/")
		s.Stream = "Custom-Everything"
		require.NoError(t, send(t, url, s, events...))
		assert.Equal(t, len(in.ids["Custom-Everything"]), len(events), "in them", in.ids)
		assert.Equal(t, len(in.requests), 1, "in them", in.ids, "requests")
	})
}

func TestAStreamThatTheRuleDoesNotHaveHalts(t *testing.T) {
	in, url := serve(t, "Custom-NdrbridgeAudit")
	events := presettest.Only(presettest.Events(t))
	slices.SortStableFunc(events, func(a, b transform.Event) int { return strings.Compare(a.Stream(), b.Stream()) }) // audit first
	err := send(t, url, settings(url), events...)
	each, ok := err.(failure.EventErrors)
	require.True(t, ok, err)
	for i, err := range each {
		class, _ := failure.ClassOf(err)
		if delivered := events[i].Stream() == transform.StreamAudit; delivered != (err == nil) || !delivered && class != failure.Halted {
			t.Errorf("%s: class %s: %v", events[i].Stream(), class, err)
		}
	}
	if len(in.requests) != 1 {
		t.Errorf("accepted requests: %v", in.requests)
	}
}

func TestRequestsStayWithinAMegabyte(t *testing.T) {
	in, url := serve(t, all...)
	events := sinktest.Events(13, 5, 90_000)
	require.NoError(t, send(t, url, settings(url), events...))
	assert.Equal(t, len(in.ids["Custom-NdrbridgeDetection"]), len(events), "events")
	assert.Equal(t, len(in.requests), 2, "requests")

	t.Run("an event that is larger is rejected alone", func(t *testing.T) {
		events := sinktest.Events(3, 3, 0)
		events[1] = sinktest.Events(1, 1, 1_000_000)[0]
		each, ok := send(t, url, settings(url), events...).(failure.EventErrors)
		if !ok || each[0] != nil || !failure.IsUnsent(each[1]) || each[2] != nil {
			t.Errorf("got %v", each)
		}
	})
}

func TestDocumentsInAnotherFormatAreItems(t *testing.T) {
	p := opened(t, webhook.PresetSettings{URL: "https://e.example", RuleID: testRule, Format: format.OCSF})
	e := presettest.Events(t)[0].Event.WithDocument("application/json", []byte(`{"class_uid":2004}`))
	request, err := p.Compose([]transform.Event{e, e})
	if want := `[{"class_uid":2004},{"class_uid":2004}]`; err != nil || string(request.Body) != want || request.Events != 2 {
		t.Errorf("%v: %s", err, request.Body)
	}
}

func TestTheAPIsAnswers(t *testing.T) {
	answer := func(status int, code string) presettest.Reply {
		return presettest.Reply{Status: status, Body: fmt.Sprintf(`{"error":{"code":%q,"message":"m"}}`, code)}
	}
	throttled := answer(429, "TooManyRequests")
	throttled.Header = map[string]string{"Retry-After": "11"}
	presettest.Answers(t, presettest.Events(t)[0].Event, func(url string) (*webhook.Preset, error) { return opened(t, settings(url)), nil }, []presettest.Case{
		{Name: "no content is durable", Reply: presettest.Reply{Status: 204}},
		{Name: "a page of a proxy does not acknowledge", Reply: presettest.Reply{Status: 200, Body: "<html>"}, Class: failure.Halted},
		{Name: "an invalid payload is rejected", Reply: answer(400, "InvalidPayload"), Class: failure.Rejected},
		{Name: "an unknown stream halts", Reply: answer(400, "InvalidStream"), Class: failure.Halted},
		{Name: "a wrong token halts", Reply: answer(401, "AuthenticationFailed"), Class: failure.Halted},
		{Name: "a missing role halts", Reply: answer(403, "OperationFailed"), Class: failure.Halted},
		{Name: "an unknown rule halts", Reply: answer(404, "NotFound"), Class: failure.Halted},
		{Name: "too large is rejected", Reply: answer(413, "ContentLengthLimitExceeded"), Class: failure.Rejected},
		{Name: "too many wait", Reply: throttled, Class: failure.Throttled, Wait: 11 * time.Second},
		{Name: "a failure passes", Reply: answer(500, "InternalServerError"), Class: failure.Transient},
		{Name: "an outage passes", Reply: presettest.Reply{Status: 503}, Class: failure.Transient},
	})
}

func TestItSignsInAsAzureExpects(t *testing.T) {
	in, url := serve(t, all...)
	in.tokens = presettest.NewTokenServer(t)
	in.tokens.Scope = Spec().OAuthScope
	s, err := webhook.New(webhook.Options{URL: url, Preset: opened(t, settings(url)), Gzip: true, Concurrency: 3, OAuth: &oauthtoken.Grant{
		TokenURL: in.tokens.URL, ClientID: presettest.ClientID, ClientSecret: presettest.ClientSecret, Scope: Spec().OAuthScope,
	}})
	require.NoError(t, err)
	defer s.Close()
	require.NoError(t, s.Send(t.Context(), presettest.Burst(t, 300)))
	if issued, _ := in.tokens.Counts(); issued != 1 || len(in.ids["Custom-NdrbridgeDetection"]) != 300 {
		t.Errorf("%d tokens, %d events", issued, len(in.ids["Custom-NdrbridgeDetection"]))
	}
	found := s.Check(t.Context(), sinks.Trial{Now: time.Now})
	findingtest.Expect(t, found, findingtest.Row{Step: "token", Result: finding.OK, Detail: "issued a token for 59m59s"})
	findingtest.Expect(t, found, findingtest.Row{Step: "delivery", Result: finding.Untried, Detail: "without sending an event", Advice: "ndrbridge send"})
}

func TestSettingsThatAreWrong(t *testing.T) {
	for name, test := range map[string]struct {
		change func(*webhook.PresetSettings)
		says   string
	}{
		"no rule":               {func(s *webhook.PresetSettings) { s.RuleID = "" }, "rule_id is missing"},
		"a rule's name":         {func(s *webhook.PresetSettings) { s.RuleID = "ndrbridge" }, "rule_id is not an immutable id"},
		"a rule in the url":     {func(s *webhook.PresetSettings) { s.URL += "/dataCollectionRules/" + testRule }, "url names a rule"},
		"a stream that is none": {func(s *webhook.PresetSettings) { s.Stream = "Ndrbridge_CL" }, "stream is not the name"},
		"a url that is none":    {func(s *webhook.PresetSettings) { s.URL = ":" }, "url cannot be parsed"},
	} {
		t.Run(name, func(t *testing.T) {
			s := settings("https://e.example")
			test.change(&s)
			if _, err := Spec().Open(s); err == nil || !strings.Contains(err.Error(), test.says) {
				t.Errorf("got %v", err)
			}
		})
	}
}

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
			OAuth:       &oauthtoken.Grant{TokenURL: tokens.URL, ClientID: presettest.ClientID, ClientSecret: presettest.ClientSecret},
		},
	})
}
