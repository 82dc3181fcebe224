package operations_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"reflect"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"ndrbridge/checkpoint"
	"ndrbridge/configs"
	"ndrbridge/internal/admin"
	"ndrbridge/internal/cluster/forward"
	"ndrbridge/internal/cluster/operations"
	"ndrbridge/internal/tickets"
	"ndrbridge/test/loopback"
	"ndrbridge/test/require"
	"ndrbridge/transform"
)

// remotely serves each shard on a NATS subject and makes the cluster ask there.
func (c *cluster) remotely(t *testing.T) (stop func(n int)) {
	t.Helper()
	nc, err := nats.Connect(loopback.NATS(t, nil).ClientURL())
	require.NoError(t, err)
	t.Cleanup(nc.Close)
	subject := func(n int) string { return "ndr.test.shard." + configs.ShardName(n) }
	var servers []*forward.Server
	for n, s := range c.shards {
		server, err := forward.Serve(nc, subject(n), operations.NewHandler(s.client), slog.New(slog.DiscardHandler))
		require.NoError(t, err)
		t.Cleanup(server.Close)
		servers = append(servers, server)
	}
	c.reach = func(n int) *admin.Client {
		return operations.NewRemote(forward.NewTransport(nc, subject(n)))
	}
	return func(n int) { servers[n].Close() }
}

// Answers, bodies and errors of the shards of other members come back as those of this one's: what
// each operation makes of them is tested with shards of this member.
func TestRemoteShards(t *testing.T) {
	t.Parallel()
	c := newCluster(3)
	control, ctx := c.control(t), t.Context()
	stop := c.remotely(t)
	lake := checkpoint.SinkOwner("lake")
	for n, s := range c.shards {
		s.status = admin.Status{State: admin.StateStatus{FileBytes: 100}}
		s.backup = string(bytes.Repeat([]byte("x"), 300_000))
		s.journalled([]transform.Event{event(t, n, n, 1)}, nil)
		s.addDead(lake, "a")
		s.addDead(lake, "b/../c")
	}

	status, err := control.Status(ctx)
	if err != nil || status.State.FileBytes != 300 {
		t.Errorf("%+v (%v)", status, err)
	}
	enough := errors.New("enough")
	seen := make(map[string]bool)
	err = control.Tail(ctx, admin.From{Since: time.Unix(0, 1)}, func(e transform.Event) error {
		if seen[e.Source] = true; len(seen) == 3 {
			return enough
		}
		return nil
	})
	if !errors.Is(err, enough) {
		t.Errorf("%v after %v", err, seen)
	}
	if err := admin.API.ResumeSink.Do(ctx, control, admin.OfSink{Sink: "nowhere"}); !errors.Is(err, admin.ErrUnknown) {
		t.Errorf("%v, want ErrUnknown", err)
	}
	var archive bytes.Buffer
	if err := control.Backup(ctx, &archive); err != nil || archive.Len() < 900_000 {
		t.Errorf("%d bytes (%v)", archive.Len(), err)
	}
	page, err := admin.API.ListDeadLetters.Call(ctx, control, admin.DeadRequest{OfDead: admin.OfDead{Sink: "lake"}, After: "00-a", Limit: 3})
	var keys []string
	for _, d := range page.DeadLetters {
		keys = append(keys, d.Key)
	}
	if want := []string{"00-b/../c", "01-a", "01-b/../c"}; err != nil || !reflect.DeepEqual(keys, want) {
		t.Errorf("%q (%v), want %q", keys, err, want)
	}
	if d, err := admin.API.GetDeadLetter.Call(ctx, control, admin.OfDeadLetter{OfDead: admin.OfDead{Sink: "lake"}, Key: "02-b/../c"}); err != nil || d.Key != "02-b/../c" || d.Reason != "422" {
		t.Errorf("%+v (%v)", d, err)
	}
	acceptor := c.acceptor()
	c.shards[1].remembers = []string{c.applianceIn(1)}
	accepted, err := acceptor.Accept(ctx, "http/k", []tickets.Command{{TicketID: "T", DetectionID: 7}})
	if err != nil || len(accepted) != 1 || accepted[0].ID != 1 || accepted[0].Duplicate {
		t.Fatalf("%+v (%v)", accepted, err)
	}
	again, err := acceptor.Accept(ctx, "http/k", []tickets.Command{{TicketID: "T", DetectionID: 7}})
	if err != nil || len(again) != 1 || !again[0].Duplicate {
		t.Errorf("%+v (%v), want a duplicate", again, err)
	}
	stored := c.shards[1].commands[0]
	if stored.Subject != "T" || stored.Appliance != c.applianceIn(1) || stored.Key == "" || stored.Accepted.IsZero() || len(stored.Body) == 0 {
		t.Errorf("stored %+v", stored)
	}
	if command, err := admin.API.GetTicketCommand.Call(ctx, control, admin.OfCommand{ID: 1}); err != nil || command.TicketID != "T" {
		t.Errorf("%+v (%v)", command, err)
	}
	c.shards[1].fail(checkpoint.ErrCommandsFull)
	if _, err := acceptor.Accept(ctx, "", []tickets.Command{{TicketID: "T", Appliance: c.applianceIn(1), Status: "new"}}); !errors.Is(err, checkpoint.ErrCommandsFull) {
		t.Errorf("%v, want ErrCommandsFull", err)
	}
	c.shards[1].fail(checkpoint.ErrNotOwner)
	if _, err := admin.API.GetTicketCommand.Call(ctx, control, admin.OfCommand{ID: 1}); !errors.Is(err, admin.ErrUnavailable) {
		t.Errorf("%v of an owner that is none any more, want ErrUnavailable", err)
	}

	stop(1)
	for _, err := range []error{
		second(admin.API.GetTicketCommand.Call(ctx, control, admin.OfCommand{ID: 1})), admin.API.PauseSink.Do(ctx, control, admin.OfSink{Sink: "lake"}), second(acceptor.Accept(ctx, "", []tickets.Command{{TicketID: "T", Appliance: c.applianceIn(1), Status: "new"}})),
	} {
		check(t, err, "shard 01: no member owns it: not available now")
		if !errors.Is(err, admin.ErrUnavailable) {
			t.Errorf("%v, want ErrUnavailable", err)
		}
	}
}

