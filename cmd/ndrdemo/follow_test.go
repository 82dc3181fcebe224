package main

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"
)

func TestFollowFile(t *testing.T) {
	write := func(path, text string) {
		t.Helper()
		file, err := os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
		if err != nil {
			t.Fatal(err)
		}
		defer file.Close()
		if _, err := file.WriteString(text); err != nil {
			t.Fatal(err)
		}
	}
	t.Run("a file that is made later and grows is read to its end", func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "events")
		ctx, stop := context.WithCancel(t.Context())
		lines, result := make(chan string, 10), make(chan error, 1)
		go func() {
			result <- followFile(ctx, path, func(line []byte) error {
				lines <- string(line)
				return nil
			})
		}()
		time.Sleep(10 * time.Millisecond)
		write(path, "one\ntw")
		got := []string{<-lines}
		write(path, "o\n")
		got = append(got, <-lines)
		write(path, "three\nno line yet")
		stop()
		if err := <-result; err != nil {
			t.Error(err)
		}
		close(lines)
		for line := range lines {
			got = append(got, line)
		}
		if !slices.Equal(got, []string{"one", "two", "three"}) {
			t.Errorf("got %q", got)
		}
	})
	t.Run("a line that is refused ends it", func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "events")
		write(path, "one\n")
		refusal := errors.New("no event")
		if err := followFile(t.Context(), path, func([]byte) error { return refusal }); !errors.Is(err, refusal) {
			t.Errorf("got %v", err)
		}
	})
	t.Run("a file that never exists is not a failure", func(t *testing.T) {
		ctx, stop := context.WithCancel(t.Context())
		stop()
		if err := followFile(ctx, filepath.Join(t.TempDir(), "none"), nil); err != nil {
			t.Error(err)
		}
	})
}
