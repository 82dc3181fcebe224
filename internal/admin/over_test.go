package admin_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"ndrbridge/checkpoint"
	"ndrbridge/internal/admin"
	"ndrbridge/internal/cluster/forward"
	"ndrbridge/poller"
	"ndrbridge/test/loopback"
	"ndrbridge/test/require"
)

// serveOverNATS serves a bridge on a NATS subject and returns a client for it.
func serveOverNATS(t *testing.T, c *control) *admin.Client {
	t.Helper()
	s := loopback.NATS(t, nil)
	nc, err := nats.Connect(s.ClientURL())
	require.NoError(t, err)
	t.Cleanup(nc.Close)
	o := handler(c)
	o.Token = ""
	server, err := forward.Serve(nc, "ndr.test.shard.00", admin.NewHandler(o), slog.New(slog.DiscardHandler))
	require.NoError(t, err)
	t.Cleanup(server.Close)
	return admin.NewClientOver(forward.NewTransport(nc, "ndr.test.shard.00"))
}

func TestClientOverNATS(t *testing.T) {
	c := newControl(t)
	client := serveOverNATS(t, c)
	ctx := t.Context()
	c.status = admin.Status{Version: "1.2.3", Running: true}
	if got, err := client.Status(ctx); err != nil || !reflect.DeepEqual(got, c.status) {
		t.Errorf("%+v (%v), want %+v", got, err, c.status)
	}
	c.journal(t, 1000, `{"fill":"`+strings.Repeat("x", 1000)+`"}`)
	c.deliver(t, 3)
	if got := <-ids(t, client, admin.From{Since: time.Unix(101, 0)}, 900); fmt.Sprint(got) != fmt.Sprint(upTo(101, 1000)) {
		t.Errorf("tailed %v", got)
	}
	if got, err := admin.API.ListDeadLetters.Call(ctx, client, admin.DeadRequest{OfDead: ofLake, Limit: 2}); err != nil || len(got.DeadLetters) != 2 {
		t.Errorf("%d dead letters (%v), want 2", len(got.DeadLetters), err)
	}
	if n, err := admin.API.RequeueDeadLetters.Call(ctx, client, admin.Selection{OfDead: ofLake, All: true}); n.N != 3 || err != nil {
		t.Errorf("%d requeued (%v), want 3", n, err)
	}
	if err := admin.API.PauseSink.Do(ctx, client, admin.OfSink{Sink: "a/../b"}); !errors.Is(err, admin.ErrUnknown) {
		t.Errorf("%v, want ErrUnknown", err)
	}
	var copied bytes.Buffer
	require.NoError(t, client.Backup(ctx, &copied))
	openCopy(t, filepath.Join(t.TempDir(), "copy.db"), copied.Bytes())
	c.verify = func(report poller.VerifyReport) ([]poller.Verification, error) {
		report.Progress("detections", 3, time.Unix(0, 0))
		panic(http.ErrAbortHandler)
	}
	_, err := client.Verify(ctx, "hq", time.Unix(0, 0), poller.VerifyReport{Progress: func(string, int, time.Time) {}})
	if err == nil || !strings.Contains(err.Error(), "broke off") {
		t.Errorf("%v, want that the response broke off", err)
	}
}

// openCopy writes a copy of a state and opens it.
func openCopy(t *testing.T, path string, data []byte) {
	t.Helper()
	require.NoError(t, os.WriteFile(path, data, 0o600))
	store, err := checkpoint.Open(path, checkpoint.Options{})
	require.NoError(t, err)
	require.NoError(t, store.Close())
}

func TestUnavailable(t *testing.T) {
	c := newControl(t)
	c.err = fmt.Errorf("shard 03: no member owns it: %w", admin.ErrUnavailable)
	inner := serveOverNATS(t, c)
	forwarded := make(admin.Operations)
	admin.API.GetHistory.By(forwarded, func(ctx context.Context, _ admin.None) (admin.History, error) {
		h, err := admin.API.GetHistory.Call(ctx, inner, admin.None{})
		return h, fmt.Errorf("asked: %w", err)
	})
	_, server := serveWith(t, handlerOf(admin.NewLocal(forwarded)))
	answer, body := request(t, http.MethodGet, server.URL+"/api/v1/history", "", token)
	if answer.StatusCode != http.StatusServiceUnavailable || answer.Header.Get("Retry-After") != "5" || !strings.Contains(body, `"detail":"asked: shard 03: no member owns it: not available now`) {
		t.Errorf("%s, Retry-After %q: %s", answer.Status, answer.Header.Get("Retry-After"), body)
	}
	if _, err := admin.API.GetHistory.Call(t.Context(), inner, admin.None{}); !errors.Is(err, admin.ErrUnavailable) {
		t.Errorf("%v, want ErrUnavailable", err)
	}
	if err := admin.API.PauseSink.Do(t.Context(), admin.NewClientOver(broken{}), admin.OfSink{Sink: "lake"}); err == nil || err.Error() != "no way there" {
		t.Errorf("%v, want the transport's error", err)
	}
}

type broken struct{}

func (broken) RoundTrip(*http.Request) (*http.Response, error) {
	return nil, errors.New("no way there")
}

func TestABackupHasItsName(t *testing.T) {
	member := make(admin.Operations)
	admin.API.GetCluster.By(member, func(context.Context, admin.None) (admin.Cluster, error) { return admin.Cluster{}, nil })
	for name, with := range map[string]admin.Operations{"ndrbridge.db": nil, "ndrbridge.tar": member} {
		_, server := serveWith(t, handlerOf(newControl(t).client().With(with)))
		answer, _ := request(t, http.MethodPost, server.URL+"/api/v1/backup", "", token)
		if got := answer.Header.Get("Content-Disposition"); got != `attachment; filename="`+name+`"` {
			t.Errorf("%s, want %s", got, name)
		}
	}
}
