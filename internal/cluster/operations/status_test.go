package operations_test

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"io"
	"reflect"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"ndrbridge/internal/admin"
	"ndrbridge/internal/cluster/operations"
	"ndrbridge/poller"
	"ndrbridge/test/require"
)

var noReport = poller.VerifyReport{Progress: func(string, int, time.Time) {}, Found: func(poller.Difference) {}}

func at(seconds int64) time.Time { return time.Unix(seconds, 0).UTC() }

func TestStatus(t *testing.T) {
	c := newCluster(3)
	names := c.appliances()
	for n, s := range c.shards {
		s.status = admin.Status{
			Version: "1.0.0", Running: true, Started: at(1),
			State:      admin.StateStatus{Path: "state.db.0", FileBytes: 100, Journal: admin.Journal{Events: 10, Bytes: 20, MaxBytes: 30, Full: n == 1}, Commands: admin.CommandCounts{Pending: 1, Done: 2}},
			Appliances: []admin.ApplianceStatus{{Name: names[n], URL: "u", Streams: []admin.StreamStatus{{Stream: "audit"}}}},
		}
	}
	c.shards[0].status.Intakes = []admin.IntakeStatus{{Intake: "nats"}}
	c.shards[0].status.Unconfigured = []admin.SinkStatus{{Name: "old", LagEvents: 1}, {Name: "b"}}
	c.shards[1].status.Unconfigured = []admin.SinkStatus{{Name: "a"}, {Name: "old", LagEvents: 2}}
	c.shards[0].status.Sinks = []admin.SinkStatus{{
		Name: "lake", Kind: "file", Target: "-", LastDelivery: at(60), State: "running", Since: at(10), LagEvents: 1, LagBytes: 10, Oldest: at(50), LagSeconds: 5, Delivered: 100, EventsPerSecond: 1,
		FillsJournalInSeconds: 90, DeadLetters: 1, DeadLetterBytes: 10, DeadLetterMaxBytes: 1000, Redeliveries: 1, Skipped: 1,
		Match: &admin.MatchStatus{Matched: 1, Filtered: 10, Errors: 100, Error: "no such overload"},
	}}
	c.shards[1].status.Sinks = []admin.SinkStatus{{
		Name: "lake", Kind: "file", Target: "-", LastDelivery: at(55), NextAttempt: at(70), State: "retrying", Since: at(20), Error: "refused", LagEvents: 2, LagBytes: 20, Oldest: at(40), LagSeconds: 15, Delivered: 200, EventsPerSecond: 2,
		OverLag: true, FillsJournalInSeconds: 60, DeadLetters: 2, DeadLetterBytes: 20, DeadLetterMaxBytes: 1000, Redeliveries: 2, Skipped: 2,
		Match: &admin.MatchStatus{Matched: 2, Filtered: 20, Errors: 200, Error: "another"},
	}}
	c.shards[2].status.Sinks = []admin.SinkStatus{{Name: "lake", Kind: "file", State: "running", Since: at(30)}}
	control := c.control(t)
	got, err := control.Status(t.Context())
	require.NoError(t, err)
	want := admin.Status{
		Version: "1.2.3", Running: true, Started: started,
		State: admin.StateStatus{Path: got.State.Path, FileBytes: 300, Journal: admin.Journal{Events: 30, Bytes: 60, MaxBytes: 90, Full: true}, Commands: admin.CommandCounts{Pending: 3, Done: 6}},
		Sinks: []admin.SinkStatus{{
			Name: "lake", Kind: "file", Target: "-", LastDelivery: at(60), NextAttempt: at(70), State: "retrying", Since: at(20), Error: "refused", Shard: "01", LagEvents: 3, LagBytes: 30, Oldest: at(40), LagSeconds: 15, Delivered: 300, EventsPerSecond: 3,
			OverLag: true, FillsJournalInSeconds: 60, DeadLetters: 3, DeadLetterBytes: 30, DeadLetterMaxBytes: 2000, Redeliveries: 3, Skipped: 3,
			Match: &admin.MatchStatus{Matched: 3, Filtered: 30, Errors: 300, Error: "no such overload"},
		}, {Name: "chat", Kind: "file"}},
		Intakes:      []admin.IntakeStatus{{Intake: "nats"}},
		Unconfigured: []admin.SinkStatus{{Name: "a"}, {Name: "b"}, {Name: "old", LagEvents: 3}},
	}
	for n := range c.shards {
		want.Appliances = append(want.Appliances, c.shards[n].status.Appliances[0])
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("%+v\nwant %+v", got, want)
	}

	t.Run("a shard that cannot be asked is reported", func(t *testing.T) {
		c.shards[1].fail(errDown)
		got, err := control.Status(t.Context())
		require.NoError(t, err)
		text := "shard 01: no member owns it: not available now; try again in a few seconds"
		if want := []admin.ShardError{{Shard: 1, Error: text}}; !reflect.DeepEqual(got.ShardErrors, want) {
			t.Errorf("%+v, want %+v", got.ShardErrors, want)
		}
		if of := got.Appliances[1]; of.Name != names[1] || of.Error != text || of.Streams == nil {
			t.Errorf("%+v", of)
		}
		if of := got.Sinks[0]; of.State != "running" || of.Shard != "" || !of.Since.Equal(at(30)) {
			t.Errorf("%+v, want it to run since the last began", of)
		}
	})
	t.Run("the worst state is shown", func(t *testing.T) {
		for _, test := range []struct {
			states []string
			want   string
			shard  string
		}{
			{[]string{"running", "paused", "halted"}, "halted", "02"},
			{[]string{"retrying", "paused", "running"}, "retrying", "00"},
			{[]string{"paused", "paused", "paused"}, "paused", "02"},
			{[]string{"running", "running", "running"}, "running", ""},
			{[]string{"", "running", "running"}, "running", ""},
		} {
			c := newCluster(3)
			for n, state := range test.states {
				c.shards[n].status.Sinks = []admin.SinkStatus{{Name: "lake", State: state, Since: at(int64(10 - n))}}
			}
			got, err := c.control(t).Status(t.Context())
			if err != nil || got.Sinks[0].State != test.want || got.Sinks[0].Shard != test.shard {
				t.Errorf("%q: %+v (%v), want %s of %s", test.states, got.Sinks[0], err, test.want, test.shard)
			}
		}
	})
}

