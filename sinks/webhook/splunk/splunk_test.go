package splunk

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"slices"
	"strconv"
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

const token = "a94a8fe5-ccb1-9ba6-1c4c-0873d391e987"

func at(url string) (*webhook.Preset, error) {
	return Spec().Open(webhook.PresetSettings{URL: url, Key: token, Index: "ndr"})
}

// collector answers as Splunk does.
type collector struct {
	acknowledges bool
	unasked      int // questions before the indexer has a batch
	asked        int
	indexed      []string // ids
	pending      map[int64][]string
}

var channels = regexp.MustCompile(`^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$`)

// sourceTypes match the source types of CloudEvents.
var sourceTypes = regexp.MustCompile(`^ndrbridge:(detection|audit|record|event)$`)

func code(status, code int, text string) presettest.Reply {
	return presettest.Reply{Status: status, Body: fmt.Sprintf(`{"text":%q,"code":%d}`, text, code)}
}

func (c *collector) answer(r presettest.Request) presettest.Reply {
	channel := r.Header.Get("X-Splunk-Request-Channel")
	scheme, given, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	switch {
	case scheme == "":
		return code(http.StatusUnauthorized, 2, "Token is required")
	case scheme != "Splunk" || given == "":
		return code(http.StatusUnauthorized, 3, "Invalid authorization")
	case given != token:
		return code(http.StatusForbidden, 4, "Invalid token")
	case r.Query != "" && r.Path != "/services/collector/ack":
		return code(http.StatusBadRequest, 16, "Query string authorization is not enabled")
	case c.acknowledges && !channels.MatchString(channel):
		return code(http.StatusBadRequest, 10, "Data channel is missing")
	case r.Path == "/services/collector/ack":
		return c.ack(r, channel)
	case r.Path != "/services/collector/event":
		return presettest.Reply{Status: http.StatusNotFound, Body: `{"text":"The requested URL was not found on this server.","code":404}`}
	case len(r.Body) > 1<<20:
		return presettest.Reply{Status: http.StatusRequestEntityTooLarge}
	}
	var ids []string
	decoder := json.NewDecoder(bytes.NewReader(r.Body))
	for {
		var event struct {
			Time                            json.Number
			Host, Source, SourceType, Index string
			Event                           struct{ SpecVersion, ID string }
		}
		var raw map[string]json.RawMessage
		if err := decoder.Decode(&raw); err == io.EOF {
			break
		} else if err != nil {
			return code(http.StatusBadRequest, 6, "Invalid data format")
		}
		whole, _ := json.Marshal(raw)
		_ = json.Unmarshal(whole, &event)
		at, err := strconv.ParseFloat(event.Time.String(), 64)
		switch {
		case raw["event"] == nil || string(raw["event"]) == "null":
			return code(http.StatusBadRequest, 12, "Event field is required")
		case string(raw["event"]) == `""` || string(raw["event"]) == "{}":
			return code(http.StatusBadRequest, 13, "Event field cannot be blank")
		case len(raw) != 6: // a member that it does not know, or one is missing
			return code(http.StatusBadRequest, 6, "Invalid data format")
		case event.Index != "ndr":
			return code(http.StatusBadRequest, 7, "Incorrect index")
		case err != nil || at < 1.7e9 || at > 1.9e9 || event.Host != "hq" || !sourceTypes.MatchString(event.SourceType) || event.Event.SpecVersion != "1.0":
			return code(http.StatusBadRequest, 6, "Invalid data format")
		}
		ids = append(ids, event.Event.ID)
	}
	if len(ids) == 0 {
		return code(http.StatusBadRequest, 5, "No data")
	}
	if !c.acknowledges {
		c.indexed = append(c.indexed, ids...)
		return code(http.StatusOK, 0, "Success")
	}
	id := int64(len(c.pending))
	c.pending[id] = ids
	return presettest.Reply{Status: http.StatusOK, Body: fmt.Sprintf(`{"text":"Success","code":0,"ackId":%d}`, id)}
}

func (c *collector) ack(r presettest.Request, channel string) presettest.Reply {
	if !c.acknowledges {
		return code(http.StatusBadRequest, 14, "ACK is disabled")
	}
	var question struct{ Acks []int64 }
	if err := json.Unmarshal(r.Body, &question); err != nil || len(question.Acks) != 1 || r.Query != "channel="+channel {
		return code(http.StatusBadRequest, 6, "Invalid data format")
	}
	id := question.Acks[0]
	c.asked++
	if c.asked%(c.unasked+1) != 0 {
		return presettest.Reply{Status: http.StatusOK, Body: fmt.Sprintf(`{"acks":{"%d":false}}`, id)}
	}
	c.indexed = append(c.indexed, c.pending[id]...)
	return presettest.Reply{Status: http.StatusOK, Body: fmt.Sprintf(`{"acks":{"%d":true}}`, id)}
}

