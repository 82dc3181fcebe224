//go:build unix

package bridge

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"ndrbridge/configs"
	"ndrbridge/internal/admin"
	"ndrbridge/test/assert"
	"ndrbridge/test/require"
)

// watching is a folder whose files a bridge watches, as a configuration of one sink with
// a template. It is the work of that bridge.
type watching struct {
	work
	mu       sync.Mutex // held by steps and loads
	t        *testing.T
	folder   string
	named    string // the template that the configuration names
	reloads  []string
	tick     int
	changing func() // while the configuration is loaded
	current  atomic.Pointer[configs.Config]
}

func (w *watching) Config() *configs.Config { return w.current.Load() }

func (w *watching) Reload(_ context.Context, load func() *configs.Config) ([]string, error) {
	w.current.Store(load())
	return nil, nil
}

const every = 10 * time.Second

// load stands for configs.Load: it fails if the file lacks a final line.
func (w *watching) load() (config *configs.Config, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	defer func() {
		w.reloads = append(w.reloads, fmt.Sprintf("%d %s", w.tick, map[bool]string{true: "ok", false: "failed"}[err == nil]))
		if w.changing != nil {
			w.changing()
			w.changing = nil
		}
	}()
	text, err := os.ReadFile(w.path("config/ndrbridge.yaml"))
	if err != nil {
		return nil, err
	}
	if !strings.HasSuffix(string(text), "end\n") {
		return nil, errors.New("the configuration is not complete")
	}
	if _, err := os.Stat(w.named); err != nil {
		return nil, err
	}
	return w.config(), nil
}

func (w *watching) config() *configs.Config {
	return &configs.Config{Reload: configs.Reload{Watch: configs.Duration(every)}, Sinks: []configs.Sink{{Webhook: &configs.Webhook{TemplateFile: w.named}}}}
}

func (w *watching) path(name string) string { return filepath.Join(w.folder, name) }

func (w *watching) write(name, text string) {
	w.t.Helper()
	require.NoError(w.t, os.WriteFile(w.path(name), []byte(text), 0o600))
}

// do fails the test if one of the operations failed.
func (w *watching) do(errs ...error) {
	w.t.Helper()
	require.NoError(w.t, errors.Join(errs...))
}

func TestWatchedFilesCauseReloads(t *testing.T) {
	for _, c := range []struct {
		name  string
		steps []func(w *watching) // before the third tick, the fourth, …
		want  []string            // each reload, as the number of its tick and how it went
	}{
		{"nothing changes", []func(*watching){nil, nil, nil}, nil},
		{"a file is written again with the same content", []func(*watching){
			func(w *watching) { w.write("config/ndrbridge.yaml", "first end\n") }, nil, nil,
		}, nil},
		{"a file changes", []func(*watching){
			func(w *watching) { w.write("config/ndrbridge.yaml", "other end\n") }, nil, nil,
		}, []string{"4 ok"}},
		{"a file changes to the same size at the same time", []func(*watching){
			func(w *watching) {
				before, err := os.Stat(w.path("config/ndrbridge.yaml"))
				w.do(err)
				w.write("config/ndrbridge.yaml", "fIrst end\n")
				w.do(os.Chtimes(w.path("config/ndrbridge.yaml"), before.ModTime(), before.ModTime()))
			}, nil, nil,
		}, []string{"4 ok"}},
		{"a file is written slowly", []func(*watching){
			func(w *watching) { w.write("config/ndrbridge.yaml", "ot") },
			func(w *watching) { w.write("config/ndrbridge.yaml", "other") },
			func(w *watching) { w.write("config/ndrbridge.yaml", "other end\n") },
			nil, nil,
		}, []string{"6 ok"}},
		{"a change is undone", []func(*watching){
			func(w *watching) { w.write("config/ndrbridge.yaml", "other end\n") },
			func(w *watching) { w.write("config/ndrbridge.yaml", "first end\n") },
			nil, nil,
		}, nil},
		{"a file is replaced by another one", []func(*watching){
			func(w *watching) {
				w.write("config/.new", "other end\n")
				w.do(os.Rename(w.path("config/.new"), w.path("config/ndrbridge.yaml")))
			}, nil, nil,
		}, []string{"4 ok"}},
		{"the link to the folder of all files is replaced", []func(*watching){
			func(w *watching) {
				w.do(os.Mkdir(w.path("next"), 0o700))
				w.write("next/ndrbridge.yaml", "other end\n")
				w.do(os.Symlink("next", w.path("link")), os.Rename(w.path("link"), w.path("config")))
			}, nil, nil,
		}, []string{"4 ok"}},
		{"a template changes", []func(*watching){
			func(w *watching) { w.write("template", "other") }, nil, nil,
		}, []string{"4 ok"}},
		{"a file is added to the folder", []func(*watching){
			func(w *watching) { w.write("config/more.yaml", "") }, nil, nil,
		}, []string{"4 ok"}},
		{"an invalid configuration is tried again, and corrected", []func(*watching){
			func(w *watching) { w.write("config/ndrbridge.yaml", "other") },
			nil, nil,
			func(w *watching) { w.write("config/ndrbridge.yaml", "other end\n") },
			nil, nil,
		}, []string{"4 failed", "5 failed", "7 ok"}},
		{"a file that the new configuration names appears later", []func(*watching){
			func(w *watching) {
				w.named = w.path("later")
				w.write("config/ndrbridge.yaml", "other end\n")
			},
			nil, nil,
			func(w *watching) { w.write("later", "a template") },
			nil, nil,
		}, []string{"4 failed", "5 failed", "6 ok"}},
		{"a file changes while it is being loaded", []func(*watching){
			func(w *watching) {
				w.write("config/ndrbridge.yaml", "other end\n")
				w.changing = func() { w.write("config/ndrbridge.yaml", "third end\n") }
			}, nil, nil, nil,
		}, []string{"4 ok", "6 ok"}},
		{"a file is removed, and is back", []func(*watching){
			func(w *watching) { w.do(os.Rename(w.path("config/ndrbridge.yaml"), w.path("config/.old"))) },
			nil, nil,
			func(w *watching) { w.do(os.Rename(w.path("config/.old"), w.path("config/ndrbridge.yaml"))) },
			nil, nil,
		}, []string{"4 failed", "5 failed", "7 ok"}},
		{"a pipe takes the place of a template", []func(*watching){
			func(w *watching) {
				w.do(os.Remove(w.path("template")), syscall.Mkfifo(w.path("template"), 0o600))
			}, nil, nil,
		}, []string{"4 ok"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := &watching{t: t, folder: t.TempDir()}
			w.named = w.path("template")
			w.do(os.Mkdir(w.path("first"), 0o700), os.Symlink("first", w.path("config")))
			w.write("config/ndrbridge.yaml", "first end\n")
			w.write("template", "a template")
			synctest.Test(t, func(*testing.T) { w.play(c.steps) })
			assert.EqualSlices(t, w.reloads, append([]string{"2 ok"}, c.want...), "reloads")
		})
	}
}

