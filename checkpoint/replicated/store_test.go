package replicated_test

import (
	"bytes"
	"context"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"ndrbridge/checkpoint"
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
	if err != nil {
		t.Fatal(err)
	}
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
		r, err := checkpoint.OpenReplica(path, checkpoint.ReplicaOptions{})
		if err != nil {
			t.Fatal(err)
		}
		last, err := j.Stream(0).Last(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		f, stop := follow(t, j.Stream(0), r)
		o := options(t.Context(), fmt.Sprint("owner", owner))
		o.PartBytes, o.Epoch = 700, f.Status().Epoch
		log := take(t, j.Stream(0), last, o)
		if err := f.CatchUp(t.Context(), log.Offset()); err != nil {
			t.Fatal(err)
		}
		wantErr(t, stop(), context.Canceled)
		if earlier != nil && !bytes.Equal(dumped(t, r), dumped(t, earlier)) {
			t.Errorf("owner %d begins with another state than its predecessor had", owner)
		}
		if err := r.Close(); err != nil {
			t.Fatal(err)
		}
		s, err := checkpoint.Open(path, checkpoint.Options{Log: log})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { s.Close() })
		if earlier != nil {
			wantErr(t, earlier.Commit(t.Context(), next), checkpoint.ErrNotOwner)
		}
		for _, size := range []int{10, 5000} {
			e, err := transform.New(transform.Attributes{
				ID: fmt.Sprint(owner, size), Source: "ndrbridge://hq/detections", Type: "io.ndrbridge.detection.created", RecordedTime: noon,
			}, fmt.Appendf(nil, `{"detection":{"pad":%q}}`, strings.Repeat("x", size)))
			if err != nil {
				t.Fatal(err)
			}
			next.Position, next.Events = fmt.Appendf(nil, "%d/%d", owner, size), []transform.Event{e}
			if err := s.Commit(t.Context(), next); err != nil {
				t.Fatal(err)
			}
			next.Expect = next.Position
		}
		earlier = s
	}
	if records, err := earlier.Read(t.Context(), 0, checkpoint.Batch{}); err != nil || len(records) != 6 {
		t.Errorf("%d events, %v, want those of all owners", len(records), err)
	}
}