func TestAcknowledgementsAreQueriedAtTheCollectorThatReceivedTheEvents(t *testing.T) {
	collectors := []*collector{
		{acknowledges: true, unasked: 1, pending: map[int64][]string{}},
		{acknowledges: true, unasked: 1, pending: map[int64][]string{}},
	}
	turn := 0
	s := presettest.Serve(t, func(r presettest.Request) presettest.Reply {
		turn++
		at := turn % 2
		if cookie := r.Header.Get("Cookie"); cookie != "" {
			node, found := strings.CutPrefix(cookie, "sticky=node")
			if at = slices.Index([]string{"0", "1"}, node); !found || at < 0 || r.Path != "/services/collector/ack" {
				return presettest.Reply{Status: http.StatusTeapot, Body: cookie}
			}
		}
		reply := collectors[at].answer(r)
		if r.Header.Get("Cookie") == "" {
			reply.Header = map[string]string{"Set-Cookie": fmt.Sprintf("sticky=node%d; Path=/; HttpOnly", at)}
		}
		return reply
	})
	p := presettest.Open(t, at, s.URL)
	for i := range 2 {
		require.NoError(t, presettest.Send(t, s.URL, p, sinktest.Events(3, 3, 0)...), "batch", i)
	}
	if len(collectors[0].indexed) != 3 || len(collectors[1].indexed) != 3 {
		t.Errorf("indexed %v and %v", collectors[0].indexed, collectors[1].indexed)
	}
}

func ids(events []transform.Event) []string {
	all := make([]string, len(events))
	for i, e := range events {
		all[i] = e.ID
	}
	return all
}

func TestEveryKindOfEventIsAccepted(t *testing.T) {
	presettest.EveryKind(t, func() func(presettest.Request) presettest.Reply { return new(collector).answer }, at)
}

// TestAnEventInAnotherFormatHasASourceTypeOfItsOwn sends a document of JSON as an object
// and one of text as a string.
func TestAnEventInAnotherFormatHasASourceTypeOfItsOwn(t *testing.T) {
	const (
		object = `{"class_uid":2004,"finding_info":{"uid":"25769804201"}}`
		line   = `CEF:0|v|p|1|port_scan|A "scan" \| <b>|6|msg=C:\\x\nnext`
	)
	for _, of := range []struct {
		name                  format.Name
		contentType, document string
	}{
		{format.OCSF, "application/json", object},
		{format.ECS, "application/json", object},
		{format.CEF, "text/plain; charset=utf-8", line},
		{format.LEEF, "text/plain; charset=utf-8", "LEEF:2.0|v|p|1|port_scan|x09|src=192.0.2.14\tsev=6"},
	} {
		t.Run(string(of.name), func(t *testing.T) {
			s := presettest.Serve(t, func(presettest.Request) presettest.Reply { return code(http.StatusOK, 0, "Success") })
			p := require.Value(Spec().Open(webhook.PresetSettings{URL: s.URL, Key: token, Format: of.name}))(t)
			sample := presettest.Events(t)[0].Event.WithDocument(of.contentType, []byte(of.document))
			require.NoError(t, presettest.Send(t, s.URL, p, sample))
			body := s.Requests()[0].Body
			var got struct {
				SourceType string
				Event      any
			}
			require.NoError(t, json.Unmarshal(body, &got))
			want := any(of.document)
			if !of.name.IsText() {
				_ = json.Unmarshal([]byte(of.document), &want) // it is a constant
			}
			assert.Equal(t, got.SourceType, "ndrbridge:detection:"+string(of.name), string(body))
			assert.DeepEqual(t, got.Event, want, string(body))
			presettest.Golden(t, "format-"+string(of.name), body)
		})
	}
}

func TestSourceTypes(t *testing.T) {
	for _, kind := range presettest.Events(t) {
		for _, of := range []struct {
			settings webhook.PresetSettings
			want     string
		}{
			{webhook.PresetSettings{}, "ndrbridge:" + map[string]string{"detections": "detection", "audit": "audit", "records": "record", "events": "event"}[kind.Event.Stream()]},
			{webhook.PresetSettings{Format: format.CloudEvents, SourceType: "ndr"}, "ndr"},
			{webhook.PresetSettings{Format: format.OCSF, SourceType: "ndr"}, "ndr"},
		} {
			of.settings.URL, of.settings.Key = "https://s.example", token
			p, err := Spec().Open(of.settings)
			require.NoError(t, err)
			request, err := p.Compose([]transform.Event{kind.Event})
			var sent struct{ SourceType string }
			if err := errors.Join(err, json.Unmarshal(request.Body, &sent)); err != nil || sent.SourceType != of.want {
				t.Errorf("%s: source type %q instead of %q: %v", kind.Name, sent.SourceType, of.want, err)
			}
		}
	}
}

