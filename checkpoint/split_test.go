package checkpoint_test

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"ndrbridge/checkpoint"
	"ndrbridge/test/require"
	"ndrbridge/transform"
)

var splitAppliances = []string{"hq", "lab", "attic", "cellar", transform.Bridge}

// shardOfSplit is how the tests divide appliances.
func shardOfSplit(appliance string, shards int) int { return len(appliance) % shards }

// applianceEvent makes an event of an appliance.
func applianceEvent(t rapid.TB, appliance, id string) transform.Event {
	t.Helper()
	e, err := transform.New(transform.Attributes{
		ID: id, Source: "ndrbridge://" + appliance + "/detections", Type: "io.ndrbridge.detection.created",
		Appliance: appliance, RecordedTime: time.Unix(1000, 0),
	}, []byte(`{}`))
	require.NoError(t, err)
	return e
}

// fillRandomly writes entries of some appliances, and delivers all events.
func fillRandomly(t *rapid.T, s *checkpoint.Store) {
	ctx := context.Background()
	require.NoError(t, s.Configure(ctx, map[string]checkpoint.Start{"a": {}, "b": {}}))
	count := 0
	name := func(what string) string {
		count++
		return fmt.Sprintf("%s%d", what, count)
	}
	appliance := func() string { return rapid.SampledFrom(splitAppliances).Draw(t, "appliance") }
	source := func() checkpoint.Source {
		return checkpoint.Source{Appliance: appliance(), Stream: rapid.SampledFrom([]string{"detections", "records/dns"}).Draw(t, "stream")}
	}
	dead := func(body []byte) checkpoint.DeadLetter {
		return checkpoint.DeadLetter{Key: name("d"), Class: "rejected", Time: time.Unix(9, 0), Body: body}
	}
	for range rapid.IntRange(0, 25).Draw(t, "calls") {
		switch rapid.IntRange(0, 7).Draw(t, "call") {
		case 0, 1:
			from := source()
			before, err := s.Position(ctx, from)
			require.NoError(t, err)
			c := checkpoint.Commit{Source: from, Expect: before, Position: []byte(name("p")), Events: []transform.Event{applianceEvent(t, from.Appliance, name("e"))}}
			for range rapid.IntRange(0, 3).Draw(t, "remembered") {
				c.Remember = append(c.Remember, checkpoint.Entry{Key: name("k"), Value: []byte("v"), At: int64(count)})
			}
			if rapid.Bool().Draw(t, "dead letter") {
				c.Dead = []checkpoint.DeadLetter{dead([]byte("object"))}
			}
			require.NoError(t, s.Commit(ctx, c))
		case 2:
			c := checkpoint.Command{Key: name("c"), Appliance: appliance(), Subject: "T-1", Body: []byte("{}"), Accepted: time.Now()}
			other := c
			other.Key = ""
			_, err := s.Accept(ctx, []checkpoint.Command{c, other})
			require.NoError(t, err)
		case 3:
			pending, err := s.Commands(ctx, checkpoint.CommandFilter{State: checkpoint.CommandPending}, 0, 1)
			require.NoError(t, err)
			for _, c := range pending {
				require.NoError(t, s.Finish(ctx, checkpoint.Outcome{
					ID: c.ID, State: checkpoint.CommandRejected, Done: time.Now(),
					Expect: []checkpoint.Entry{{Key: name("x"), Value: []byte("v"), At: 7}},
				}))
			}
		case 4:
			require.NoError(t, s.RememberSink(ctx, rapid.SampledFrom([]string{"a", "b"}).Draw(t, "sink"), []checkpoint.Entry{
				{Key: "ndrbridge://" + source().String() + "/detections/" + name("m"), Value: []byte("message"), At: 3},
				{Key: name("m"), Value: []byte("other"), At: 4},
			}, 0))
		case 5:
			cursor, err := s.Cursor(ctx, "a")
			require.NoError(t, err)
			event := applianceEvent(t, appliance(), name("e"))
			require.NoError(t, s.CommitDelivery(ctx, checkpoint.Delivery{Sink: "a", Expect: cursor, Cursor: cursor, Dead: []checkpoint.DeadLetter{
				dead(event.Structured()), dead([]byte("not an event")),
			}}))
		case 6:
			require.NoError(t, s.Pause(ctx, "b", rapid.Bool().Draw(t, "paused")))
		case 7:
			stats, err := s.Stats(ctx)
			require.NoError(t, err)
			if cursor := stats.Sinks["b"].Cursor; cursor < stats.Last {
				require.NoError(t, s.Skip(ctx, checkpoint.Skip{Sink: "b", Expect: cursor, Cursor: stats.Last, Event: applianceEvent(t, "hq", name("skipped"))}))
			}
		}
	}
	stats, err := s.Stats(ctx)
	require.NoError(t, err)
	for sink, of := range stats.Sinks {
		require.NoError(t, s.CommitDelivery(ctx, checkpoint.Delivery{Sink: sink, Expect: of.Cursor, Cursor: stats.Last}))
	}
}

