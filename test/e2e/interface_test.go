//go:build e2e

package e2e

import (
	"bytes"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"ndrbridge/test/appliance"
	"ndrbridge/test/appliance/explorer"
	"ndrbridge/test/appliance/openapi"
	"ndrbridge/test/assert"
	"ndrbridge/test/certificate"
	"ndrbridge/test/require"
)

// TestStandInIsAsDescribed checks the description of the stand-in's interface with
// openapi-spec-validator, and the stand-in with Schemathesis, which makes requests from the
// description in all its phases. It fails for an answer that the description does not have, a
// request that is accepted although it does not fit, and an operation that never succeeds.
func TestStandInIsAsDescribed(t *testing.T) {
	t.Parallel()
	programs := installPython(t, "interface.txt")
	s := startStandIn(t)
	folder := t.TempDir()
	described := filepath.Join(folder, "openapi.json")
	write := func(content []byte) {
		require.NoError(t, os.WriteFile(described, content, 0o600))
	}
	write(s.fetch(explorer.DescriptionPath))
	start(t, exec.Command(filepath.Join(programs, "python"), "-m", "openapi_spec_validator", described)).succeed(t, time.Minute)

	succeeded := make(map[string]bool)
	test := func(arguments ...string) {
		report := filepath.Join(folder, "report.ndjson")
		run := exec.Command(filepath.Join(programs, "schemathesis"), append([]string{
			"--no-color", "run", described, "--url", s.url + openapi.Root, "--header", "Authorization: " + credential,
			// A request may fit the description, and still not what the appliance has.
			"--exclude-checks", "positive_data_acceptance",
			"--seed", "1", "--generation-database", "none", "--continue-on-failure", "--request-timeout", "20",
			"--report", "ndjson", "--report-ndjson-path", report,
		}, arguments...)...)
		run.Dir = folder // where it keeps what it learned
		tested := start(t, run)
		tested.succeed(t, 5*time.Minute)
		t.Log(tested.output.end())
		addSuccesses(t, succeeded, report)
	}
	// Objects first, then what can be done only as long as they are there: applying a backup
	// removes them.
	test("--phases", "examples,coverage", "--mode", "positive", "--include-method", "POST", "--exclude-path-regex", "apply$")
	write(s.addExamples(s.fetch(explorer.DescriptionPath)))
	test("--phases", "examples", "--exclude-method", "DELETE", "--exclude-path-regex", "apply$")
	test("--phases", "examples", "--include-name-regex", "^DELETE .*(child-id|notes)")
	test("--phases", "examples", "--include-method", "DELETE", "--exclude-path-regex", "child-id|notes")
	test("--max-examples", "10")

	description, err := openapi.Load("service")
	require.NoError(t, err)
	for _, o := range description.Operations {
		name := o.Method + " " + o.Path
		assert.True(t, succeeded[name], name, "never succeeded")
	}
}

const credential = "Service apikey=" + appliance.DefaultAPIKey

// standIn is a running ndrappliance.
type standIn struct {
	*process
	t   *testing.T
	url string
}

// startStandIn runs ndrappliance with objects of each kind that clients cannot create.
func startStandIn(t *testing.T) *standIn {
	t.Helper()
	program := filepath.Join(t.TempDir(), "ndrappliance")
	text, err := exec.Command("go", "build", "-o", program, "ndrbridge/cmd/ndrappliance").CombinedOutput()
	require.NoError(t, err, "build the stand-in appliance", string(text))
	s := &standIn{t: t, process: start(t, exec.Command(program, "--listen", "127.0.0.1:0",
		"--backlog", "100", "--audit-entries", "20", "--record-backlog", "300",
		"--restart-time", "0", "--power-on-after", "1ns", "--job-step-time", "0"))}
	eventually(t, 30*time.Second, func() error {
		url, found := strings.CutPrefix(s.output.String(), "listening on ")
		if !found || !strings.HasSuffix(url, "\n") {
			return fmt.Errorf("it does not listen yet\n%s", s.output.end())
		}
		s.url = strings.TrimSpace(url)
		return nil
	})
	return s
}