func TestABatchIsDividedIntoRequestsOfTheSizeThatSplunkAccepts(t *testing.T) {
	c := &collector{}
	s := presettest.Serve(t, c.answer)
	events := sinktest.Events(3000, 10, 1500)
	require.NoError(t, presettest.Send(t, s.URL, presettest.Open(t, at, s.URL), events...))
	assert.EqualSlices(t, c.indexed, ids(events), len(c.indexed), "events are indexed")
	if n := len(s.Requests()); n < 5 || n > 8 {
		t.Errorf("%d requests", n)
	}
}

func TestEventsAreDurableWhenTheIndexerConfirmsThem(t *testing.T) {
	c := &collector{acknowledges: true, unasked: 2, pending: map[int64][]string{}}
	s := presettest.Serve(t, c.answer)
	events := sinktest.Events(1500, 10, 600)
	require.NoError(t, presettest.Send(t, s.URL, presettest.Open(t, at, s.URL), events...))
	assert.EqualSlices(t, c.indexed, ids(events), len(c.indexed), "events are indexed")
	assert.Equal(t, c.asked, 6, "requests")
}

func TestEventsNotConfirmedInTimeAreSentAgain(t *testing.T) {
	c := &collector{acknowledges: true, unasked: 1 << 30, pending: map[int64][]string{}}
	s := presettest.Serve(t, c.answer)
	sink, err := webhook.New(webhook.Options{URL: s.URL, Preset: presettest.Open(t, at, s.URL), Timeout: 300 * time.Millisecond})
	require.NoError(t, err)
	defer sink.Close()
	if class, _ := presettest.Result(sink.Send(t.Context(), sinktest.Events(3, 1, 0))); class != failure.Transient {
		t.Errorf("class %q", class)
	}
}

func TestSplunksAnswers(t *testing.T) {
	reply := func(status, number int) presettest.Reply { return code(status, number, "see the code") }
	presettest.Answers(t, presettest.Events(t)[0].Event, func(url string) (*webhook.Preset, error) {
		return at(strings.TrimSuffix(url, "/hook"))
	}, []presettest.Case{
		{Name: "success is durable", Reply: reply(200, 0)},
		{Name: "a queue that fills up has taken it", Reply: reply(200, 24)},
		{Name: "acknowledgements that fill up have taken it", Reply: reply(200, 25)},
		{Name: "a disabled token halts", Reply: reply(403, 1), Class: failure.Halted},
		{Name: "no token halts", Reply: reply(401, 2), Class: failure.Halted},
		{Name: "an invalid authorization halts", Reply: reply(401, 3), Class: failure.Halted},
		{Name: "an invalid token halts", Reply: reply(403, 4), Class: failure.Halted},
		{Name: "no data is rejected", Reply: reply(400, 5), Class: failure.Rejected},
		{Name: "an invalid format is rejected", Reply: reply(400, 6), Class: failure.Rejected},
		{Name: "an incorrect index halts", Reply: reply(400, 7), Class: failure.Halted},
		{Name: "an internal error passes", Reply: reply(500, 8), Class: failure.Transient},
		{Name: "a busy server passes", Reply: reply(503, 9), Class: failure.Transient},
		{Name: "a missing channel halts", Reply: reply(400, 10), Class: failure.Halted},
		{Name: "an invalid channel halts", Reply: reply(400, 11), Class: failure.Halted},
		{Name: "a missing event is rejected", Reply: reply(400, 12), Class: failure.Rejected},
		{Name: "a blank event is rejected", Reply: reply(400, 13), Class: failure.Rejected},
		{Name: "acknowledgement that is off halts", Reply: reply(400, 14), Class: failure.Halted},
		{Name: "fields that are wrong are rejected", Reply: reply(400, 15), Class: failure.Rejected},
		{Name: "a token in the query halts", Reply: reply(400, 16), Class: failure.Halted},
		{Name: "full queues pass", Reply: reply(503, 18), Class: failure.Transient},
		{Name: "no acknowledgement service passes", Reply: reply(503, 19), Class: failure.Transient},
		{Name: "both pass", Reply: reply(503, 20), Class: failure.Transient},
		{Name: "an invalid token with another code halts", Reply: reply(400, 21), Class: failure.Halted},
		{Name: "a disabled token with another code halts", Reply: reply(400, 22), Class: failure.Halted},
		{Name: "a server that stops passes", Reply: reply(503, 23), Class: failure.Transient},
		{Name: "a queue at capacity waits", Reply: reply(429, 26), Class: failure.Throttled},
		{Name: "acknowledgements at capacity wait", Reply: reply(429, 27), Class: failure.Throttled},
		{Name: "a code that nobody knows is read by its status", Reply: reply(418, 99), Class: failure.Rejected},
		{Name: "a busy server that asks for a wait gets it", Class: failure.Throttled, Wait: 5 * time.Second,
			Reply: presettest.Reply{Status: 503, Body: `{"text":"Server is busy","code":9}`, Header: map[string]string{"Retry-After": "5"}}},
		{Name: "an unrelated page does not acknowledge", Reply: presettest.Reply{Status: 200, Body: "<html>"}, Class: failure.Halted},
		{Name: "another server's JSON does not acknowledge", Reply: presettest.Reply{Status: 200, Body: `{"ok":true}`}, Class: failure.Halted},
		{Name: "too large is rejected", Reply: presettest.Reply{Status: 413, Body: "Content-Length of 1048577 too large"}, Class: failure.Rejected},
	})
}

