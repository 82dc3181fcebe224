package docs_test

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"path"
	"slices"
	"strings"
	"sync"
	"testing"
)

// elasticsearch stands in for Elasticsearch, OpenSearch and Kibana: it accepts the requests
// by which deploy/elastic is installed, in an order in which they accept them, and refuses
// all others. What the bodies hold is compared with the bridge's documents by tests of
// deploy/elastic.
type elasticsearch struct {
	mux        *http.ServeMux
	mu         sync.Mutex
	components map[string]bool
	patterns   []string // of templates of data streams
	indexes    map[string]bool
	transforms map[string]string // with their sources
}

// newElasticsearch returns a stand-in for which requests require an Authorization.
func newElasticsearch(authorized func(*http.Request) bool) http.Handler {
	e := &elasticsearch{mux: http.NewServeMux(), components: map[string]bool{}, indexes: map[string]bool{}, transforms: map[string]string{}}
	e.handle("PUT /_component_template/{name}", e.putComponent)
	e.handle("PUT /_index_template/{name}", e.putTemplate)
	e.handle("PUT /{index}", e.putIndex)
	e.handle("PUT /_transform/{name}", e.putTransform)
	e.handle("POST /_transform/{name}/_start", e.start)
	e.handle("POST /{index}/_doc", e.putDocument)
	e.handle("PUT /_data_stream/{pattern}/_lifecycle", e.putLifecycle)
	e.handle("POST /{pattern}/_search", e.search)
	e.handle("POST /api/saved_objects/_import", importObjects)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !authorized(r) {
			http.Error(w, `{"error": "unauthorized"}`, http.StatusUnauthorized)
			return
		}
		e.mux.ServeHTTP(w, r)
	})
}

// handle calls f for requests of a pattern; its error is the response.
func (e *elasticsearch) handle(pattern string, f func(*http.Request) error) {
	e.mux.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) {
		e.mu.Lock()
		defer e.mu.Unlock()
		if err := f(r); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		_, _ = io.WriteString(w, `{"acknowledged":true}`)
	})
}

// decode decodes a body of JSON, whose members must all be known.
func decode(r *http.Request, into any) error {
	if r.Header.Get("Content-Type") != "application/json" {
		return fmt.Errorf("the content type is %q", r.Header.Get("Content-Type"))
	}
	decoder := json.NewDecoder(r.Body)
	decoder.DisallowUnknownFields()
	return decoder.Decode(into)
}

func (e *elasticsearch) putComponent(r *http.Request) error {
	var component struct {
		Template struct {
			Settings map[string]any `json:"settings"`
			Mappings struct {
				Dynamic    bool           `json:"dynamic"`
				Properties map[string]any `json:"properties"`
			} `json:"mappings"`
		} `json:"template"`
		Version int            `json:"version"`
		Meta    map[string]any `json:"_meta"`
	}
	e.components[r.PathValue("name")] = true
	return decode(r, &component)
}

func (e *elasticsearch) putTemplate(r *http.Request) error {
	var template struct {
		IndexPatterns []string       `json:"index_patterns"`
		Priority      int            `json:"priority"`
		DataStream    *struct{}      `json:"data_stream"`
		ComposedOf    []string       `json:"composed_of"`
		Template      map[string]any `json:"template"`
		Version       int            `json:"version"`
		Meta          map[string]any `json:"_meta"`
	}
	if err := decode(r, &template); err != nil {
		return err
	}
	for _, name := range template.ComposedOf {
		if !e.components[name] {
			return fmt.Errorf("component templates [%s] do not exist", name)
		}
	}
	if template.DataStream != nil {
		e.patterns = append(e.patterns, template.IndexPatterns...)
	}
	return nil
}

func (e *elasticsearch) putIndex(r *http.Request) error {
	name := r.PathValue("index")
	switch {
	case strings.HasPrefix(name, "_"):
		return fmt.Errorf("invalid index name [%s]", name)
	case e.indexes[name]:
		return fmt.Errorf("index [%s] already exists", name)
	case r.ContentLength != 0:
		return fmt.Errorf("index [%s] has a body", name)
	}
	e.indexes[name] = true
	return nil
}

