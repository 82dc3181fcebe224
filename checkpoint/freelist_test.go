package checkpoint_test

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"os"
	"testing"
	"time"

	"ndrbridge/checkpoint"
	"ndrbridge/test/require"
)

// listsFreePages reports whether the file has the list of free pages, which saves bbolt
// from scanning every page when it opens it. The offsets of the page size, the list and
// the transaction in a meta page are bbolt's format.
func listsFreePages(t *testing.T, path string) bool {
	t.Helper()
	b, err := os.ReadFile(path)
	require.NoError(t, err)
	var latest, list uint64
	for page, size := uint32(0), binary.NativeEndian.Uint32(b[16+8:]); page < 2; page++ {
		meta := b[page*size+16:]
		if id := binary.NativeEndian.Uint64(meta[48:]); id >= latest {
			latest, list = id, binary.NativeEndian.Uint64(meta[32:])
		}
	}
	return list != math.MaxUint64
}

func TestFreePagesAreListedWhileTheyAreFew(t *testing.T) {
	t.Parallel()
	path := statePath(t)
	s := open(t, path, checkpoint.Options{Limits: checkpoint.Limits{MaxBytes: 1}}) // committed events are trimmed
	ctx := t.Context()
	c := checkpoint.Commit{Source: source, Position: []byte("p")}
	for i := range 12_000 {
		c.Events = append(c.Events, newEvent(t, fmt.Sprint(i), time.Unix(200, 0), 2000))
	}
	err := errors.Join(s.Configure(ctx, map[string]checkpoint.Start{"a": {}}), s.Commit(ctx, c))
	require.NoError(t, err)
	if !listsFreePages(t, path) {
		t.Error("with a backlog and hardly a free page, the file has no list of them")
	}
	require.NoError(t, s.CommitDelivery(ctx, checkpoint.Delivery{Sink: "a", Cursor: uint64(len(c.Events))}))
	for {
		stats, err := s.Stats(ctx)
		require.NoError(t, err)
		if stats.Events == 0 {
			break
		}
		time.Sleep(time.Millisecond)
	}
	// The transaction after the last trimming is the first to know all free pages.
	require.NoError(t, s.Commit(ctx, checkpoint.Commit{Source: source, Expect: c.Position, Position: []byte("q")}))
	if listsFreePages(t, path) {
		t.Error("with more than a thousand free pages, the file has a list of them")
	}
}
