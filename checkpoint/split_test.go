package checkpoint_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"ndrbridge/checkpoint"
	"ndrbridge/test/require"
	"ndrbridge/transform"
)

// applianceEvent makes an event of an appliance.
func applianceEvent(t testing.TB, appliance, id string) transform.Event {
	t.Helper()
	e, err := transform.New(transform.Attributes{
		ID: id, Source: "ndrbridge://" + appliance + "/detections", Type: "io.ndrbridge.detection.created",
		Appliance: appliance, RecordedTime: time.Unix(1000, 0),
	}, []byte(`{}`))
	require.NoError(t, err)
	return e
}

// fillOf writes entries of every kind that belong to an appliance, and an event.
func fillOf(t *testing.T, s *checkpoint.Store, appliance string) {
	t.Helper()
	ctx := t.Context()
	source := checkpoint.Source{Appliance: appliance, Stream: "detections"}
	event := applianceEvent(t, appliance, "1")
	require.NoError(t, s.Commit(ctx, checkpoint.Commit{
		Source: source, Position: []byte("p"), Events: []transform.Event{event},
		Remember: []checkpoint.Entry{{Key: "k", Value: []byte("v"), At: 1}}, Dead: []checkpoint.DeadLetter{{Key: "d", Body: []byte("object")}},
	}))
	require.NoError(t, s.RememberSink(ctx, "a", []checkpoint.Entry{{Key: "ndrbridge://" + source.String() + "/m", Value: []byte("message"), At: 3}}, 0))
	require.NoError(t, s.CommitDelivery(ctx, checkpoint.Delivery{Sink: "a", Dead: []checkpoint.DeadLetter{{Key: "d-" + appliance, Body: event.Structured()}}}))
	accepted, err := s.Accept(ctx, []checkpoint.Command{
		{Appliance: appliance, Subject: "T-" + appliance, Body: []byte("{}"), Accepted: time.Now()},
		{Key: "k-" + appliance, Appliance: appliance, Subject: "T-" + appliance, Body: []byte("{}"), Accepted: time.Now()},
	})
	require.NoError(t, err)
	require.NoError(t, s.Finish(ctx, checkpoint.Outcome{
		ID: accepted[0].ID, State: checkpoint.CommandRejected, Done: time.Now(), Expect: []checkpoint.Entry{{Key: "x", Value: []byte("v"), At: 7}},
	}))
}

// heldOf returns what fillOf wrote of an appliance and a state holds.
func heldOf(t *testing.T, s *checkpoint.Store, appliance string) (held []string) {
	t.Helper()
	ctx := t.Context()
	add := func(what string, is bool, err error) {
		require.NoError(t, err)
		if is {
			held = append(held, what)
		}
	}
	source := checkpoint.Source{Appliance: appliance, Stream: "detections"}
	position, err := s.Position(ctx, source)
	add("position", position != nil, err)
	known, err := s.Recall(ctx, source, []string{"k"})
	add("known", known[0] != nil, err)
	values, err := s.RecallSink(ctx, "a", []string{"ndrbridge://" + source.String() + "/m"})
	add("memory", values[0] != nil, err)
	expected, err := s.Expected(ctx, appliance)
	add("expected", len(expected) == 1, err)
	dead, err := s.Dead(ctx, checkpoint.SourceOwner(source), "", 10)
	add("dead letter", len(dead) == 1, err)
	_, found, err := s.DeadLetterOf(ctx, checkpoint.SinkOwner("a"), "d-"+appliance)
	add("dead letter of a sink", found, err)
	for what, f := range map[string]checkpoint.CommandFilter{
		"2 of the subject": {Subject: "T-" + appliance}, "1 pending": {Appliance: appliance, State: checkpoint.CommandPending},
		"1 rejected": {Appliance: appliance, State: checkpoint.CommandRejected},
	} {
		commands, err := s.Commands(ctx, f, 0, 10)
		add(what, strings.HasPrefix(what, fmt.Sprint(len(commands))), err)
	}
	slices.Sort(held)
	return held
}

