package checkpoint_test

import (
	"errors"
	"io"
	"os"
	"sync/atomic"
	"testing"
	"time"

	"ndrbridge/checkpoint"
	"ndrbridge/test/assert"
	"ndrbridge/test/require"
	"ndrbridge/transform"
)

func TestStore(t *testing.T) {
	t.Parallel()
	var opened atomic.Int64
	backend{
		open: func(path string, o checkpoint.Options) (*checkpoint.Store, error) {
			s, err := checkpoint.Open(path, o)
			if err == nil && opened.Add(1)%2 == 0 { // alternate between both ways to read
				s.ReadFromFile()
			}
			return s, err
		},
		crash: copyOpenFile,
	}.run(t)
}

// copyOpenFile copies the file of an open store, as it is if the process dies. The copy must
// not be torn by concurrent trimming, so it is repeated until no transaction has ended
// meanwhile.
func copyOpenFile(path string) (string, error) {
	from, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer from.Close()
	to, err := os.Create(path + "+")
	if err != nil {
		return "", err
	}
	defer to.Close()
	var before, after [32 << 10]byte // the pages with which transactions end
	for range 1000 {
		if _, err := from.ReadAt(before[:], 0); err != nil {
			return "", err
		}
		_, err := from.Seek(0, io.SeekStart)
		if err == nil {
			_, err = to.Seek(0, io.SeekStart)
		}
		if err == nil {
			_, err = io.Copy(to, from) // the system copies it: a file has 16 MiB
		}
		if err != nil {
			return "", err
		}
		if _, err := from.ReadAt(after[:], 0); err != nil {
			return "", err
		}
		if before == after {
			return to.Name(), nil
		}
	}
	return "", errors.New("the file is never still")
}

func TestRaisedLimitsGiveSpaceAtOnce(t *testing.T) {
	s := open(t, statePath(t), checkpoint.Options{Limits: checkpoint.Limits{MaxBytes: 1}})
	defer s.Close()
	ctx := t.Context()
	first := checkpoint.Commit{Source: source, Position: []byte("1"), Events: []transform.Event{newEvent(t, "1", time.Unix(1, 0), 300)}}
	require.NoError(t, errors.Join(s.Configure(ctx, map[string]checkpoint.Start{"a": {}}), s.Commit(ctx, first)))
	second := checkpoint.Commit{Source: source, Expect: []byte("1"), Position: []byte("2"), Events: first.Events}
	done := make(chan error, 1)
	go func() { done <- s.Commit(ctx, second) }()
	for waits := false; !waits; {
		stats := require.Value(s.Stats(ctx))(t)
		waits = stats.SourcesWait
	}
	s.SetLimits(checkpoint.Limits{MaxBytes: 1 << 20})
	require.NoError(t, <-done)
	stats, err := s.Stats(ctx)
	assert.True(t, err == nil && stats.MaxBytes == 1<<20 && stats.Events == 2, stats, err)
}