// send returns the body of an answer, and whether it is a success.
func (s *standIn) send(method, path string, body []byte) (content []byte, ok bool) {
	s.t.Helper()
	r, err := http.NewRequestWithContext(s.t.Context(), method, s.url+path, bytes.NewReader(body))
	require.NoError(s.t, err)
	r.Header.Set("Authorization", credential)
	if body != nil {
		r.Header.Set("Content-Type", "application/json")
	}
	answer, err := http.DefaultClient.Do(r)
	require.NoError(s.t, err)
	defer answer.Body.Close()
	content, err = io.ReadAll(answer.Body)
	require.NoError(s.t, err)
	return content, answer.StatusCode < http.StatusMultipleChoices
}

// fetch returns what is at a path.
func (s *standIn) fetch(path string) []byte {
	s.t.Helper()
	content, ok := s.send(http.MethodGet, path, nil)
	require.True(s.t, ok, "GET", path, string(content))
	return content
}

// addExamples adds examples to the parameters in the paths of a description: objects that
// exist. Operations that delete get the last of its kind, the others the first.
func (s *standIn) addExamples(description []byte) []byte {
	s.t.Helper()
	decoder := json.NewDecoder(bytes.NewReader(description))
	decoder.UseNumber() // large ones keep their digits
	var document map[string]any
	require.NoError(s.t, decoder.Decode(&document))
	shared := document["components"].(map[string]any)["parameters"].(map[string]any)
	for path, item := range document["paths"].(map[string]any) {
		for method, operation := range item.(map[string]any) {
			examples := s.examplesFor(strings.ToUpper(method), path)
			parameters, _ := operation.(map[string]any)["parameters"].([]any)
			for i, p := range parameters {
				p := p.(map[string]any)
				if reference, ok := p["$ref"].(string); ok {
					p = shared[reference[strings.LastIndexByte(reference, '/')+1:]].(map[string]any)
				}
				if example, ok := examples[p["name"].(string)]; ok && p["in"] == "path" {
					if schema, _ := p["schema"].(map[string]any); schema["type"] == "string" {
						example = fmt.Sprint(example)
					}
					with := map[string]any{"example": example}
					for name, value := range p {
						if name != "example" && name != "examples" {
							with[name] = value
						}
					}
					parameters[i] = with
				}
			}
		}
	}
	s.addBody(document, "/records/cursor", "post", "application/json", map[string]any{"cursor": s.cursor()})
	s.addBody(document, "/detections/tickets", "patch", "application/json", map[string]any{"ticket_id": s.ticket(), "status": "in_progress"})
	s.addBody(document, "/service/sslcert", "put", "text/plain", newCertificate(s.t))
	text, err := json.Marshal(document)
	require.NoError(s.t, err)
	return text
}

// addBody adds an example of a body to a description.
func (s *standIn) addBody(document any, path, method, mediaType string, example any) {
	s.t.Helper()
	for _, name := range []string{"paths", path, method, "requestBody", "content", mediaType} {
		var ok bool
		document, ok = document.(map[string]any)[name]
		require.True(s.t, ok, method, path, "has no body of the type", mediaType)
	}
	delete(document.(map[string]any), "examples") // excludes an example
	document.(map[string]any)["example"] = example
}

// cursor returns the cursor of a search.
func (s *standIn) cursor() string {
	s.t.Helper()
	var found struct{ Cursor string }
	page, _ := s.send(http.MethodPost, openapi.Root+"/records/search", []byte(`{"from": "-25h", "limit": 1, "context_ttl": "1h"}`))
	err := json.Unmarshal(page, &found)
	require.True(s.t, err == nil && found.Cursor != "", "no cursor in", string(page), err)
	return found.Cursor
}

// ticket returns the ticket of a detection.
func (s *standIn) ticket() string {
	s.t.Helper()
	listed := s.fetch(openapi.Root + "/detections?limit=100")
	var detections []struct {
		Ticket any `json:"ticket_id"` // some are numbers
	}
	require.NoError(s.t, json.Unmarshal(listed, &detections))
	for _, d := range detections {
		if ticket, ok := d.Ticket.(string); ok && ticket != "" {
			return ticket
		}
	}
	s.t.Fatal("no detection has a ticket")
	return ""
}

