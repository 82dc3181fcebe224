package sinks

import (
	"context"
	"errors"
	"path/filepath"
	"testing"

	"ndrbridge/checkpoint"
	"ndrbridge/test/assert"
	"ndrbridge/test/require"
	"ndrbridge/transform"
)

// unreliable is a journal whose commits fail as listed, in order; the later ones succeed.
type unreliable struct {
	*checkpoint.Store
	commits []commitFailure
}

// commitFailure is how a commit fails.
type commitFailure struct {
	written bool // it is written nevertheless
}

var errCommit = errors.New("input/output error")

func (u *unreliable) CommitDelivery(ctx context.Context, d checkpoint.Delivery) error {
	if len(u.commits) == 0 {
		return u.Store.CommitDelivery(ctx, d)
	}
	failure := u.commits[0]
	u.commits = u.commits[1:]
	if failure.written {
		if err := u.Store.CommitDelivery(ctx, d); err != nil {
			return err
		}
	}
	return errCommit
}

// newQueue returns the queue of a sink without filters.
func newQueue(journal Journal) *journalQueue {
	o := &Options{Name: "lake", Batch: checkpoint.Batch{MaxEvents: 8}}
	return &journalQueue{queueBase: queueBase{journal: journal, o: o, preparer: &preparer{o: o}, parked: newParkedIndex(journal, o, newParts(0, 0))}}
}

func TestCommitContinuesAfterCommitsThatMayHaveBeenWritten(t *testing.T) {
	for name, test := range map[string]struct {
		failures []commitFailure
		lengths  []int // of the commits that fail
	}{
		"none was written":                               {[]commitFailure{{}, {}}, []int{1, 2}},
		"the last was written":                           {[]commitFailure{{}, {written: true}}, []int{1, 2}},
		"the first, which was shorter":                   {[]commitFailure{{written: true}, {}}, []int{1, 2}},
		"the whole batch, although it returned an error": {[]commitFailure{{written: true}}, []int{3}},
		"the first of three, each longer":                {[]commitFailure{{written: true}, {}, {}}, []int{1, 2, 3}},
		"the same one failed twice, once written":        {[]commitFailure{{}, {written: true}}, []int{1, 1}},
	} {
		t.Run(name, func(t *testing.T) {
			store := require.Value(checkpoint.Open(filepath.Join(t.TempDir(), "state.db"), checkpoint.Options{}))(t)
			defer store.Close()
			require.NoError(t, store.Configure(t.Context(), map[string]checkpoint.Start{"lake": {}}))
			var events []transform.Event
			for _, id := range []string{"1", "2", "3"} {
				e, err := transform.New(transform.Attributes{ID: id, Source: "ndrbridge://hq/detections", Type: "t"}, []byte("{}"))
				require.NoError(t, err)
				events = append(events, e)
			}
			require.NoError(t, store.Commit(t.Context(), checkpoint.Commit{Source: checkpoint.Source{Appliance: "hq", Stream: "detections"}, Position: []byte("3"), Events: events}))
			q := newQueue(&unreliable{store, test.failures})
			require.NoError(t, q.begin(t.Context()))
			b := require.Value(q.next(t.Context()))(t)
			b.entries[0].state, b.entries[0].record.Order = entryParked, "key"
			for _, n := range test.lengths {
				require.ErrorIs(t, q.commit(t.Context(), b, n, nil), errCommit, "a commit of", n)
			}
			require.NoError(t, q.commit(t.Context(), b, 3, nil), "the commit after these")
			assert.Equal(t, require.Value(store.Cursor(t.Context(), "lake"))(t), b.last().Seq, "the cursor is at")
			if heads, err := store.ParkedHeads(t.Context(), "lake", 0); err != nil || len(heads) != 1 || !q.parked.holds("key") {
				t.Errorf("%d events are parked (%v), and the queue knows of that: %t", len(heads), err, q.parked.holds("key"))
			}
		})
	}
}