func TestStatusDoesNotWaitLong(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(2)
		c.reach = func(n int) *admin.Client {
			if n == 0 {
				return c.shards[0].client()
			}
			silent := make(admin.Operations)
			admin.API.GetStatus.By(silent, func(ctx context.Context, _ admin.None) (admin.Status, error) {
				<-ctx.Done()
				return admin.Status{}, ctx.Err()
			})
			return admin.NewLocal(silent)
		}
		got, err := c.control(t).Status(t.Context())
		if err != nil || len(got.ShardErrors) != 1 || got.ShardErrors[0].Error != "shard 01: no answer within 5s: not available now; try again in a few seconds" {
			t.Errorf("%+v (%v)", got.ShardErrors, err)
		}
	})
}

func TestHistory(t *testing.T) {
	c := newCluster(3)
	control := c.control(t)
	names := c.appliances()
	f := func(values ...float64) (all []*float64) {
		for _, v := range values {
			if v < 0 {
				all = append(all, nil)
			} else {
				all = append(all, new(v))
			}
		}
		return all
	}
	bytes := func(values ...int64) (all []*int64) {
		for _, v := range values {
			all = append(all, new(v))
		}
		return all
	}
	events := func(values ...uint64) (all []*uint64) {
		for _, v := range values {
			all = append(all, new(v))
		}
		return all
	}
	c.shards[0].history = admin.History{
		StepSeconds: 15, Until: at(100), Journal: admin.JournalHistory{Bytes: bytes(1, 2, 3)},
		Streams: []admin.StreamHistory{{Appliance: names[0], Stream: "audit", EventsPerSecond: f(-1, 1, 2), LagSeconds: f(1, 1, 1)}},
		Sinks:   []admin.SinkHistory{{Sink: "lake", EventsPerSecond: f(-1, 1, 2), LagEvents: events(1, 2, 3), LagSeconds: f(9, 1, 1)}},
	}
	// Its owner has taken it one step ago, and its last sample is 10 s older.
	c.shards[1].history = admin.History{
		StepSeconds: 15, Until: at(90), Journal: admin.JournalHistory{Bytes: bytes(10)},
		Streams: []admin.StreamHistory{{Appliance: names[1], Stream: "audit", EventsPerSecond: f(5), LagSeconds: f(6)}},
		Sinks:   []admin.SinkHistory{{Sink: "lake", EventsPerSecond: f(7), LagEvents: events(8), LagSeconds: f(4)}, {Sink: "other"}},
	}
	c.shards[2].fail(errDown)
	got, err := admin.API.GetHistory.Call(t.Context(), control, admin.None{})
	want := admin.History{
		StepSeconds: 15, Until: at(100), Journal: admin.JournalHistory{Bytes: bytes(1, 12, 3)},
		Streams: []admin.StreamHistory{
			{Appliance: names[0], Stream: "audit", EventsPerSecond: f(-1, 1, 2), LagSeconds: f(1, 1, 1)},
			{Appliance: names[1], Stream: "audit", EventsPerSecond: f(-1, 5, -1), LagSeconds: f(-1, 6, -1)},
		},
		Sinks: []admin.SinkHistory{
			{Sink: "lake", EventsPerSecond: f(-1, 8, 2), LagEvents: events(1, 10, 3), LagSeconds: f(9, 4, 1)},
			{Sink: "chat", EventsPerSecond: f(-1, -1, -1), LagEvents: []*uint64{nil, nil, nil}, LagSeconds: f(-1, -1, -1)},
		},
	}
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("%+v (%v)\nwant %+v", got, err, want)
	}
	for _, s := range c.shards {
		s.fail(errDown)
	}
	if _, err := admin.API.GetHistory.Call(t.Context(), control, admin.None{}); !errors.Is(err, admin.ErrUnavailable) {
		t.Errorf("%v, want ErrUnavailable", err)
	}
}