// newCertificate returns a certificate and its key in PEM.
func newCertificate(t *testing.T) string {
	t.Helper()
	made := certificate.New(t, "appliance.example", time.Now().Add(time.Hour), nil)
	key, err := x509.MarshalPKCS8PrivateKey(made.PrivateKey)
	require.NoError(t, err)
	return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: made.Certificate[0]})) +
		string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: key}))
}

// examplesFor returns values for the parameters of a path, as far as the stand-in has objects.
func (s *standIn) examplesFor(method, path string) map[string]any {
	s.t.Helper()
	examples := make(map[string]any)
	real := ""
	parts := strings.Split(strings.TrimPrefix(path, "/"), "/")
	for i, part := range parts {
		name, isParameter := strings.CutPrefix(part, "{")
		if !isParameter {
			real += "/" + part
			continue
		}
		name = strings.TrimSuffix(name, "}")
		found := s.list(real, name)
		if name == "child-id" {
			found = s.assign(real, parts[0], parts[i-1])
		}
		if len(found) == 0 {
			return examples
		}
		if i+2 == len(parts) && parts[i+1] == "notes" {
			s.send(http.MethodPut, fmt.Sprintf("%s%s/%v/notes", openapi.Root, real, found[0]), []byte(`{"note": "seen"}`))
		}
		value := found[0]
		if method == http.MethodDelete && i == len(parts)-1 {
			value = found[len(found)-1]
		}
		examples[name] = value
		real += fmt.Sprintf("/%v", value)
	}
	return examples
}

// assign assigns an object to another, as what is unassigned must be, and returns its id. It
// takes another object for each side of a relation.
func (s *standIn) assign(path, parents, children string) (child []any) {
	s.t.Helper()
	candidates := s.list("/"+children, "id")
	if parents > children {
		slices.Reverse(candidates)
	}
	for _, id := range candidates {
		if _, ok := s.send(http.MethodPost, openapi.Root+path, fmt.Appendf(nil, `{"assign": [%v]}`, id)); ok {
			return []any{id}
		}
	}
	return nil
}

// list returns what a path parameter may be for the objects of a collection.
func (s *standIn) list(collection, parameter string) (values []any) {
	s.t.Helper()
	listed, _ := s.send(http.MethodGet, openapi.Root+collection, nil)
	decoder := json.NewDecoder(bytes.NewReader(listed))
	decoder.UseNumber()
	var objects []map[string]any
	if decoder.Decode(&objects) != nil {
		return nil // it cannot be listed
	}
	if changeable := slices.DeleteFunc(slices.Clone(objects), isFixed); len(changeable) > 0 {
		objects = changeable
	}
	for _, object := range objects {
		value, ok := object[parameter]
		if !ok {
			value, ok = object["id"]
		}
		if ok {
			values = append(values, value)
		}
	}
	return values
}

// isFixed reports whether an object is one that its caller cannot change.
func isFixed(object map[string]any) bool {
	rights, limited := object["rights"].([]any)
	return limited && !slices.Contains(rights, any("edit")) || object["is_user_created"] == false
}

// addSuccesses adds the operations that a report of Schemathesis has an answer below 400 for.
func addSuccesses(t *testing.T, succeeded map[string]bool, report string) {
	t.Helper()
	text, err := os.ReadFile(report)
	require.NoError(t, err)
	for line := range bytes.Lines(text) {
		var event struct {
			ScenarioFinished struct {
				Recorder struct {
					Cases map[string]struct {
						Value struct{ Method, Path string }
					}
					Interactions map[string]struct {
						Response *struct {
							Status int `json:"status_code"`
						}
					}
				}
			}
		}
		require.NoError(t, json.Unmarshal(line, &event))
		r := event.ScenarioFinished.Recorder
		for id, i := range r.Interactions {
			if c := r.Cases[id].Value; i.Response != nil && i.Response.Status < http.StatusBadRequest {
				succeeded[c.Method+" "+c.Path] = true
			}
		}
	}
	require.True(t, len(succeeded) != 0, "the report lists no success", string(text))
}
