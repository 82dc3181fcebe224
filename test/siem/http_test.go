package siem_test

import (
	"bytes"
	"compress/gzip"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"ndrbridge/configs"
	"ndrbridge/test/presettest"
	"ndrbridge/test/require"
)

// shown are the header fields of a golden message.
var shown = []string{"Authorization", "Content-Type", "Content-Encoding", "X-Goog-Api-Key", "X-Webhook-Access-Key"}

// answer is that of a server.
type answer struct {
	status    int
	body      string
	documents []string // that it took; a request without any is not that of events
}

func refuse(status int, format string, args ...any) answer {
	return answer{status: status, body: fmt.Sprintf(format, args...)}
}

// serve starts a server of HTTPS in the place of a recipe's product. It decompresses bodies.
func serve(t *testing.T, r *recipe, handle func(request *http.Request, body []byte) answer) *received {
	t.Helper()
	got := new(received)
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, request *http.Request) {
		body, err := decompressed(request)
		a := refuse(http.StatusBadRequest, "%v", err)
		switch {
		case err != nil:
		case request.Method != http.MethodPost:
			a = refuse(http.StatusMethodNotAllowed, "%s", request.Method)
		case !utf8.Valid(body):
			a = refuse(http.StatusBadRequest, "the body is not UTF-8")
		default:
			a = handle(request, body)
		}
		if len(a.documents) > 0 {
			var message strings.Builder
			fmt.Fprintf(&message, "%s %s\n", request.Method, request.RequestURI)
			for _, name := range shown {
				for _, value := range request.Header.Values(name) {
					fmt.Fprintf(&message, "%s: %s\n", name, value)
				}
			}
			fmt.Fprintf(&message, "\n%s", body)
			got.add(message.String(), a.documents...)
		}
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(a.status)
		_, _ = io.WriteString(w, a.body)
	}))
	server.TLS = &tls.Config{Certificates: []tls.Certificate{r.certificate}}
	server.StartTLS()
	t.Cleanup(server.Close)
	address := server.Listener.Addr().String()
	r.Webhook.URL = moved(t, r.Webhook.URL, address)
	r.Webhook.TLS.CAFile = r.authority
	if o := r.Webhook.Auth.OAuth; o != nil {
		o.TokenURL = moved(t, o.TokenURL, address)
	}
	return got
}

// moved returns a URL with another host and port.
func moved(t *testing.T, from configs.URL, address string) configs.URL {
	t.Helper()
	u := require.Value(url.Parse(from.Value()))(t)
	require.Equal(t, u.Scheme, "https", "not a URL of https")
	u.Host = address
	return configs.NewURL(u.String())
}

func decompressed(request *http.Request) ([]byte, error) {
	switch encoding := request.Header.Get("Content-Encoding"); encoding {
	case "":
		return io.ReadAll(request.Body)
	case "gzip":
		body, err := gzip.NewReader(request.Body)
		if err != nil {
			return nil, err
		}
		return io.ReadAll(body)
	default:
		return nil, fmt.Errorf("the encoding %q", encoding)
	}
}

// ingested is the beginning of a document with the time at which it was sent.
var ingested = regexp.MustCompile(`^\{"event\.ingested":"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z",`)

