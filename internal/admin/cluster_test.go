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
	"ndrbridge/test/require"
)

// cluster records the handovers and recoveries.
type cluster struct {
	state      admin.Cluster
	handovers  []admin.Handover
	recoveries []admin.Recovery
	err        error
}

// serveCluster serves a bridge that is a member of c and returns a client for it.
func serveCluster(t *testing.T, c *cluster) (*admin.Client, *httptest.Server) {
	t.Helper()
	all := make(admin.Operations)
	admin.API.GetCluster.By(all, func(context.Context, admin.None) (admin.Cluster, error) { return c.state, c.err })
	admin.API.HandOver.By(all, func(_ context.Context, what admin.Handover) error {
		c.handovers = append(c.handovers, what)
		return c.err
	})
	admin.API.RecoverShard.By(all, func(_ context.Context, what admin.Recovery) error {
		c.recoveries = append(c.recoveries, what)
		return c.err
	})
	return serveWith(t, handlerOf(newControl(t).client().With(all)))
}

var twoMembers = admin.Cluster{
	Name: "prod", Member: "a",
	Members: []admin.ClusterMember{
		{Member: "a", Version: "1.2.3", Since: time.Unix(1, 0).UTC(), Owns: []int{0}, Follows: []int{}, Config: admin.ConfigSame},
		{Member: "b", Version: "1.2.3", Since: time.Unix(2, 0).UTC(), Owns: []int{}, Follows: []int{0}, Config: admin.ConfigDiffers},
	},
	Shards: []admin.ClusterShard{
		{
			Shard: 0, Appliances: []string{"hq"}, Owner: "a", LeaseSeconds: 5.5, Followers: []admin.ClusterFollower{{Member: "b", Behind: 7}},
			LogBytes: 12, Snapshot: time.Unix(3, 0).UTC(), State: "owning",
		},
		{Shard: 1, Appliances: []string{}, WithoutOwnerSeconds: 3, Next: "b", NextSeconds: 4, Followers: []admin.ClusterFollower{}, State: "away", Error: "no space left"},
	},
}

func TestClientCluster(t *testing.T) {
	client, server := serveCluster(t, &cluster{state: twoMembers})
	got, err := admin.API.GetCluster.Call(t.Context(), client, admin.None{})
	if err != nil || !reflect.DeepEqual(got, twoMembers) {
		t.Errorf("%+v (%v), want %+v", got, err, twoMembers)
	}
	status, err := client.Status(t.Context())
	if err != nil || status.Cluster == nil || !reflect.DeepEqual(*status.Cluster, twoMembers) {
		t.Errorf("the status has the cluster %+v (%v), want %+v", status.Cluster, err, twoMembers)
	}
	const want = `{"name":"prod","member":"a","members":[` +
		`{"member":"a","version":"1.2.3","since":"1970-01-01T00:00:01Z","owns":[0],"follows":[],"config":"same"},` +
		`{"member":"b","version":"1.2.3","since":"1970-01-01T00:00:02Z","owns":[],"follows":[0],"config":"differs"}],"shards":[` +
		`{"shard":0,"appliances":["hq"],"owner":"a","lease_seconds":5.5,"followers":[{"member":"b","behind":7}],"log_bytes":12,"snapshot":"1970-01-01T00:00:03Z","state":"owning"},` +
		`{"shard":1,"appliances":[],"without_owner_seconds":3,"next":"b","next_seconds":4,"followers":[],"log_bytes":0,"state":"away","error":"no space left"}]}`
	if _, body := request(t, "GET", server.URL+"/api/v1/cluster", "", token); strings.TrimSpace(body) != want {
		t.Errorf("%s, want %s", body, want)
	}
}

func TestClientHandover(t *testing.T) {
	c := &cluster{}
	client, server := serveCluster(t, c)
	want := []admin.Handover{{Member: "a"}, {Shard: new(0)}}
	for _, what := range want {
		require.NoError(t, admin.API.HandOver.Do(t.Context(), client, what))
	}
	if !reflect.DeepEqual(c.handovers, want) {
		t.Errorf("%+v, want %+v", c.handovers, want)
	}
	c.err = fmt.Errorf("%w member %q", admin.ErrUnknown, "z")
	if err := admin.API.HandOver.Do(t.Context(), client, admin.Handover{Member: "z"}); !errors.Is(err, admin.ErrUnknown) || !strings.Contains(err.Error(), `"z"`) {
		t.Errorf("%v, want that the member is unknown", err)
	}
	c.err = errors.New("no other member follows it")
	answer, text := request(t, "POST", server.URL+"/api/v1/cluster/handover", `{"shard":0}`, token)
	checkProblem(t, answer, text, http.StatusConflict, "no other member follows it")
}

func TestInvalidHandovers(t *testing.T) {
	c := &cluster{}
	_, server := serveCluster(t, c)
	for _, body := range []string{`{}`, `{"member":"a","shard":1}`, `{"member":""}`} {
		answer, text := request(t, "POST", server.URL+"/api/v1/cluster/handover", body, token)
		checkProblem(t, answer, text, http.StatusBadRequest, "either a member or a shard")
	}
	if len(c.handovers) > 0 {
		t.Errorf("the bridge got %+v", c.handovers)
	}
}

func TestClientRecover(t *testing.T) {
	c := &cluster{}
	client, server := serveCluster(t, c)
	want := admin.Recovery{Shard: new(0), From: "b"}
	require.NoError(t, admin.API.RecoverShard.Do(t.Context(), client, want))
	for _, body := range []string{`{}`, `{"from":"b"}`, `{"shard":0}`, `{"shard":0,"from":""}`} {
		answer, text := request(t, "POST", server.URL+"/api/v1/cluster/recover", body, token)
		checkProblem(t, answer, text, http.StatusBadRequest, "name a shard, and the member")
	}
	answer, _ := request(t, "POST", server.URL+"/api/v1/cluster/recover", `{"shard":0,"from":"b"}`, "")
	if answer.StatusCode != http.StatusUnauthorized {
		t.Errorf("without the token: %s", answer.Status)
	}
	if !reflect.DeepEqual(c.recoveries, []admin.Recovery{want}) {
		t.Errorf("%+v, want %+v once", c.recoveries, want)
	}
	c.err = errors.New("member a owns it")
	answer, text := request(t, "POST", server.URL+"/api/v1/cluster/recover", `{"shard":0,"from":"b"}`, token)
	checkProblem(t, answer, text, http.StatusConflict, "member a owns it")
}

func TestABridgeWithoutAClusterHasNone(t *testing.T) {
	_, server := serve(t, newControl(t))
	for _, e := range []struct{ method, path, body string }{
		{"GET", "/api/v1/cluster", ""}, {"POST", "/api/v1/cluster/handover", `{"member":"a"}`}, {"POST", "/api/v1/cluster/recover", `{"member":"a"}`},
	} {
		answer, body := request(t, e.method, server.URL+e.path, e.body, token)
		checkProblem(t, answer, body, http.StatusNotFound, "not a member of a cluster")
	}
	if _, body := request(t, "GET", server.URL+"/api/v1/status", "", token); strings.Contains(body, "cluster") {
		t.Errorf("the status has a cluster: %s", body)
	}
}
