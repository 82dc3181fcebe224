package admin_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"reflect"
	"strings"
	"testing"
	"time"

	"ndrbridge/internal/admin"
	"ndrbridge/test/assert"
	"ndrbridge/test/require"
)

// cluster records the handovers and recoveries.
type cluster struct {
	state      admin.Cluster
	handovers  int
	recoveries []admin.Recovery
	err        error
}

// operations returns the operations on the cluster, which every member has.
func (c *cluster) operations() admin.Operations {
	all := make(admin.Operations)
	admin.API.GetCluster.By(all, func(context.Context, admin.None) (admin.Cluster, error) { return c.state, c.err })
	admin.API.HandOver.By(all, func(context.Context, admin.None) error {
		c.handovers++
		return c.err
	})
	admin.API.RecoverCluster.By(all, func(_ context.Context, what admin.Recovery) error {
		c.recoveries = append(c.recoveries, what)
		return c.err
	})
	return all
}

// serveCluster serves a bridge that is the owner of c and returns a client for it.
func serveCluster(t *testing.T, c *cluster) (*admin.Client, *httptest.Server) {
	t.Helper()
	return serveWith(t, handlerOf(newControl(t).client().With(c.operations())))
}

var twoMembers = admin.Cluster{
	Name: "prod", ID: "7e1f", Generation: 2, Member: "a", Owner: "a", LeaseSeconds: 5.5, LogBytes: 12, Snapshot: time.Unix(3, 0).UTC(),
	Members: []admin.ClusterMember{
		{
			Member: "a", Version: "1.2.3", Since: time.Unix(1, 0).UTC(), URL: "https://a.example:9600",
			State: admin.MemberOwning, Config: admin.ConfigSame, Generation: 2, Offset: 30, Ready: true,
		},
		{Member: "b", Version: "1.2.3", State: admin.MemberAway, Config: admin.ConfigDiffers, Generation: 2, Offset: 23, Behind: 7, Error: "no space left"},
	},
}

func TestClientCluster(t *testing.T) {
	client, server := serveCluster(t, &cluster{state: twoMembers})
	got, err := admin.API.GetCluster.Call(t.Context(), client, admin.None{})
	assert.NoError(t, err)
	assert.DeepEqual(t, got, twoMembers)
	status, err := client.Status(t.Context())
	assert.True(t, err == nil && status.Cluster != nil && reflect.DeepEqual(*status.Cluster, twoMembers), "the status has the cluster", status.Cluster, err, twoMembers)
	const want = `{"name":"prod","id":"7e1f","generation":2,"member":"a","owner":"a","lease_seconds":5.5,"log_bytes":12,"snapshot":"1970-01-01T00:00:03Z","members":[` +
		`{"member":"a","version":"1.2.3","since":"1970-01-01T00:00:01Z","url":"https://a.example:9600","state":"owning","config":"same","generation":2,"offset":30,"behind":0,"ready":true},` +
		`{"member":"b","version":"1.2.3","state":"away","config":"differs","generation":2,"offset":23,"behind":7,"ready":false,"error":"no space left"}]}`
	_, body := request(t, "GET", server.URL+"/api/v1/cluster", "", token)
	assert.Equal(t, strings.TrimSpace(body), want, body)
}

func TestClientHandover(t *testing.T) {
	c := &cluster{}
	client, server := serveCluster(t, c)
	require.NoError(t, admin.API.HandOver.Do(t.Context(), client, admin.None{}))
	answer, text := request(t, "POST", server.URL+"/api/v1/cluster/handover", `{"member":"b"}`, token)
	checkProblem(t, answer, text, http.StatusBadRequest, "takes no body")
	assert.Equal(t, c.handovers, 1, "handovers")
	c.err = errors.New("no other member follows it")
	answer, text = request(t, "POST", server.URL+"/api/v1/cluster/handover", "", token)
	checkProblem(t, answer, text, http.StatusConflict, "no other member follows it")
}

func TestClientRecover(t *testing.T) {
	c := &cluster{}
	client, server := serveCluster(t, c)
	want := admin.Recovery{From: "b"}
	require.NoError(t, admin.API.RecoverCluster.Do(t.Context(), client, want))
	for _, body := range []string{`{}`, `{"from":""}`} {
		answer, text := request(t, "POST", server.URL+"/api/v1/cluster/recover", body, token)
		checkProblem(t, answer, text, http.StatusBadRequest, "name the member with whose copy")
	}
	answer, _ := request(t, "POST", server.URL+"/api/v1/cluster/recover", `{"from":"b"}`, "")
	assert.Equal(t, answer.StatusCode, http.StatusUnauthorized, "without the token", answer.Status)
	assert.DeepEqual(t, c.recoveries, []admin.Recovery{want}, "want", want, "once")
	c.err = fmt.Errorf("%w member %q", admin.ErrUnknown, "z")
	err := admin.API.RecoverCluster.Do(t.Context(), client, admin.Recovery{From: "z"})
	assert.True(t, errors.Is(err, admin.ErrUnknown) && strings.Contains(err.Error(), `"z"`), err, "want that the member is unknown")
	c.err = errors.New("member a owns it")
	answer, text := request(t, "POST", server.URL+"/api/v1/cluster/recover", `{"from":"b"}`, token)
	checkProblem(t, answer, text, http.StatusConflict, "member a owns it")
}

func TestABridgeWithoutAClusterHasNone(t *testing.T) {
	_, server := serve(t, newControl(t))
	for _, e := range []struct{ method, path, body string }{
		{"GET", "/api/v1/cluster", ""}, {"POST", "/api/v1/cluster/handover", ""}, {"POST", "/api/v1/cluster/recover", `{"from":"a"}`},
	} {
		answer, body := request(t, e.method, server.URL+e.path, e.body, token)
		checkProblem(t, answer, body, http.StatusNotFound, "not a member of a cluster")
	}
	_, body := request(t, "GET", server.URL+"/api/v1/status", "", token)
	assert.NotContains(t, body, "cluster", "the status has a cluster")
}

func TestAMemberWithoutThePipelineIsUnavailable(t *testing.T) {
	client, server := serveWith(t, handlerOf(admin.NewLocal((&cluster{state: twoMembers}).operations())))
	answer, body := request(t, http.MethodGet, server.URL+"/api/v1/history", "", token)
	checkProblem(t, answer, body, http.StatusServiceUnavailable, "this member does not own the log of the cluster")
	assert.Equal(t, answer.Header.Get("Retry-After"), "5", "Retry-After")
	_, err := client.Status(t.Context())
	assert.ErrorIs(t, err, admin.ErrUnavailable)
}