func TestAnotherServerThanACollectorIsNamed(t *testing.T) {
	for _, body := range []string{"", "OK", `{"ok":true}`, `[]`} {
		s := presettest.Serve(t, func(presettest.Request) presettest.Reply { return presettest.Reply{Status: 200, Body: body} })
		err := presettest.Send(t, s.URL, presettest.Open(t, at, s.URL), sinktest.Events(2, 1, 0)...)
		sinktest.ExpectFailure(t, err, failure.Halted, "200, but not as an HTTP Event Collector answers", "/services/collector/event", body)
	}
}

func TestABatchOfWhichOneIsInvalidIsRejectedAsAWhole(t *testing.T) {
	s := presettest.Serve(t, func(presettest.Request) presettest.Reply {
		return presettest.Reply{Status: 400, Body: `{"text":"Invalid data format","code":6,"invalid-event-number":1}`}
	})
	err := presettest.Send(t, s.URL, presettest.Open(t, at, s.URL), sinktest.Events(3, 1, 0)...)
	if _, apart := err.(failure.EventErrors); apart || err == nil {
		t.Fatalf("%v", err)
	}
	sinktest.ExpectFailure(t, err, failure.Rejected)
}

func TestOptionsThatAreWrong(t *testing.T) {
	for _, o := range []webhook.PresetSettings{{URL: "https://s.example"}, {URL: "https://s.example/api", Key: token}, {URL: "::", Key: token}} {
		if _, err := Spec().Open(o); err == nil {
			t.Errorf("%+v is taken", o)
		}
	}
}

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

func hec(ack string) http.Handler {
	return presettest.API("Authorization", "Splunk "+presettest.CheckKey, func(w http.ResponseWriter, _ *http.Request) {
		presettest.JSON(w, http.StatusForbidden, `{"text":"Invalid token","code":4}`)
	}, map[string]string{
		"GET /services/collector/health": `200 {"text":"HEC is healthy","code":17}`,
		"POST /services/collector/ack":   ack,
	})
}

// answering returns a server that answers every request with 200 and the body.
func answering(body string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, body) })
}

func TestChecks(t *testing.T) {
	toSplunk := func(token string) func(string) (*webhook.Preset, error) {
		return func(url string) (*webhook.Preset, error) {
			return Spec().Open(webhook.PresetSettings{URL: url, Key: token})
		}
	}
	acks, noAcks := `200 {"acks":{"0":false}}`, `400 {"text":"ACK is disabled","code":14}`
	presettest.Checks(t, []presettest.CheckTest{
		{Name: "a token with acknowledgement", Server: hec(acks), Open: toSplunk(presettest.CheckKey), Want: presettest.Row("token", finding.OK, "with indexer acknowledgement", "")},
		{Name: "a token without it", Server: hec(noAcks), Open: toSplunk(presettest.CheckKey), Want: presettest.Row("token", finding.Remark, "without indexer acknowledgement", "")},
		{Name: "a wrong token", Server: hec(acks), Open: toSplunk("wrong-token"), Want: presettest.Row("collector", finding.Failed, "Invalid token", "port 8088")},
		{Name: "no collector", Server: http.NotFoundHandler(), Open: toSplunk(presettest.CheckKey), Want: presettest.Row("collector", finding.Failed, "404", "HTTP Event Collector")},
		{Name: "a login page", Server: answering("<html>"), Open: toSplunk(presettest.CheckKey), Want: presettest.Row("collector", finding.Failed, "<html>", "HTTP Event Collector")},
		{Name: "another server", Server: answering(`{"ok":true}`), Open: toSplunk(presettest.CheckKey), Want: presettest.Row("token", finding.Failed, "not as an HTTP Event Collector", "/services/collector/event")},
		{Name: "a collector whose queues are full", Server: presettest.API("", "", nil, map[string]string{"GET /services/collector/health": `503 {"text":"HEC is unhealthy","code":18}`}), Open: toSplunk(presettest.CheckKey), Want: presettest.Row("collector", finding.Warning, "503", "later")},
	}, "/ack")
}