// bulkAPI is the bulk API of Elasticsearch, for data streams that the actions name. The
// documents that it received are without the times at which they were sent.
func bulkAPI(t *testing.T, r *recipe) *received {
	stream := regexp.MustCompile(`^logs-ndrbridge\.(detection|audit|record|event)-default$`)
	ids := make(map[string]bool)
	return serve(t, r, func(request *http.Request, body []byte) answer {
		lines := bytes.SplitAfter(body, []byte("\n"))
		switch {
		case request.URL.Path != "/_bulk":
			return refuse(http.StatusMethodNotAllowed, "%s", request.URL.Path)
		case request.Header.Get("Authorization") != "ApiKey "+secretOf("elastic"):
			return refuse(http.StatusUnauthorized, "{}")
		case request.Header.Get("Content-Type") != "application/x-ndjson":
			return refuse(http.StatusNotAcceptable, "{}")
		case len(body) > 100<<20:
			return refuse(http.StatusRequestEntityTooLarge, "{}")
		case len(lines)%2 != 1 || len(lines[len(lines)-1]) != 0:
			return refuse(http.StatusBadRequest, "{}")
		}
		a := answer{status: http.StatusOK}
		var items []string
		for pair := range slices.Chunk(lines[:len(lines)-1], 2) {
			var action struct {
				Create struct {
					Index string `json:"_index"`
					ID    string `json:"_id"`
				} `json:"create"`
			}
			err := strictly(pair[0], &action)
			if id := action.Create.ID; err != nil || !stream.MatchString(action.Create.Index) || id == "" || len(id) > 512 || ids[id] {
				return refuse(http.StatusBadRequest, `{"error": "the action %s"}`, pair[0])
			}
			document := bytes.TrimSuffix(pair[1], []byte("\n"))
			sent := ingested.Find(document)
			if sent == nil {
				return refuse(http.StatusBadRequest, `{"error": "a document without event.ingested"}`)
			}
			ids[action.Create.ID] = true
			items = append(items, `{"create":{"status":201}}`)
			a.documents = append(a.documents, strings.Replace(string(document), string(sent), "{", 1))
		}
		a.body = fmt.Sprintf(`{"errors":false,"items":[%s]}`, strings.Join(items, ","))
		return a
	})
}

// strictly decodes an object that has no other members.
func strictly(object []byte, into any) error {
	decoder := json.NewDecoder(bytes.NewReader(object))
	decoder.DisallowUnknownFields()
	return decoder.Decode(into)
}

// collector returns the stand-in of an HTTP Event Collector without acknowledgement, whose
// endpoint has a path. Events have a source type that matches.
func collector(path, sourceType string) func(*testing.T, *recipe) *received {
	sourceTypes := regexp.MustCompile(sourceType)
	return func(t *testing.T, r *recipe) *received {
		return serve(t, r, func(request *http.Request, body []byte) answer {
			switch {
			case request.URL.Path != path || request.URL.RawQuery != "":
				return refuse(http.StatusNotFound, `{"text":"The requested URL was not found on this server.","code":404}`)
			case request.Header.Get("Authorization") != "Splunk "+secretOf(r.Name):
				return refuse(http.StatusForbidden, `{"text":"Invalid token","code":4}`)
			case len(body) > 1_000_000:
				return refuse(http.StatusRequestEntityTooLarge, "")
			}
			a := answer{status: http.StatusOK, body: `{"text":"Success","code":0}`}
			decoder := json.NewDecoder(bytes.NewReader(body))
			decoder.DisallowUnknownFields()
			for {
				var e struct {
					Time                     float64
					Host, Source, SourceType string
					Event                    json.RawMessage
				}
				err := decoder.Decode(&e)
				switch {
				case errors.Is(err, io.EOF) && len(a.documents) > 0:
					return a
				case err != nil || e.Time < 1.7e9 || e.Time > 1.9e9 || e.Host == "" || e.Source == "" || !sourceTypes.MatchString(e.SourceType):
					return refuse(http.StatusBadRequest, `{"text":"Invalid data format","code":6}`)
				case len(e.Event) == 0 || e.Event[0] != '{':
					return refuse(http.StatusBadRequest, `{"text":"Event field is required","code":12}`)
				}
				a.documents = append(a.documents, string(e.Event))
			}
		})
	}
}

