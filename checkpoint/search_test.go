package checkpoint_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"ndrbridge/checkpoint"
	"ndrbridge/test/assert"
	"ndrbridge/test/require"
	"ndrbridge/transform"
)

// A search in steps of any size finds the events that begin as requested, newest first.
func TestSearchOfTheJournalFindsAllInSteps(t *testing.T) {
	s := open(t, statePath(t), checkpoint.Options{Limits: checkpoint.Limits{Retain: time.Hour}})
	found, err := s.SearchJournal(t.Context(), 0, checkpoint.Search{})
	require.True(t, err == nil && found.Whole && found.First == 0, "an empty journal", found, err)
	now := time.Now().Truncate(time.Millisecond)
	c := checkpoint.Commit{Source: source, Position: []byte("p")}
	const count = 300
	for n := 1; n <= count; n++ {
		c.Events = append(c.Events, newEvent(t, fmt.Sprintf("%d-%d", n%7, n), now.Add(time.Duration(n)*time.Millisecond-time.Second), 40*(n%11)))
	}
	require.NoError(t, s.Commit(t.Context(), c))
	rapid.Check(t, func(rt *rapid.T) {
		ids := rapid.SliceOfN(rapid.IntRange(0, 8), 0, 3).Draw(rt, "ids")
		by := checkpoint.Search{
			MaxBytes: rapid.Int64Range(0, 20_000).Draw(rt, "looked"),
			Found:    checkpoint.Batch{MaxEvents: rapid.IntRange(0, 5).Draw(rt, "events"), MaxBytes: rapid.IntRange(0, 3000).Draw(rt, "bytes")},
		}
		for _, id := range ids {
			by.Prefixes = append(by.Prefixes, transform.Beginning(fmt.Sprintf("%d-", id)))
		}
		begin := rapid.Uint64Range(0, count+2).Draw(rt, "before")
		var want, got []uint64
		last := uint64(count)
		if begin > 0 {
			last = min(last, begin-1)
		}
		for n := last; n > 0; n-- {
			if slices.Contains(ids, int(n%7)) {
				want = append(want, n)
			}
		}
		for before := begin; ; {
			found := require.Value(s.SearchJournal(t.Context(), before, by))(rt)
			require.True(rt, by.Found.MaxEvents <= 0 || len(found.Records) <= by.Found.MaxEvents, len(found.Records), "events of", by)
			for _, r := range found.Records {
				got = append(got, r.Seq)
			}
			require.True(rt, found.First <= 0 || found.Recorded.Equal(now.Add(time.Duration(found.First)*time.Millisecond-time.Second)), found.First, found.Recorded)
			if found.Whole {
				break
			}
			before = found.First
		}
		require.True(rt, slices.Equal(got, want), got, want)
	})
}

func TestDeliveriesOfEvents(t *testing.T) {
	s := open(t, statePath(t), checkpoint.Options{Limits: checkpoint.Limits{Retain: time.Hour}})
	ctx := t.Context()
	require.NoError(t, s.Configure(ctx, map[string]checkpoint.Start{"lake": {}}))
	c := checkpoint.Commit{Source: source, Position: []byte("p")}
	for n := 1; n <= 8; n++ {
		c.Events = append(c.Events, newEvent(t, fmt.Sprintf("4711-%d", n), time.Now().Add(time.Duration(n-10)*time.Minute), 10))
	}
	require.NoError(t, s.Commit(ctx, c))
	// The first three are rejected, and the second is requeued; the sixth is replayed.
	d := checkpoint.Delivery{Sink: "lake", Cursor: 6}
	for n := range 3 {
		d.Dead = append(d.Dead, checkpoint.DeadLetter{
			Key: checkpoint.DeadKey(uint64(n + 1)), Class: "rejected", Reason: "422", Time: time.Now(), Body: c.Events[n].Structured(),
		})
	}
	require.NoError(t, s.CommitDelivery(ctx, d))
	require.Equal(t, require.Value(s.Requeue(ctx, "lake", []string{checkpoint.DeadKey(2)}))(t), 1)
	r, err := s.Replay(ctx, "lake", checkpoint.Period{Since: c.Events[5].RecordedTime})
	require.True(t, err == nil && r == (checkpoint.Range{First: 6, Last: 6}), r, err)
	all, err := s.Deliveries(ctx, "lake", []uint64{8, 7, 6, 5, 4, 3, 2, 1, 100})
	require.NoError(t, err)
	const pending, done, dead, queued = "pending", "done", "dead", "queued"
	for i, want := range []string{pending, pending, queued, done, done, dead, queued, dead, pending} {
		d := all[i]
		assert.True(t, d.Past == (want != pending) && (d.Dead != nil && d.Dead.Reason == "422") == (want == dead) && d.Queued == (want == queued) && !d.Parked, i, d, want)
	}
	_, err = s.Deliveries(ctx, "nowhere", []uint64{1})
	assert.Error(t, err, "a sink that was never configured has deliveries")

	by := checkpoint.Search{Prefixes: [][]byte{transform.Beginning("4711-3")}, MaxBytes: 1}
	found, err := s.SearchDead(ctx, checkpoint.SinkOwner("lake"), "", by)
	require.True(t, err == nil && len(found.DeadLetters) == 0 && found.Next == checkpoint.DeadKey(1), found, err)
	found, err = s.SearchDead(ctx, checkpoint.SinkOwner("lake"), found.Next, by)
	require.True(t, err == nil && len(found.DeadLetters) == 1 && found.Next == "" && found.DeadLetters[0].Key == checkpoint.DeadKey(3), found, err)
	assert.Equal(t, require.Value(checkpoint.SeqOfDeadKey(found.DeadLetters[0].Key))(t), 3)
	for _, key := range []string{"", "3", "x", "0000000000000000000x", "-0000000000000000003"} {
		seq, err := checkpoint.SeqOfDeadKey(key)
		assert.Error(t, err, key, "is taken for the key of event", seq)
	}
}

func TestLastCommandsOfAnAppliance(t *testing.T) {
	s := open(t, statePath(t), checkpoint.Options{})
	var commands []checkpoint.Command
	for n := range 20 {
		commands = append(commands, checkpoint.Command{Appliance: []string{"hq", "dc"}[n%2], Subject: fmt.Sprint("T-", n%4), Body: []byte("{}")})
	}
	require.Value(s.Accept(t.Context(), commands))(t)
	for _, c := range []struct {
		name         string
		among, limit int
		want         []uint64
	}{
		{"the newest come first", 100, 3, []uint64{19, 15, 11}},
		{"among the last ones", 8, 100, []uint64{19, 15}},
	} {
		t.Run(c.name, func(t *testing.T) {
			found, err := s.LastCommands(t.Context(), "hq", c.among, c.limit, func(c checkpoint.Command) bool { return c.Subject == "T-2" })
			var ids []uint64
			for _, c := range found {
				ids = append(ids, c.ID)
			}
			assert.NoError(t, err)
			assert.EqualSlices(t, ids, c.want)
		})
	}
}