// play watches for two ticks, and one after each step.
func (w *watching) play(steps []func(*watching)) {
	w.current.Store(w.config())
	b := newBridge(w.Config(), Options{
		Log: slog.New(slog.DiscardHandler), Load: w.load,
		Files: func() ([]string, error) { return filepath.Glob(w.path("config/*.yaml")) },
	})
	b.work = w
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		b.Watch(ctx)
	}()
	for i := range 2 + len(steps) {
		w.mu.Lock()
		if i >= 2 && steps[i-2] != nil {
			steps[i-2](w)
		}
		w.tick = i + 1
		w.mu.Unlock()
		time.Sleep(every)
		synctest.Wait()
	}
	cancel()
	<-done
}

func TestAWatchThatIsOffBeginsWhenAReloadTurnsItOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		looks := 0
		w := &watching{t: t}
		w.current.Store(&configs.Config{})
		b := newBridge(w.Config(), Options{Log: slog.New(slog.DiscardHandler), Load: func() (*configs.Config, error) { return w.Config(), nil }, Files: func() ([]string, error) {
			looks++
			return nil, nil
		}})
		b.work = w
		_, err := b.loadWatched()
		require.NoError(t, err)
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() {
			defer close(done)
			b.Watch(ctx)
		}()
		time.Sleep(500 * time.Millisecond) // between two looks
		for _, c := range []struct {
			interval time.Duration
			want     int
		}{{0, 0}, {time.Minute, 60}, {0, 0}, {time.Hour, 1}} {
			looks = 0
			w.current.Store(&configs.Config{Reload: configs.Reload{Watch: configs.Duration(c.interval)}})
			time.Sleep(time.Hour)
			synctest.Wait()
			assert.Equal(t, looks, c.want, "with", c.interval, "looks")
		}
		cancel()
		<-done
		last := b.last.Load()
		assert.True(t, last == nil, "it reloads without a change", last)
	})
}

func TestAReloadThatCannotBeginIsLogged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		b := newBridge(&configs.Config{}, Options{Log: slog.New(slog.NewTextHandler(&log, nil))})
		b.reloading <- struct{}{}
		_, err := b.Reload(t.Context(), admin.TriggerSignal)
		assert.ErrorIs(t, err, admin.ErrBusy)
		text := log.String()
		assert.True(t, strings.Contains(text, "configuration not reloaded") && strings.Contains(text, "trigger=signal"), "the log", text)
		last := b.last.Load()
		assert.True(t, last == nil, "the status has a reload that never began", last)
	})
}
