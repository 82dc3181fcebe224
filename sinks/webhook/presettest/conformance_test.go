package presettest_test

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/cloudevents/sdk-go/v2/event"

	"ndrbridge/sinks"
	"ndrbridge/sinks/sinktest"
	"ndrbridge/sinks/webhook"
	"ndrbridge/sinks/webhook/datadog"
	"ndrbridge/sinks/webhook/elasticsearch"
	"ndrbridge/sinks/webhook/splunk"
	"ndrbridge/transform"
)

// store is a service that stores whole events; unpack decodes its requests, and answer
// writes its answers.
type store struct {
	unpack func(body []byte) ([][]byte, error)
	// answer writes the result of a request's events: whether each was refused.
	answer func(w http.ResponseWriter, refused []bool)

	mu     sync.Mutex
	held   map[string]event.Event
	order  []string
	wrong  error
	refuse string
	fault  http.HandlerFunc
}

func (s *store) ServeHTTP(w http.ResponseWriter, request *http.Request) {
	body, err := unzipped(request)
	if err != nil {
		return // the sink gave up
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.fault != nil {
		s.fault(w, request)
		return
	}
	raw, err := s.unpack(body)
	if err != nil {
		s.wrong = err
	}
	refused := make([]bool, len(raw))
	var events []event.Event
	for i, one := range raw {
		e, err := sinktest.Structured(one)
		if err != nil {
			s.wrong = fmt.Errorf("%w: %.300s", err, one)
		}
		refused[i] = e.ID() == s.refuse
		events = append(events, e)
	}
	var answer bytes.Buffer
	recorder := httptest.NewRecorder()
	recorder.Body = &answer
	s.answer(recorder, refused)
	for i, e := range events {
		if recorder.Code/100 == 2 && !refused[i] {
			key := e.Source() + " " + e.ID()
			s.held[key] = e
			s.order = append(s.order, key)
		}
	}
	w.WriteHeader(recorder.Code)
	_, _ = w.Write(answer.Bytes())
}

// unzipped returns the decompressed body.
func unzipped(request *http.Request) ([]byte, error) {
	if request.Header.Get("Content-Encoding") != "gzip" {
		return io.ReadAll(request.Body)
	}
	body, err := gzip.NewReader(request.Body)
	if err != nil {
		return nil, err
	}
	return io.ReadAll(body)
}

func (s *store) received() ([]event.Event, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	events := make([]event.Event, len(s.order))
	for i, key := range s.order {
		events[i] = s.held[key]
	}
	return events, s.wrong
}

func (s *store) set(change func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	change()
}

// whole answers for a request of which one refused event is all.
func whole(ok int, body string) func(http.ResponseWriter, []bool) {
	return func(w http.ResponseWriter, refused []bool) {
		for _, r := range refused {
			if r {
				w.WriteHeader(http.StatusBadRequest)
				return
			}
		}
		w.WriteHeader(ok)
		_, _ = io.WriteString(w, body)
	}
}

func TestConformance(t *testing.T) {
	timestamp := regexp.MustCompile(`^\{"@timestamp":"[^"]*",`)
	for _, test := range []struct {
		name   string
		open   func(url string) (webhook.Preset, error)
		unpack func(body []byte) ([][]byte, error)
		answer func(http.ResponseWriter, []bool)
		o      webhook.Options
	}{
		{
			name: "splunk",
			open: func(url string) (webhook.Preset, error) {
				return splunk.New(splunk.Options{URL: url, Token: "s3cretsplunk"})
			},
			unpack: func(body []byte) (all [][]byte, err error) {
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
			answer: whole(http.StatusOK, `{"text":"Success","code":0}`),
		},
		{
			name: "elasticsearch",
			open: func(url string) (webhook.Preset, error) {
				return elasticsearch.New(elasticsearch.Options{URL: url + "/ndr", APIKey: "s3cretelastic"})
			},
			unpack: func(body []byte) (all [][]byte, err error) {
				lines := bytes.Split(bytes.TrimSuffix(body, []byte("\n")), []byte("\n"))
				for i := 1; i < len(lines); i += 2 {
					all = append(all, timestamp.ReplaceAll(lines[i], []byte("{")))
				}
				return all, nil
			},
			answer: func(w http.ResponseWriter, refused []bool) {
				items := make([]string, len(refused))
				for i, r := range refused {
					items[i] = `{"create":{"status":201}}`
					if r {
						items[i] = `{"create":{"status":400,"error":{"type":"document_parsing_exception"}}}`
					}
				}
				fmt.Fprintf(w, `{"errors":true,"items":[%s]}`, strings.Join(items, ","))
			},
			o: webhook.Options{Concurrency: 4, Gzip: true},
		},
		{
			name: "datadog",
			open: func(string) (webhook.Preset, error) {
				return datadog.New(datadog.Options{APIKey: "s3cretdatadog"})
			},
			unpack: func(body []byte) (all [][]byte, err error) {
				var logs []struct{ Event json.RawMessage }
				err = json.Unmarshal(body, &logs)
				for _, log := range logs {
					all = append(all, log.Event)
				}
				return all, err
			},
			answer: whole(http.StatusAccepted, `{}`),
			o:      webhook.Options{Concurrency: 4, Gzip: true},
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			sinktest.Run(t, []transform.Mode{transform.Structured}, func(t *testing.T, _ transform.Mode) sinktest.Target {
				s := &store{unpack: test.unpack, answer: test.answer, held: map[string]event.Event{}}
				server := httptest.NewServer(s)
				t.Cleanup(server.Close)
				relay := sinktest.NewRelay(t, server.Listener.Addr().String())
				o := test.o
				o.URL = "http://" + relay.Addr()
				fault := func(status int, retryAfter string) {
					s.set(func() {
						s.fault = func(w http.ResponseWriter, request *http.Request) {
							w.Header().Set("Retry-After", retryAfter)
							http.Error(w, fmt.Sprint(request.Header), status)
						}
					})
				}
				return sinktest.Target{
					Open: func() (_ sinks.Sink, err error) {
						if o.Preset, err = test.open(o.URL); err != nil {
							return nil, err
						}
						return webhook.New(o)
					},
					Received: s.received,
					Down:     relay.Down,
					Hang:     relay.Hang,
					Halt:     func() { fault(http.StatusForbidden, "") },
					Throttle: func() time.Duration {
						fault(http.StatusTooManyRequests, "7")
						return 7 * time.Second
					},
					Reject: func(id string) { s.set(func() { s.refuse = id }) },
					Restore: func() {
						s.set(func() { s.fault = nil })
						relay.Restore()
					},
					Secrets: []string{"s3cretsplunk", "s3cretelastic", "s3cretdatadog"},
				}
			})
		})
	}
}