func (e *elasticsearch) putTransform(r *http.Request) error {
	var transform struct {
		Description string `json:"description"`
		Source      struct {
			Index []string       `json:"index"`
			Query map[string]any `json:"query"`
		} `json:"source"`
		Dest struct {
			Index string `json:"index"`
		} `json:"dest"`
		Latest    map[string]any `json:"latest"`
		Sync      map[string]any `json:"sync"`
		Frequency string         `json:"frequency"`
	}
	if err := decode(r, &transform); err != nil {
		return err
	}
	name := r.PathValue("name")
	if len(transform.Source.Index) != 1 || !e.indexes[transform.Dest.Index] {
		return fmt.Errorf("transform [%s] is from %v to [%s]", name, transform.Source.Index, transform.Dest.Index)
	}
	if _, exists := e.transforms[name]; exists {
		return fmt.Errorf("transform with id [%s] already exists", name)
	}
	e.transforms[name] = transform.Source.Index[0]
	if r.URL.Query().Get("defer_validation") == "true" {
		return nil
	}
	return e.mustMatch(transform.Source.Index[0])
}

func (e *elasticsearch) start(r *http.Request) error {
	source, exists := e.transforms[r.PathValue("name")]
	if !exists {
		return fmt.Errorf("transform with id [%s] could not be found", r.PathValue("name"))
	}
	return e.mustMatch(source)
}

// mustMatch returns an error if no index matches a pattern.
func (e *elasticsearch) mustMatch(pattern string) error {
	for name := range e.indexes {
		if ok, err := path.Match(pattern, name); ok || err != nil {
			return err
		}
	}
	return fmt.Errorf("no such index [%s]", pattern)
}

// putDocument stores a document in a data stream that a template creates.
func (e *elasticsearch) putDocument(r *http.Request) error {
	name := r.PathValue("index")
	if !slices.ContainsFunc(e.patterns, func(pattern string) bool { ok, _ := path.Match(pattern, name); return ok }) {
		return fmt.Errorf("[%s] matches no template of a data stream", name)
	}
	e.indexes[name] = true
	var document map[string]any
	return decode(r, &document)
}

func (e *elasticsearch) putLifecycle(r *http.Request) error {
	var lifecycle struct {
		DataRetention string `json:"data_retention"`
	}
	if err := decode(r, &lifecycle); err != nil {
		return err
	}
	return e.mustMatch(r.PathValue("pattern"))
}

func (e *elasticsearch) search(r *http.Request) error {
	var query struct {
		Size  int            `json:"size"`
		Query map[string]any `json:"query"`
		Aggs  map[string]any `json:"aggs"`
	}
	if err := decode(r, &query); err != nil {
		return err
	}
	return e.mustMatch(r.PathValue("pattern"))
}

// importObjects accepts saved objects: a file of JSON, one object a line.
func importObjects(r *http.Request) error {
	if r.Header.Get("kbn-xsrf") == "" {
		return fmt.Errorf("request must contain a kbn-xsrf header")
	}
	file, header, err := r.FormFile("file")
	if err != nil {
		return err
	}
	if !strings.HasSuffix(header.Filename, ".ndjson") {
		return fmt.Errorf("invalid file extension of %s", header.Filename)
	}
	lines := bufio.NewScanner(file)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var object struct{ Type, ID string }
		if err := json.Unmarshal(lines.Bytes(), &object); err != nil {
			return err
		}
	}
	return lines.Err()
}

func serveElasticsearch(t *testing.T) string {
	return serveHTTP(t, newElasticsearch(func(r *http.Request) bool { return r.Header.Get("Authorization") == "ApiKey a-key" }))
}

func serveOpenSearch(t *testing.T) string {
	return serveHTTP(t, newElasticsearch(func(r *http.Request) bool {
		user, password, ok := r.BasicAuth()
		return ok && user == "admin" && password == "a-password"
	}))
}

func TestElasticsearchRefusesWhatItCannotUseYet(t *testing.T) {
	e := newElasticsearch(func(r *http.Request) bool { return r.Header.Get("Authorization") != "" })
	for _, c := range []struct{ name, method, target, body string }{
		{"a template of a component that does not exist", "PUT", "/_index_template/x", `{"composed_of": ["x"]}`},
		{"an unknown member", "PUT", "/_component_template/x", `{"templates": {}}`},
		{"a transform without its index", "PUT", "/_transform/x?defer_validation=true", `{"source": {"index": ["a"]}, "dest": {"index": "b"}}`},
		{"the start of a transform that does not exist", "POST", "/_transform/x/_start", ""},
		{"a retention of no data stream", "PUT", "/_data_stream/logs-*/_lifecycle", `{"data_retention": "1d"}`},
		{"a document for no template", "POST", "/logs-x/_doc", `{}`},
		{"another request", "PUT", "/_ilm/policy/x", `{}`},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := httptest.NewRequest(c.method, c.target, strings.NewReader(c.body))
			r.Header.Set("Authorization", "ApiKey x")
			r.Header.Set("Content-Type", "application/json")
			w := httptest.NewRecorder()
			if e.ServeHTTP(w, r); w.Code < 400 {
				t.Errorf("the status is %d", w.Code)
			}
		})
	}
}
