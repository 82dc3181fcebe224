package admin_test

import (
	"bytes"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"ndrbridge/internal/admin"
	described "ndrbridge/test/appliance/openapi"
	"ndrbridge/test/assert"
	"ndrbridge/test/require"
)

// description is the description of the interface, in which an answer has no fields but those
// described.
var description = sync.OnceValues(func() (*described.Description, error) {
	text, err := os.ReadFile("openapi.json")
	if err != nil {
		return nil, err
	}
	var document any
	if err := json.Unmarshal(text, &document); err != nil {
		return nil, err
	}
	closeSchemas(document)
	strict, err := json.Marshal(document)
	if err != nil {
		return nil, err
	}
	return described.Parse(strict)
})

// closeSchemas forbids further fields in every schema that does not mention them.
func closeSchemas(value any) {
	switch value := value.(type) {
	case map[string]any:
		_, open := value["additionalProperties"]
		if _, ok := value["properties"].(map[string]any); ok && !open {
			value["additionalProperties"] = false
		}
		for _, inner := range value {
			closeSchemas(inner)
		}
	case []any:
		for _, inner := range value {
			closeSchemas(inner)
		}
	}
}

// newServer serves the admin interface and checks that each answer is described.
func newServer(t testing.TB, o admin.Options) *httptest.Server {
	server := httptest.NewServer(checkAnswers(t, admin.NewHandler(o)))
	t.Cleanup(server.Close)
	return server
}

// checkAnswers reports answers of a handler that the description does not have. It reads the
// operation from the path as the client wrote it.
func checkAnswers(t testing.TB, next http.Handler) http.Handler {
	d := require.Value(description())(t)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		method := r.Method
		if method == http.MethodHead {
			method = http.MethodGet
		}
		o, _, _ := d.Find(method, r.URL.EscapedPath())
		if o == nil {
			next.ServeHTTP(w, r)
			return
		}
		recorded := &recorder{ResponseWriter: w, status: http.StatusOK}
		defer func() {
			if reason := recover(); reason != nil { // the handler breaks the answer off
				panic(reason)
			}
			body := recorded.body.Bytes()
			if r.Method == http.MethodHead {
				return
			}
			assert.NoError(t, o.CheckResponse(recorded.status, w.Header(), body), o.Name, "is answered with", recorded.status, string(body))
			if w.Header().Get("Content-Type") == "application/x-ndjson" {
				checkLines(t, d, body)
			}
		}()
		next.ServeHTTP(recorded, r)
	})
}

// checkLines checks the lines of an answer to verify.
func checkLines(t testing.TB, d *described.Description, body []byte) {
	for line := range bytes.Lines(body) {
		value, err := jsonschema.UnmarshalJSON(bytes.NewReader(line))
		if err == nil {
			err = d.Component("VerifyLine").Validate(value)
		}
		assert.NoError(t, err, "the line", string(line))
	}
}

// recorder keeps a copy of an answer.
type recorder struct {
	http.ResponseWriter
	status int
	body   bytes.Buffer
}

func (r *recorder) WriteHeader(status int) {
	r.status = status
	r.ResponseWriter.WriteHeader(status)
}

func (r *recorder) Write(b []byte) (int, error) {
	r.body.Write(b)
	return r.ResponseWriter.Write(b)
}

// Unwrap returns the wrapped writer, for http.ResponseController.
func (r *recorder) Unwrap() http.ResponseWriter { return r.ResponseWriter }

func TestTheDescriptionIsServed(t *testing.T) {
	o := handler(nil) // while the state is being opened
	server := newServer(t, o)
	answer, body := request(t, http.MethodGet, server.URL+"/api/v1/openapi.json", "", token)
	assert.Equal(t, answer.StatusCode, http.StatusOK)
	assert.Contains(t, body, `"openapi": "3.1.0"`)
	answer, body = request(t, http.MethodPost, server.URL+"/api/v1/openapi.json", "", token)
	checkProblem(t, answer, body, http.StatusMethodNotAllowed, "GET or HEAD")
}

func TestPathsThatDoNotExistNameThoseThatDo(t *testing.T) {
	for _, test := range []struct{ name, path, detail string }{
		{"an operation that does not exist", "/api/v1/nothing", "/api/v1/openapi.json, which lists"},
		{"the API itself", "/api/v1/", "/api/v1/openapi.json, which lists"},
		{"another version", "/api/v2/status", `no version "v2" of the API: this bridge has /api/v1`},
		{"no version", "/api/status/", `no version "status" of the API`},
		{"something else", "/nothing", "/api/v1/status"},
	} {
		t.Run(test.name, func(t *testing.T) {
			answer, body := request(t, http.MethodGet, newServer(t, handler(newControl(t))).URL+test.path, "", token)
			checkProblem(t, answer, body, http.StatusNotFound, test.detail)
		})
	}
}

// TestEveryOperationIsOnThePageOfTheAPI compares docs/api.md with the description.
func TestEveryOperationIsOnThePageOfTheAPI(t *testing.T) {
	d := require.Value(description())(t)
	page := require.Value(os.ReadFile("../../docs/api.md"))(t)
	var rows []string
	for line := range strings.Lines(string(page)) {
		if strings.HasPrefix(line, "| `") {
			rows = append(rows, line)
		}
	}
	for _, o := range d.Operations {
		row := "| `" + o.Method + " " + o.Path + "` | " + o.Summary + " |\n"
		if i := slices.Index(rows, row); i >= 0 {
			rows = slices.Delete(rows, i, i+1)
		} else {
			t.Errorf("docs/api.md lacks the row %s", row)
		}
	}
	for _, row := range rows {
		t.Errorf("docs/api.md has the row %s", row)
	}
}