// splitState splits the state at a path, and opens the shards.
func splitState(t require.T, path string, n int) (shards []*checkpoint.Store) {
	logs := make([]*recordLog, n)
	for i := range logs {
		logs[i] = &recordLog{}
	}
	of := func(appliance string) int { return len(appliance) % n }
	err := checkpoint.Split(context.Background(), path, of, n, func(shard int, record []byte) error {
		_, err := logs[shard].Append(record)
		return err
	})
	require.NoError(t, err)
	for i, log := range logs {
		at := fmt.Sprintf("%s.%02d", path, i)
		r, err := checkpoint.OpenReplica(at, 0)
		require.NoError(t, err)
		require.NoError(t, r.Apply(log.records, checkpoint.Point{Offset: uint64(len(log.records))}))
		content, err := os.ReadFile(at)
		require.NoError(t, err)
		require.NoError(t, os.WriteFile(at+".unclosed", content, 0o600)) // is read through, unlike one that was closed
		require.NoError(t, r.Close())
		r, err = checkpoint.OpenReplica(at+".unclosed", 0)
		require.NoError(t, err)
		require.NoError(t, r.Close())
		s, err := checkpoint.Open(at, checkpoint.Options{Log: log, Commands: checkpoint.IDs{Shard: uint64(i), Of: uint64(n)}})
		require.NoError(t, err)
		shards = append(shards, s)
	}
	return shards
}

func TestTheShardsOfASplitStateMakeTheState(t *testing.T) {
	path, ctx := statePath(t), t.Context()
	s := open(t, path, checkpoint.Options{})
	require.NoError(t, s.Configure(ctx, map[string]checkpoint.Start{"a": {}, "b": {}}))
	appliances := []string{"hq", "lab"} // of the shards 0 and 1
	for _, appliance := range appliances {
		fillOf(t, s, appliance)
	}
	require.NoError(t, s.RememberSink(ctx, "a", []checkpoint.Entry{{Key: "m", Value: []byte("of no appliance"), At: 3}}, 0))
	require.NoError(t, s.CommitDelivery(ctx, checkpoint.Delivery{Sink: "a", Dead: []checkpoint.DeadLetter{{Key: "no event", Body: []byte("x")}}}))
	require.NoError(t, s.Skip(ctx, checkpoint.Skip{Sink: "b", Cursor: 2, Event: applianceEvent(t, transform.Bridge, "skipped")}))
	require.NoError(t, s.Pause(ctx, "b", true))
	require.NoError(t, s.CommitDelivery(ctx, checkpoint.Delivery{Sink: "a", Cursor: 3}))
	require.NoError(t, s.CommitDelivery(ctx, checkpoint.Delivery{Sink: "b", Expect: 2, Cursor: 3}))
	all := heldOf(t, s, "hq")
	if len(all) != 9 || !slices.Equal(heldOf(t, s, "lab"), all) {
		t.Fatalf("the state holds %q", all)
	}
	whole, err := s.Stats(ctx)
	require.NoError(t, errors.Join(err, s.Close()))

	left := whole.DeadLetters
	for i, s := range splitState(t, path, 2) {
		for n, appliance := range appliances {
			if held := heldOf(t, s, appliance); !slices.Equal(held, all) && n == i || len(held) > 0 && n != i {
				t.Errorf("shard %d holds %q of %s", i, held, appliance)
			}
		}
		if values, err := s.RecallSink(ctx, "a", []string{"m"}); err != nil || (values[0] != nil) != (i == 0) {
			t.Errorf("shard %d: %q, %v of no appliance", i, values, err)
		}
		if _, found, err := s.DeadLetterOf(ctx, checkpoint.SinkOwner("a"), "no event"); err != nil || found != (i == 0) {
			t.Errorf("shard %d: a dead letter of no appliance: %t, %v", i, found, err)
		}
		stats, err := s.Stats(ctx)
		require.NoError(t, err)
		if stats.Events != 0 || stats.Last != whole.Last || stats.Commands != (checkpoint.CommandStats{Pending: 1, Done: 1}) {
			t.Errorf("shard %d: %+v, want an empty journal behind event %d, and two commands", i, stats, whole.Last)
		}
		for sink, want := range whole.Sinks {
			if i > 0 {
				want.Skipped = 0
			}
			got := stats.Sinks[sink]
			if got.Cursor != whole.Last || !got.PausedSince.Equal(want.PausedSince) || got.Skipped != want.Skipped {
				t.Errorf("sink %s of shard %d: %+v, want %+v", sink, i, got, want)
			}
		}
		for o, d := range stats.DeadLetters {
			left[o] = checkpoint.DeadStats{Count: left[o].Count - d.Count, Bytes: left[o].Bytes - d.Bytes}
		}
		again, err := s.Accept(ctx, []checkpoint.Command{
			{Key: "k-" + appliances[i], Appliance: appliances[i], Body: []byte("{}")}, {Appliance: appliances[i], Body: []byte("{}")},
		})
		if err != nil || !again[0].Duplicate || again[0].ID%2 != uint64(i) || again[1].ID%2 != uint64(i) || again[1].ID < 8 {
			t.Errorf("shard %d: commands %+v, %v, want one of before, and a later one", i, again, err)
		}
		require.NoError(t, s.Close())
	}
	for o, d := range left {
		if d.Count != 0 || d.Bytes != 0 {
			t.Errorf("dead letters of %s are counted wrongly: %+v are left", o, d)
		}
	}
}

