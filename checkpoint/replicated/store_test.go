package replicated_test

import (
	"bytes"
	"context"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"ndrbridge/checkpoint"
	"ndrbridge/test/require"
	"ndrbridge/transform"
)

// dumped returns all that a store or a replica holds.
func dumped(t *testing.T, state interface {
	Dump(ctx context.Context, pieceBytes int, yield func([]byte) error) (checkpoint.Point, error)
}) (all []byte) {
	t.Helper()
	_, err := state.Dump(t.Context(), 1<<20, func(record []byte) error {
		all = append(all, record...)
		return nil
	})
	require.NoError(t, err)
	return all
}

// TestStoresOnJetStream opens stores one after the other, each made from the log alone, that
// write their transactions to JetStream: each holds all that the earlier ones committed, which
// commit nothing any more. A record of up to 700 bytes is one message; others, a chain of them.
func TestStoresOnJetStream(t *testing.T) {
	j := openJetStream(t, startServer(t, nil), one)
	source := checkpoint.Source{Appliance: "hq", Stream: transform.StreamDetections}
	next := checkpoint.Commit{Source: source}
	var earlier *checkpoint.Store
	for owner := range 3 {
		path := filepath.Join(t.TempDir(), "state.db")
		r, err := checkpoint.OpenReplica(path, 0)
		require.NoError(t, err)
		last, err := j.Stream(0).Last(t.Context())
		require.NoError(t, err)
		f, stop := follow(t, j.Stream(0), r)
		o := options(t.Context(), fmt.Sprint("owner", owner))
		o.PartBytes, o.Epoch = 700, f.Status().Epoch
		log := take(t, j.Stream(0), last, o)
		require.NoError(t, f.CatchUp(t.Context(), log.Offset()))
		require.ErrorIs(t, stop(), context.Canceled)
		if earlier != nil && !bytes.Equal(dumped(t, r), dumped(t, earlier)) {
			t.Errorf("owner %d begins with another state than its predecessor had", owner)
		}
		require.NoError(t, r.Close())
		s, err := checkpoint.Open(path, checkpoint.Options{Log: log})
		require.NoError(t, err)
		t.Cleanup(func() { s.Close() })
		if earlier != nil {
			require.ErrorIs(t, earlier.Commit(t.Context(), next), checkpoint.ErrNotOwner)
		}
		for _, size := range []int{10, 5000} {
			e, err := transform.New(transform.Attributes{
				ID: fmt.Sprint(owner, size), Source: "ndrbridge://hq/detections", Type: "io.ndrbridge.detection.created", RecordedTime: noon,
			}, fmt.Appendf(nil, `{"detection":{"pad":%q}}`, strings.Repeat("x", size)))
			require.NoError(t, err)
			next.Position, next.Events = fmt.Appendf(nil, "%d/%d", owner, size), []transform.Event{e}
			require.NoError(t, s.Commit(t.Context(), next))
			next.Expect = next.Position
		}
		earlier = s
	}
	if records, err := earlier.Read(t.Context(), 0, checkpoint.Batch{}); err != nil || len(records) != 6 {
		t.Errorf("%d events, %v, want those of all owners", len(records), err)
	}
}