func TestBackup(t *testing.T) {
	c := newCluster(3)
	control := c.control(t)
	want := map[string]string{}
	for n, s := range c.shards {
		s.backup = strings.Repeat("x", n*100_000)
		want["state.db.0"+string(rune('0'+n))] = s.backup
	}
	var written bytes.Buffer
	require.NoError(t, control.Backup(t.Context(), &written))
	got := map[string]string{}
	for archive := tar.NewReader(&written); ; {
		header, err := archive.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		require.NoError(t, err)
		content, err := io.ReadAll(archive)
		require.NoError(t, err)
		got[header.Name] = string(content)
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("%d files, want %d, or they differ", len(got), len(want))
	}
	c.shards[1].fail(errDown)
	check(t, control.Backup(t.Context(), io.Discard), "shard 01: no member owns it")
	c.shards[1].fail(nil)
	check(t, control.Backup(t.Context(), writerFunc(func([]byte) (int, error) {
		check(t, control.Backup(t.Context(), io.Discard), "another backup is running")
		return 0, errors.New("the reader has left")
	})), "the reader has left")
}

type writerFunc func([]byte) (int, error)

func (f writerFunc) Write(p []byte) (int, error) { return f(p) }

func TestReload(t *testing.T) {
	member := func(name string, err error, changes ...string) operations.Member {
		return operations.Member{Name: name, Reload: func(context.Context) (admin.Reloaded, error) { return admin.Reloaded{Changes: changes}, err }}
	}
	invalid := errors.New("sinks[0]: name is missing")
	for _, test := range []struct {
		name    string
		members []operations.Member
		want    []string
		err     string
	}{
		{"equal changes are listed once", []operations.Member{member("b1", nil, "sink lake: changed"), member("b2", nil, "sink lake: changed")}, []string{"sink lake: changed"}, ""},
		{"different ones with their members", []operations.Member{member("b1", nil, "sink lake: changed"), member("b2", nil)}, []string{"b1: sink lake: changed"}, ""},
		{"a member that fails is named", []operations.Member{member("b1", nil), member("b2", invalid)}, nil, "b2 did not reload the configuration, the other members did: sinks[0]: name is missing"},
		{"all fail", []operations.Member{member("b1", invalid), member("b2", invalid)}, nil, "no member reloaded its configuration: sinks[0]: name is missing"},
		{"no member is known", nil, nil, "no member of the cluster is known"},
	} {
		t.Run(test.name, func(t *testing.T) {
			c := newCluster(2)
			c.members = test.members
			got, err := c.control(t).Reload(t.Context())
			check(t, err, test.err)
			if !reflect.DeepEqual(got.Changes, test.want) {
				t.Errorf("%q, want %q", got.Changes, test.want)
			}
		})
	}
}
