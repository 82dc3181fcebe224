package checkpoint_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"sync"
	"testing"
	"time"

	"ndrbridge/checkpoint"
	"ndrbridge/test/require"
	"ndrbridge/test/slowtest"
)

// copySlowly copies a file in pieces, with the pauses of a busy disk, so that
// much is written between two pieces.
func copySlowly(from, to string, pause time.Duration) error {
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := os.OpenFile(to, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer out.Close()
	for {
		_, err := io.CopyN(out, in, 64<<10)
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		time.Sleep(pause)
	}
}

// TestCopyOfAStateInUseIsGoodOrRefused writes rounds whose parts all contain the
// number of the round, and copies the file meanwhile.
func TestCopyOfAStateInUseIsGoodOrRefused(t *testing.T) {
	t.Parallel()
	path := statePath(t)
	s := open(t, path, checkpoint.Options{Limits: checkpoint.Limits{MaxBytes: 300 << 10}})
	require.NoError(t, s.Configure(t.Context(), map[string]checkpoint.Start{"a": {}}))
	const perRound, known = 5, 40
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	var writing sync.WaitGroup
	writing.Go(func() {
		c := checkpoint.Commit{Source: source}
		for round := uint64(1); ctx.Err() == nil; round++ {
			c.Position = strconv.AppendUint(nil, round, 10)
			c.Events, c.Remember = nil, nil
			for i := range perRound {
				c.Events = append(c.Events, newEvent(t, fmt.Sprintf("%d-%d", round, i), time.Now(), 2000))
			}
			for i := range known {
				c.Remember = append(c.Remember, checkpoint.Entry{Key: fmt.Sprint(i), Value: c.Position, At: int64(round)})
			}
			c.ForgetBefore = int64(round)
			cursor := perRound * (round - 1)
			err := s.Commit(context.Background(), c)
			if err == nil {
				err = s.CommitDelivery(context.Background(), checkpoint.Delivery{Sink: "a", Expect: cursor, Cursor: cursor + perRound})
			}
			if err != nil {
				t.Errorf("round %d: %v", round, err)
				return
			}
			c.Expect = c.Position
		}
	})
	good := 0
	for i := range slowtest.Times(40) {
		copied := fmt.Sprintf("%s.%d", path, i)
		require.NoError(t, copySlowly(path, copied, time.Duration(i%4)*200*time.Microsecond))
		copy, err := checkpoint.Open(copied, checkpoint.Options{ReadOnly: true})
		if err != nil {
			if !errors.Is(err, checkpoint.ErrDamaged) {
				t.Errorf("error %v, want ErrDamaged", err)
			}
			continue
		}
		good++
		wantOneRound(t, copy, perRound, known)
		if err := copy.Close(); err != nil {
			t.Error(err)
		}
	}
	stop()
	writing.Wait()
	t.Logf("%d copies are good", good)
}

// wantOneRound checks that all parts of a state are from the same round.
func wantOneRound(t *testing.T, s *checkpoint.Store, perRound uint64, known int) {
	t.Helper()
	ctx := t.Context()
	position, err := s.Position(ctx, source)
	if err != nil || position == nil {
		return // before the first round
	}
	round, err := strconv.ParseUint(string(position), 10, 64)
	stats, statsErr := s.Stats(ctx)
	require.NoError(t, errors.Join(err, statsErr))
	if cursor := stats.Sinks["a"].Cursor; stats.Last != perRound*round || cursor != stats.Last && cursor+perRound != stats.Last {
		t.Errorf("round %d: the journal ends with %d, the cursor is %d", round, stats.Last, cursor)
	}
	records, err := s.Read(ctx, 0, checkpoint.Batch{})
	if err != nil || uint64(len(records)) != stats.Events {
		t.Errorf("%d events, %v, want %d", len(records), err, stats.Events)
	}
	for _, r := range records {
		if want := fmt.Sprintf("%d-%d", (r.Seq-1)/perRound+1, (r.Seq-1)%perRound); r.Event.ID != want {
			t.Errorf("event %d is %s, want %s", r.Seq, r.Event.ID, want)
		}
	}
	keys := make([]string, known)
	for i := range keys {
		keys[i] = fmt.Sprint(i)
	}
	values, err := s.Recall(ctx, source, keys)
	if err != nil {
		t.Error(err)
	}
	for i, value := range values {
		if string(value) != string(position) {
			t.Errorf("round %d: %d is known as of %s", round, i, value)
		}
	}
}
