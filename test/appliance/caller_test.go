package appliance_test

import (
	"cmp"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"reflect"
	"strings"
	"testing"
	"time"

	standin "ndrbridge/test/appliance"
	"ndrbridge/test/appliance/openapi"
	"ndrbridge/test/assert"
	"ndrbridge/test/require"
)

// epoch is the true time in tests whose clock stands still.
var epoch = time.Date(2026, 3, 4, 5, 6, 7, 890e6, time.UTC)

func still() time.Time { return epoch }

// caller asks an appliance over the loopback interface.
type caller struct {
	t             *testing.T
	appliance     *standin.Appliance
	description   *openapi.Description
	url           string
	authorization string
	client        *http.Client
	contentType   string // of bodies; empty: JSON
}

// serve starts an appliance whose clock stands still where options set none.
func serve(t *testing.T, o standin.Options) (*standin.Appliance, *caller) {
	t.Helper()
	if o.Now == nil {
		o.Now = still
	}
	a := standin.New(o)
	server := httptest.NewServer(a)
	t.Cleanup(server.Close)
	description := require.Value(openapi.Load(strings.ToLower(cmp.Or(o.Product, "Service"))))(t)
	return a, &caller{
		t: t, appliance: a, description: description, url: server.URL,
		authorization: "Service apikey=" + standin.DefaultAPIKey, client: server.Client(),
	}
}

type reply struct {
	status int
	header http.Header
	body   string
	err    error // of reading the body
}

// send returns the error of a request that has no answer.
func (c *caller) send(method, path, body string) (reply, error) {
	c.t.Helper()
	r, err := http.NewRequestWithContext(c.t.Context(), method, c.url+path, strings.NewReader(body))
	require.NoError(c.t, err)
	r.Header.Set("Accept", "application/json")
	if body != "" {
		r.Header.Set("Content-Type", cmp.Or(c.contentType, "application/json"))
	}
	if c.authorization != "" {
		r.Header.Set("Authorization", c.authorization)
	}
	resp, err := c.client.Do(r)
	if err != nil {
		return reply{}, err
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	c.check(r, resp, b)
	return reply{resp.StatusCode, resp.Header, string(b), err}, nil
}

// check checks that the interface describes an answer, unless hazards may have changed it, and
// remembers that the operation was tested.
func (c *caller) check(r *http.Request, resp *http.Response, body []byte) {
	c.t.Helper()
	path, ok := strings.CutPrefix(r.URL.Path, openapi.Root)
	o, _, _ := c.description.Find(r.Method, path)
	if r.Method+" "+path == explorerPage && resp.StatusCode == http.StatusOK {
		tested.Store(explorerPage, true)
	}
	if !ok || o == nil || !reflect.ValueOf(c.appliance.Hazards()).IsZero() {
		return
	}
	assert.NoError(c.t, o.CheckResponse(resp.StatusCode, resp.Header, body), o.Name, "is answered with", resp.StatusCode, string(body))
	if resp.StatusCode < http.StatusBadRequest {
		tested.Store(o.Name, true)
	}
}

// do is send for requests that are answered.
func (c *caller) do(method, path, body string) reply {
	c.t.Helper()
	got, err := c.send(method, "/api/v1"+path, body)
	require.NoError(c.t, err, method, path)
	return got
}

// want does a request and checks the status of its answer.
func (c *caller) want(status int, method, path, body string) reply {
	c.t.Helper()
	got := c.do(method, path, body)
	require.Equal(c.t, got.status, status, method, path, body, "status", got.body)
	return got
}

// search returns the ids that a search finds.
func (c *caller) search(body string) []int64 {
	c.t.Helper()
	return idsOf(c.t, c.want(http.StatusOK, "POST", "/detections/search", body).body)
}

func idsOf(t *testing.T, body string) []int64 {
	t.Helper()
	var rows []struct{ ID int64 }
	require.NoError(t, json.Unmarshal([]byte(body), &rows), body)
	ids := make([]int64, len(rows))
	for i, row := range rows {
		ids[i] = row.ID
	}
	return ids
}

func wantIDs(t *testing.T, got []int64, want ...int64) {
	t.Helper()
	assert.EqualSlices(t, got, want, "found")
}

// detection returns one as the appliance shows it.
func (c *caller) detection(id string) map[string]any {
	c.t.Helper()
	var d map[string]any
	body := c.want(http.StatusOK, "GET", "/detections/"+id, "").body
	require.NoError(c.t, json.Unmarshal([]byte(body), &d))
	return d
}
