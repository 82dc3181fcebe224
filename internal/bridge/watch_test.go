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
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"ndrbridge/configs"
	"ndrbridge/internal/admin"
	"ndrbridge/test/require"
)

// watching is a folder whose files a watcher watches, as a configuration of one sink with
// a template.
type watching struct {
	mu       sync.Mutex // held by steps and reloads
	t        *testing.T
	folder   string
	named    string // the template that the configuration names
	reloads  []string
	tick     int
	err      error // of the last reload
	changing func()
}

const every = 10 * time.Second

// load stands for configs.Load: it fails if the file lacks a final line.
func (w *watching) load() (*configs.Config, error) {
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
	return &configs.Config{Sinks: []configs.Sink{{Webhook: &configs.Webhook{TemplateFile: w.named}}}}
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
		}, []string{"4 failed", "5 failed, repeated", "7 ok"}},
		{"a file that the new configuration names appears later", []func(*watching){
			func(w *watching) {
				w.named = w.path("later")
				w.write("config/ndrbridge.yaml", "other end\n")
			},
			nil, nil,
			func(w *watching) { w.write("later", "a template") },
			nil, nil,
		}, []string{"4 failed", "5 failed, repeated", "6 ok, repeated"}},
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
		}, []string{"4 failed", "5 failed, repeated", "7 ok"}},
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
			if want := append([]string{"2 ok, repeated"}, c.want...); !slices.Equal(w.reloads, want) {
				t.Errorf("reloads %q, want %q", w.reloads, want)
			}
		})
	}
}

// play runs a watcher for two ticks, and one after each step.
func (w *watching) play(steps []func(*watching)) {
	files := &watched{sources: func() ([]string, error) { return filepath.Glob(w.path("config/*.yaml")) }}
	files.start(w.config())
	of := watcher{
		every: func() time.Duration { return every }, look: files.look, failed: func() bool { return w.err != nil },
		reload: func(_ context.Context, repeated bool) {
			w.mu.Lock()
			defer w.mu.Unlock()
			_, w.err = files.load(func() (*configs.Config, error) {
				config, err := w.load()
				if w.changing != nil {
					w.changing()
					w.changing = nil
				}
				return config, err
			})
			line := fmt.Sprintf("%d ok", w.tick)
			if w.err != nil {
				line = fmt.Sprintf("%d failed", w.tick)
			}
			if repeated {
				line += ", repeated"
			}
			w.reloads = append(w.reloads, line)
		},
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		of.run(ctx)
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

func TestAWatcherThatIsOffBeginsWhenAReloadTurnsItOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		interval, looks := time.Duration(0), 0
		wake := make(chan struct{}, 1)
		w := watcher{
			every: func() time.Duration { return interval }, wake: wake, failed: func() bool { return false },
			look: func() (now, loaded contents) {
				looks++
				return contents{}, contents{}
			},
			reload: func(context.Context, bool) { t.Error("it reloads without a change") },
		}
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() {
			defer close(done)
			w.run(ctx)
		}()
		for _, c := range []struct {
			interval time.Duration
			want     int
		}{{0, 0}, {time.Minute, 60}, {0, 60}, {time.Hour, 61}} {
			synctest.Wait()
			interval = c.interval
			wake <- struct{}{}
			time.Sleep(time.Hour + time.Second)
			synctest.Wait()
			if looks != c.want {
				t.Errorf("with %s: %d looks, want %d", c.interval, looks, c.want)
			}
		}
		cancel()
		<-done
	})
}

// busyWork is work that begins no reload.
type busyWork struct{ work }

func (busyWork) Reload(context.Context, func(*configs.Config) (*configs.Config, error)) ([]string, error) {
	return nil, admin.ErrBusy
}

func TestAReloadThatCannotBeginIsLogged(t *testing.T) {
	var log bytes.Buffer
	b := newBridge(&configs.Config{}, Options{Log: slog.New(slog.NewTextHandler(&log, nil))})
	b.work = busyWork{b.work}
	if _, err := b.Reload(t.Context(), admin.TriggerSignal); !errors.Is(err, admin.ErrBusy) {
		t.Error(err)
	}
	if text := log.String(); !strings.Contains(text, "configuration not reloaded") || !strings.Contains(text, "trigger=signal") {
		t.Errorf("the log has %q", text)
	}
	if last := b.reloads.status(); last != nil {
		t.Errorf("the status has a reload that never began: %+v", last)
	}
}
