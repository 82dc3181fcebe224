package checkpoint_test

import (
	"bytes"
	"errors"
	"os"
	"sync/atomic"
	"testing"
	"time"

	"ndrbridge/checkpoint"
	"ndrbridge/checkpoint/checkpointtest"
	"ndrbridge/transform"
)

func TestStore(t *testing.T) {
	t.Parallel()
	var opened atomic.Int64
	checkpointtest.Run(t, checkpointtest.Backend{
		Open: func(path string, o checkpoint.Options) (checkpointtest.Store, error) {
			s, err := checkpoint.Open(path, o)
			if err == nil && opened.Add(1)%2 == 0 { // alternate between both ways to read
				s.ReadFromFile()
			}
			return s, err
		},
		Crash: copyOpenFile,
	})
}

// copyOpenFile copies the file of an open store, as it is if the process dies. The copy
// must not be torn by concurrent trimming, so it is repeated until two are equal.
func copyOpenFile(path string) (string, error) {
	var last []byte
	for range 1000 {
		now, err := os.ReadFile(path)
		if err != nil {
			return "", err
		}
		if last != nil && bytes.Equal(now, last) {
			return path + "+", os.WriteFile(path+"+", now, 0o600)
		}
		last = now
	}
	return "", errors.New("the file is never still")
}

func TestRaisedLimitsGiveSpaceAtOnce(t *testing.T) {
	s := open(t, statePath(t), checkpoint.Options{Limits: checkpoint.Limits{MaxBytes: 1}})
	defer s.Close()
	ctx := t.Context()
	first := checkpoint.Commit{Source: source, Position: []byte("1"), Events: []transform.Event{newEvent(t, "1", time.Unix(1, 0), 300)}}
	if err := errors.Join(s.Configure(ctx, map[string]checkpoint.Start{"a": {}}), s.Commit(ctx, first)); err != nil {
		t.Fatal(err)
	}
	second := checkpoint.Commit{Source: source, Expect: []byte("1"), Position: []byte("2"), Events: first.Events}
	done := make(chan error, 1)
	go func() { done <- s.Commit(ctx, second) }()
	for waits := false; !waits; {
		stats, err := s.Stats(ctx)
		if err != nil {
			t.Fatal(err)
		}
		waits = stats.SourcesWait
	}
	s.SetLimits(checkpoint.Limits{MaxBytes: 1 << 20})
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	if stats, err := s.Stats(ctx); err != nil || stats.MaxBytes != 1<<20 || stats.Events != 2 {
		t.Errorf("%+v, %v", stats, err)
	}
}