func second[T any](_ T, err error) error { return err }

func TestRemoteMembers(t *testing.T) {
	t.Parallel()
	nc, err := nats.Connect(loopback.NATS(t, nil).ClientURL())
	require.NoError(t, err)
	defer nc.Close()
	answer, problem := admin.Reloaded{Changes: []string{"sink lake: changed"}}, error(nil)
	all := make(admin.Operations)
	admin.API.Reload.By(all, func(context.Context, admin.None) (admin.Reloaded, error) { return answer, problem })
	server, err := forward.Serve(nc, "ndr.test.member.b1", operations.NewHandler(func() *admin.Client { return admin.NewLocal(all) }), slog.New(slog.DiscardHandler))
	require.NoError(t, err)
	defer server.Close()
	m := operations.NewMemberClient(forward.NewTransport(nc, "ndr.test.member.b1"))
	if got, err := m.Reload(t.Context()); err != nil || !reflect.DeepEqual(got, answer) {
		t.Errorf("%+v (%v)", got, err)
	}
	problem = errors.New("sinks[0]: name is missing")
	if _, err := m.Reload(t.Context()); err == nil || err.Error() != problem.Error() {
		t.Errorf("%v, want %v", err, problem)
	}
	server.Close()
	_, err = m.Reload(t.Context())
	check(t, err, "the member does not run")
}

func TestHostileMembers(t *testing.T) {
	for name, body := range map[string]string{"no JSON": "?", "another type": `{"a":1}`, "nothing": ""} {
		for _, path := range []string{"/api/v1/locate", "/api/v1/accept"} {
			answer := ask(operations.NewHandler(newShard(0, 1).client), path, body)
			if answer != http.StatusBadRequest {
				t.Errorf("%s to %s: %d", name, path, answer)
			}
		}
	}
	if answer := ask(operations.NewHandler(func() *admin.Client { return nil }), "/api/v1/locate", "{}"); answer != http.StatusServiceUnavailable {
		t.Errorf("%d without a shard", answer)
	}
}

func ask(h http.Handler, path, body string) int {
	w := httptest.NewRecorder()
	r, err := http.NewRequest(http.MethodPost, "http://localhost"+path, bytes.NewReader([]byte(body)))
	if err != nil {
		return 0
	}
	h.ServeHTTP(w, r)
	return w.Code
}