func TestAStateIsSplitOnlyWhenAllIsDelivered(t *testing.T) {
	ctx := t.Context()
	for _, c := range []struct {
		name string
		left func(s *checkpoint.Store) error
		text string
	}{
		{"all was delivered", func(*checkpoint.Store) error { return nil }, ""},
		{"a sink has an event left", func(s *checkpoint.Store) error {
			return s.Commit(ctx, checkpoint.Commit{Source: source, Position: []byte("p"), Events: []transform.Event{applianceEvent(t, "hq", "1")}})
		}, "1 events"},
		{"a replayed range is queued", func(s *checkpoint.Store) error {
			err := s.Commit(ctx, checkpoint.Commit{Source: source, Position: []byte("p"), Events: []transform.Event{applianceEvent(t, "hq", "1")}})
			err = errors.Join(err, s.CommitDelivery(ctx, checkpoint.Delivery{Sink: "a", Cursor: 1}))
			_, replayed := s.Replay(ctx, "a", checkpoint.Period{})
			return errors.Join(err, replayed)
		}, "again"},
		{"a dead letter is queued", func(s *checkpoint.Store) error {
			err := s.CommitDelivery(ctx, checkpoint.Delivery{Sink: "a", Dead: []checkpoint.DeadLetter{{Key: "d", Body: applianceEvent(t, "hq", "1").Structured()}}})
			_, requeued := s.Requeue(ctx, "a", nil)
			return errors.Join(err, requeued)
		}, "again"},
	} {
		t.Run(c.name, func(t *testing.T) {
			path := statePath(t)
			s := open(t, path, checkpoint.Options{Limits: checkpoint.Limits{Retain: 1 << 62}})
			require.NoError(t, errors.Join(s.Configure(ctx, map[string]checkpoint.Start{"a": {}}), c.left(s), s.Close()))
			before, err := os.ReadFile(path)
			require.NoError(t, err)
			records := 0
			err = checkpoint.Split(ctx, path, func(string) int { return 1 }, 2, func(int, []byte) error {
				records++
				return nil
			})
			switch {
			case c.text == "" && (err != nil || records != 2):
				t.Errorf("%d records, %v", records, err)
			case c.text != "" && (err == nil || records > 0 || !strings.Contains(err.Error(), c.text) || !strings.Contains(err.Error(), "state forget a")):
				t.Errorf("%d records, %v, want an error that says %q and what to do", records, err, c.text)
			}
			if after, err := os.ReadFile(path); err != nil || !bytes.Equal(after, before) {
				t.Errorf("the file was changed (%v)", err)
			}
		})
	}
	t.Run("a shard is not split", func(t *testing.T) {
		path := statePath(t)
		emptyReplica(t, path)
		if err := checkpoint.Split(ctx, path, nil, 2, nil); err == nil || !strings.Contains(err.Error(), "single process") {
			t.Errorf("%v", err)
		}
	})
}