// ingestion is the Logs Ingestion API of Azure Monitor for a rule, with the token endpoint
// that its client uses.
func ingestion(t *testing.T, r *recipe) *received {
	stream := regexp.MustCompile(`^/dataCollectionRules/dcr-0{32}/streams/Custom-Ndrbridge(Detection|Audit|Record|Event)$`)
	tokens := &presettest.TokenServer{
		ID: "AN-APPLICATION-ID", Secret: secretOf("sentinel"), Scope: "https://monitor.azure.com//.default", ExpiresIn: 3599,
	}
	return serve(t, r, func(request *http.Request, body []byte) answer {
		switch {
		case strings.HasPrefix(request.URL.Path, "/TENANT/"):
			request.Body = io.NopCloser(bytes.NewReader(body))
			recorder := httptest.NewRecorder()
			http.StripPrefix("/TENANT", tokens).ServeHTTP(recorder, request)
			return answer{status: recorder.Code, body: recorder.Body.String()}
		case !tokens.Valid(request.Header.Get("Authorization")):
			return refuse(http.StatusUnauthorized, `{"error":{"code":"AuthenticationFailed"}}`)
		case !stream.MatchString(request.URL.Path):
			return refuse(http.StatusNotFound, `{"error":{"code":"NotFound"}}`)
		case request.URL.RawQuery != "api-version=2023-01-01":
			return refuse(http.StatusBadRequest, `{"error":{"code":"UnsupportedApiVersion"}}`)
		case request.Header.Get("Content-Type") != "application/json":
			return refuse(http.StatusUnsupportedMediaType, `{"error":{"code":"UnsupportedMediaType"}}`)
		case len(body) > 1_000_000:
			return refuse(http.StatusRequestEntityTooLarge, `{"error":{"code":"ContentLengthLimitExceeded"}}`)
		}
		var rows []json.RawMessage
		if err := json.Unmarshal(body, &rows); err != nil || len(rows) == 0 {
			return refuse(http.StatusBadRequest, `{"error":{"code":"InvalidPayload"}}`)
		}
		a := answer{status: http.StatusNoContent}
		for _, row := range rows {
			a.documents = append(a.documents, string(row))
		}
		return a
	})
}

// sumo is an HTTP source of Sumo Logic, of which each line is a message.
func sumo(t *testing.T, r *recipe) *received {
	return serve(t, r, func(request *http.Request, body []byte) answer {
		switch {
		case request.URL.Path != "/receiver/v1/http/A-TOKEN":
			return refuse(http.StatusUnauthorized, "")
		case strings.HasPrefix(request.Header.Get("Content-Type"), "application/vnd.sumologic"):
			return refuse(http.StatusBadRequest, "that is a content type of metrics")
		case len(body) > 1_000_000:
			return refuse(http.StatusRequestEntityTooLarge, "")
		}
		return lines(body)
	})
}

// secops is the webhook of a feed of Google SecOps, with line breaks as its delimiter.
func secops(t *testing.T, r *recipe) *received {
	return serve(t, r, func(request *http.Request, body []byte) answer {
		switch {
		case request.URL.Path != "/v1alpha/projects/p/locations/eu/instances/i/feeds/f:importPushLogs":
			return refuse(http.StatusNotFound, "")
		case request.Header.Get("X-goog-api-key") != "AN-API-KEY" || request.Header.Get("X-Webhook-Access-Key") != "A-SECRET-KEY":
			return refuse(http.StatusForbidden, "")
		case request.Header.Get("Content-Type") != "application/json":
			return refuse(http.StatusUnsupportedMediaType, "")
		case len(body) > 1_000_000:
			return refuse(http.StatusRequestEntityTooLarge, "")
		}
		return lines(body)
	})
}

// lines accepts the lines of a body, each an object.
func lines(body []byte) answer {
	a := answer{status: http.StatusOK, body: "{}"}
	for line := range bytes.Lines(body) {
		document, ended := bytes.CutSuffix(line, []byte("\n"))
		if !ended || len(document) == 0 || document[0] != '{' || !json.Valid(document) {
			return refuse(http.StatusBadRequest, "not an object on a line: %.100q", line)
		}
		a.documents = append(a.documents, string(document))
	}
	return a
}