// splitState splits the state at a path, and opens the shards.
func splitState(t require.T, path string, n int) (shards []*checkpoint.Store) {
	logs := make([]*recordLog, n)
	for i := range logs {
		logs[i] = &recordLog{}
	}
	of := func(appliance string) int { return shardOfSplit(appliance, n) }
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

// view is what one state shows of all appliances and sinks.
type view struct {
	Positions, Known, Expected, Memory map[string]string
	Dead                               map[string]string
	Commands                           []checkpoint.Command
	Stats                              checkpoint.Stats
}

func viewOf(t *rapid.T, s *checkpoint.Store) view {
	ctx := context.Background()
	v := view{
		Positions: map[string]string{}, Known: map[string]string{}, Expected: map[string]string{}, Memory: map[string]string{},
		Dead: map[string]string{},
	}
	var failed error
	fail := func(err error) { failed = errors.Join(failed, err) }
	var memoryKeys []string
	for n := range 200 {
		memoryKeys = append(memoryKeys, fmt.Sprint("m", n))
		for _, a := range splitAppliances {
			for _, stream := range []string{"detections", "records/dns"} {
				memoryKeys = append(memoryKeys, fmt.Sprintf("ndrbridge://%s/%s/detections/m%d", a, stream, n))
			}
		}
	}
	deadOf := func(o checkpoint.Owner) {
		letters, err := s.Dead(ctx, o, "", 1000)
		fail(err)
		for _, d := range letters {
			v.Dead[string(o)+" "+d.Key] = string(d.Body)
		}
	}
	for _, a := range splitAppliances {
		for _, stream := range []string{"detections", "records/dns"} {
			source := checkpoint.Source{Appliance: a, Stream: stream}
			position, err := s.Position(ctx, source)
			fail(err)
			if position != nil {
				v.Positions[source.String()] = string(position)
			}
			known, err := s.Known(ctx, source, checkpoint.Entry{}, 1000)
			fail(err)
			for _, e := range known {
				v.Known[source.String()+" "+e.Key] = fmt.Sprint(e)
			}
			deadOf(checkpoint.SourceOwner(source))
		}
		expected, err := s.Expected(ctx, a)
		fail(err)
		for _, e := range expected {
			v.Expected[a+" "+e.Key] = fmt.Sprint(e)
		}
	}
	for _, sink := range []string{"a", "b"} {
		values, err := s.RecallSink(ctx, sink, memoryKeys)
		fail(err)
		for i, value := range values {
			if value != nil {
				v.Memory[sink+" "+memoryKeys[i]] = string(value)
			}
		}
		deadOf(checkpoint.SinkOwner(sink))
	}
	var err error
	v.Commands, err = s.Commands(ctx, checkpoint.CommandFilter{}, 0, 1000)
	fail(err)
	v.Stats, err = s.Stats(ctx)
	fail(err)
	if failed != nil {
		t.Fatal(failed)
	}
	return v
}

func TestTheShardsOfASplitStateMakeTheState(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	runs := 0
	rapid.Check(t, func(t *rapid.T) {
		runs++
		dir := filepath.Join(root, fmt.Sprint(runs))
		require.NoError(t, os.Mkdir(dir, 0o700))
		defer os.RemoveAll(dir)
		path := filepath.Join(dir, "state.db")
		s, err := checkpoint.Open(path, checkpoint.Options{})
		require.NoError(t, err)
		fillRandomly(t, s)
		whole := viewOf(t, s)
		require.NoError(t, s.Close())
		shards := splitState(t, path, rapid.IntRange(1, 4).Draw(t, "shards"))
		n := uint64(len(shards))
		union := view{}
		add := func(to *map[string]string, of int, shard map[string]string, appliance func(key string) string) {
			if *to == nil {
				*to = map[string]string{}
			}
			for key, value := range shard {
				want := 0
				if a := appliance(key); a != "" && a != transform.Bridge {
					want = shardOfSplit(a, int(n))
				}
				if _, twice := (*to)[key]; twice || of != want {
					t.Fatalf("%q is in shard %d, want it in shard %d alone", key, of, want)
				}
				(*to)[key] = value
			}
		}
		// named returns the appliance whose name follows one of these in a key.
		named := func(before ...string) func(string) string {
			return func(key string) string {
				for _, b := range before {
					if _, rest, is := strings.Cut(key, b); is {
						appliance, _, _ := strings.Cut(strings.Fields(rest)[0], "/")
						return appliance
					}
				}
				return ""
			}
		}
		var skipped uint64
		for i, s := range shards {
			v := viewOf(t, s)
			add(&union.Positions, i, v.Positions, named(""))
			add(&union.Known, i, v.Known, named(""))
			add(&union.Expected, i, v.Expected, named(""))
			add(&union.Memory, i, v.Memory, named("ndrbridge://"))
			add(&union.Dead, i, v.Dead, func(key string) string {
				if e, err := transform.Parse([]byte(v.Dead[key])); err == nil {
					return e.Appliance
				}
				return named("source/")(key)
			})
			for _, c := range v.Commands {
				if c.ID%n != uint64(i) || c.Appliance != transform.Bridge && shardOfSplit(c.Appliance, int(n)) != i {
					t.Fatalf("command %d of %s is in shard %d", c.ID, c.Appliance, i)
				}
				again, err := s.Accept(context.Background(), []checkpoint.Command{{Key: cmp.Or(c.Key, "new"), Appliance: c.Appliance, Body: c.Body}})
				if err != nil || c.Key != "" && (again[0] != checkpoint.Acceptance{ID: c.ID, Duplicate: true}) || c.Key == "" && again[0].ID < n*uint64(len(whole.Commands)) {
					t.Fatalf("%+v again: %+v, %v", c, again, err)
				}
				c.ID /= n
				union.Commands = append(union.Commands, c)
			}
			union.Stats.Commands.Pending += v.Stats.Commands.Pending
			union.Stats.Commands.Done += v.Stats.Commands.Done
			if v.Stats.Events != 0 || v.Stats.Last != whole.Stats.Last {
				t.Fatalf("the journal of shard %d: %+v, want it empty after %d", i, v.Stats, whole.Stats.Last)
			}
			for sink, want := range whole.Stats.Sinks {
				got := v.Stats.Sinks[sink]
				if got.Cursor != whole.Stats.Last || !got.PausedSince.Equal(want.PausedSince) {
					t.Fatalf("sink %s of shard %d: %+v, want %+v", sink, i, got, want)
				}
				skipped += got.Skipped
			}
			for o, d := range v.Stats.DeadLetters {
				all := whole.Stats.DeadLetters[o]
				all.Count, all.Bytes = all.Count-d.Count, all.Bytes-d.Bytes
				whole.Stats.DeadLetters[o] = all
			}
			require.NoError(t, s.Close())
		}
		slices.SortFunc(union.Commands, func(a, b checkpoint.Command) int { return cmp.Compare(a.ID, b.ID) })
		for o, left := range whole.Stats.DeadLetters {
			if left.Count != 0 || left.Bytes != 0 {
				t.Errorf("dead letters of %s are counted wrongly: %+v are left", o, left)
			}
		}
		if got, want := union.Stats.Commands, whole.Stats.Commands; got != want {
			t.Errorf("%+v, want %+v", got, want)
		}
		if want := whole.Stats.Sinks["b"].Skipped; skipped != want {
			t.Errorf("%d events were skipped, want %d", skipped, want)
		}
		whole.Stats, union.Stats = checkpoint.Stats{}, checkpoint.Stats{}
		if !reflect.DeepEqual(union, whole) {
			t.Errorf("the shards make\n%+v, want\n%+v", union, whole)
		}
	})
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
