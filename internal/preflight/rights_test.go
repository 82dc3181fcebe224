package preflight_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"

	"ndrbridge/checkpoint/replicated"
	"ndrbridge/internal/cluster"
	"ndrbridge/internal/cluster/forward"
	"ndrbridge/internal/finding"
	"ndrbridge/test/findingtest"
	"ndrbridge/test/loopback"
	"ndrbridge/test/replicatedtest"
)

// With the documented rights and no others, a member can do all that it does.
func TestDocumentedRightsSuffice(t *testing.T) {
	t.Parallel()
	s := loopback.NATS(t, func(o *server.Options) {
		o.Users = []*server.User{{Username: "ana", Password: "sesame", Permissions: replicatedtest.Permissions("prod")}}
	})
	refused := make(chan error, 100)
	nc, err := nats.Connect(s.ClientURL(), nats.UserInfo("ana", "sesame"), nats.ErrorHandler(func(_ *nats.Conn, _ *nats.Subscription, err error) { refused <- err }))
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()

	js, err := replicated.OpenJetStream(ctx, nc, replicated.JetStreamOptions{Name: "prod", Shards: 2, Replicas: 1, Create: true})
	if err != nil {
		t.Fatal(err)
	}
	defer js.Close()
	log := js.Stream(1)
	stored := make(chan error, 1)
	for n := range uint64(3) {
		err := log.Publish(n, replicated.Message{ID: "a.1.1.1/1", Kind: "record", Data: []byte("x")}, func(_ uint64, err error) { stored <- err })
		if err != nil {
			t.Fatal(err)
		}
		if err := <-stored; err != nil {
			t.Fatal(err)
		}
	}
	if _, err := log.Get(ctx, 2); err != nil {
		t.Error(err)
	}
	if last, err := log.Last(ctx); err != nil || last != 3 {
		t.Error(last, err)
	}
	enough := errors.New("enough")
	if err := log.Follow(ctx, 1, func(seq uint64, _ replicated.Message) error {
		if seq == 3 {
			return enough
		}
		return nil
	}); !errors.Is(err, enough) {
		t.Error(err)
	}
	if err := log.Purge(ctx, 3); err != nil {
		t.Error(err)
	}

	registry := cluster.NewKV(js.Bucket(), nil)
	revision, err := registry.Put(ctx, "member.a", []byte("{}"), 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := registry.Get(ctx, "member.a"); err != nil {
		t.Error(err)
	}
	if entries, err := registry.List(ctx, "member."); err != nil || len(entries) != 1 {
		t.Error(entries, err)
	}
	if err := registry.Delete(ctx, "member.a", revision); err != nil {
		t.Error(err)
	}

	for _, subject := range []string{"ndr.prod.shard.01", "ndr.prod.member.a"} {
		served, err := forward.Serve(nc, subject, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "ok") }), slog.New(slog.DiscardHandler))
		if err != nil {
			t.Fatal(err)
		}
		defer served.Close()
		client := http.Client{Transport: forward.NewTransport(nc, subject)}
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://member/", nil)
		if err != nil {
			t.Fatal(err)
		}
		response, err := client.Do(request)
		if err != nil {
			t.Fatal(err)
		}
		response.Body.Close()
	}
	select {
	case err := <-refused:
		t.Error(err)
	default:
	}
}

func TestCheckReportsMissingRights(t *testing.T) {
	t.Parallel()
	rights := replicatedtest.Permissions("prod")
	reported := append([]string{"$SYS.REQ.USER.INFO"}, rights.Publish.Allow...)
	for name, test := range map[string]struct {
		allow []string
		want  findingtest.Row
	}{
		"all that are documented":    {reported, findingtest.Row{Result: finding.OK, Detail: "may publish what a member sends"}},
		"those of another cluster":   {append([]string{"$SYS.REQ.USER.INFO"}, replicatedtest.Permissions("test").Publish.Allow...), findingtest.Row{Result: finding.Failed, Detail: "may not publish to ndr.prod.>, $KV.NDR_prod.>", Advice: "docs/cluster.md"}},
		"the server reports nothing": {rights.Publish.Allow, findingtest.Row{Result: finding.Untried, Detail: "does not report"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := loopback.NATS(t, func(o *server.Options) {
				o.Users = []*server.User{{Username: "ana", Password: "sesame", Permissions: &server.Permissions{Publish: &server.SubjectPermission{Allow: test.allow}}}}
			})
			test.want.Step = "permissions"
			findingtest.Expect(t, ofCluster(t, `replicas: 1, nats: {url: "nats://`+s.Addr().String()+`", username: ana, password: sesame}`), test.want)
		})
	}
}

func TestDocumentsHaveTheRights(t *testing.T) {
	text, err := os.ReadFile("../../docs/cluster.md")
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(text), "```text\n"+replicated.Rights+"```") {
		t.Error("docs/cluster.md has other rights")
	}
}
