package cluster

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"ndrbridge/test/assert"
	"ndrbridge/test/require"
)

// namesIn returns the names of the files in a folder.
func namesIn(t *testing.T, folder string) (names []string) {
	t.Helper()
	entries := require.Value(os.ReadDir(folder))(t)
	for _, entry := range entries {
		names = append(names, entry.Name())
	}
	return names
}

func TestWhichArchivesAreWrittenAndKept(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 3, 10, 12, 0, 0, 5, time.UTC)
	const written = "ndrbridge-prod-20260310T120000Z.db"
	of := func(time string) string { return "ndrbridge-prod-" + time + "Z.db" }
	for name, c := range map[string]struct {
		before, after []string
		wait          time.Duration
		fails         bool
	}{
		"the first": {nil, []string{written}, 24 * time.Hour, false},
		"the newest is younger than every": {
			[]string{of("20260301T120000"), of("20260309T120001")}, []string{of("20260301T120000"), of("20260309T120001")}, time.Second, false},
		"the newest is as old as every": {[]string{of("20260309T120000")}, []string{of("20260309T120000"), written}, 24 * time.Hour, false},
		"more than are kept": {
			[]string{of("20260301T120000"), of("20260308T120000"), of("20260309T000000")}, []string{of("20260309T000000"), written}, 24 * time.Hour, false},
		"one of a clock that is ahead":     {[]string{of("20260401T000000")}, []string{of("20260401T000000"), written}, 24 * time.Hour, false},
		"several of a clock that is ahead": {[]string{of("20260401T000000"), of("20260402T000000")}, []string{of("20260402T000000"), written}, 24 * time.Hour, false},
		"one whose writer was killed":      {[]string{"." + of("20260310T110000") + ".123"}, []string{written}, 24 * time.Hour, false},
		"one that fails": {
			[]string{of("20260301T120000"), of("20260308T120000")}, []string{of("20260301T120000"), of("20260308T120000")}, archiveRetry, true},
	} {
		t.Run(name, func(t *testing.T) {
			folder := t.TempDir()
			foreign := []string{
				".ndrbridge-prod-2-20260310T110000Z.db.123", "." + of("20260301T000000") + ".swp", "ndrbridge-prod-2-20260301T000000Z.db",
				of("20260301T000000.5"), of("20260301T000000") + ".bak", of("20260301"), "state.db",
			}
			for _, name := range slices.Concat(c.before, foreign) {
				require.NoError(t, os.WriteFile(filepath.Join(folder, name), nil, 0o644))
			}
			link := of("20260302T000000")
			require.NoError(t, os.Symlink("state.db", filepath.Join(folder, link)))
			full := errors.New("the disk is full")
			a := archiver{
				Archive: Archive{Folder: folder, Every: 24 * time.Hour, Keep: 2}, cluster: "prod", log: discard,
				clock: scaledClock{start: now.Add(-time.Hour)},
				backup: func(_ context.Context, w io.Writer) error {
					if _, err := io.WriteString(w, "the state"); err != nil || !c.fails {
						return err
					}
					return full
				},
			}
			wait, err := a.next(t.Context())
			assert.True(t, wait == c.wait && errors.Is(err, full) == c.fails && (c.fails || err == nil), "the next in", wait, err, c.wait)
			want := slices.Sorted(slices.Values(slices.Concat(c.after, foreign, []string{link})))
			assert.EqualSlices(t, namesIn(t, folder), want, "the files")
			if !slices.Contains(c.after, written) {
				return
			}
			path := filepath.Join(folder, written)
			text := require.Value(os.ReadFile(path))(t)
			info := require.Value(os.Stat(path))(t)
			assert.Equal(t, string(text), "the state", "the content of the archive")
			assert.Equal(t, info.Mode(), 0o600, "the mode of the archive")
		})
	}
}

// TestArchivesAreWrittenInTime: also after failures and a takeover; each cause of failures is logged
// once, until one succeeds.
func TestArchivesAreWrittenInTime(t *testing.T) {
	bubble(t, func(t *testing.T) { // it begins at midnight
		folder := filepath.Join(t.TempDir(), "archives")
		registry := prometheus.NewRegistry()
		var warned, written atomic.Int64
		var broken atomic.Pointer[error]
		n := New(Options{
			Name: "prod", Metrics: NewMetrics(registry), Log: slog.New(matching{discard.Handler(), "archiving the state failed", &warned}),
			Archive: Archive{Folder: folder, Every: time.Hour, Keep: 100}, URL: func() string { return "" }, ConfigHash: func() string { return "" },
		})
		own := func() (stop func()) {
			ctx, cancel := context.WithCancel(t.Context())
			done := make(chan struct{})
			go func() {
				defer close(done)
				n.keepArchives(ctx, func(context.Context, io.Writer) error {
					if err := broken.Load(); err != nil {
						return *err
					}
					written.Add(1)
					return nil
				})
			}()
			return func() {
				cancel()
				<-done
			}
		}
		// expect sleeps until a minute of the day, and compares what was done until then.
		expect := func(minute, warnings, archives int, newest time.Duration) {
			t.Helper()
			midnight := time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)
			time.Sleep(time.Until(midnight.Add(time.Duration(minute)*time.Minute + time.Second)))
			assert.True(t, warned.Load() == int64(warnings) && written.Load() == int64(archives), minute, warned.Load(), written.Load(), warnings, archives)
			at := float64(0)
			if newest >= 0 {
				at = float64(midnight.Add(newest).Unix())
			}
			assert.Equal(t, gaugeOf(t, registry, "ndrbridge_cluster_archive_timestamp_seconds"), at, "at minute", minute, "the newest archive is of")
		}
		breakWith := func(text string) {
			err := error(&os.PathError{Op: "write", Path: time.Now().String(), Err: errors.New(text)})
			broken.Store(&err)
		}
		stop := own()
		expect(0, 1, 0, -1)
		expect(6, 1, 0, -1) // it was tried again
		require.NoError(t, os.Mkdir(folder, 0o700))
		expect(10, 1, 1, 10*time.Minute)
		expect(69, 1, 1, 10*time.Minute)
		breakWith("the disk is full")
		expect(70, 2, 1, 10*time.Minute)
		breakWith("the disk is full")
		expect(75, 2, 1, 10*time.Minute)
		breakWith("the disk is broken")
		expect(80, 3, 1, 10*time.Minute)
		broken.Store(nil)
		expect(85, 3, 2, 85*time.Minute)
		stop()
		assert.Equal(t, gaugeOf(t, registry, "ndrbridge_cluster_archive_interval_seconds"), -1, "seconds between the archives of a standby")
		stop = own()
		defer stop()
		expect(144, 3, 2, 85*time.Minute)
		expect(145, 3, 3, 145*time.Minute)
		assert.Equal(t, gaugeOf(t, registry, "ndrbridge_cluster_archive_interval_seconds"), 3600, "seconds between the archives of the owner")
	})
}

// gaugeOf returns the value of a gauge; -1: there is none.
func gaugeOf(t *testing.T, from prometheus.Gatherer, name string) float64 {
	t.Helper()
	families := require.Value(from.Gather())(t)
	for _, f := range families {
		if f.GetName() == name {
			return f.GetMetric()[0].GetGauge().GetValue()
		}
	}
	return -1
}
