package bridge

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"sync"
	"time"

	"ndrbridge/configs"
	"ndrbridge/internal/admin"
)

// watched are the files that determine the configuration: those that it is read from, and
// those that it names and that are read again only by a reload. It is safe for concurrent
// use.
type watched struct {
	// sources returns the paths of the configuration files, in a folder those that are
	// there now. If it is nil, only named files are watched.
	sources func() ([]string, error)

	mu     sync.Mutex
	named  []string // the paths of the files that the configuration loaded last names
	loaded contents // when a configuration was last loaded; nil: unknown
}

// contents are digests of files, by path. Two are equal if nothing changed.
type contents map[string][sha256.Size]byte

// load calls load, and notes the contents of the files before anything uses them: a file
// that changes later differs from them, even while the configuration is being applied.
func (w *watched) load(load func() (*configs.Config, error)) (*configs.Config, error) {
	before := w.lookAtSources()
	config, err := load()
	w.mu.Lock()
	defer w.mu.Unlock()
	if err == nil {
		w.named = config.ReloadedFiles()
	}
	w.loaded = addContents(before, w.named)
	return config, err
}

// start sets the configuration of the start. It is not known what the files contained
// when it was loaded.
func (w *watched) start(config *configs.Config) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.named, w.loaded = config.ReloadedFiles(), nil
}

// look returns the contents of the files now, and those when the configuration was last
// loaded.
func (w *watched) look() (now, loaded contents) {
	now = w.lookAtSources()
	w.mu.Lock()
	defer w.mu.Unlock()
	return addContents(now, w.named), w.loaded
}

func (w *watched) lookAtSources() contents {
	now := make(contents)
	if w.sources == nil {
		return now
	}
	paths, err := w.sources()
	if err != nil {
		now[""] = digestOfError(err) // and the reload reports it
	}
	return addContents(now, paths)
}

func addContents(to contents, paths []string) contents {
	for _, path := range paths {
		to[path] = digest(path)
	}
	return to
}

// maxWatched is how much of a file is compared. No file that a configuration is made of
// may be larger.
const maxWatched = 16 << 20

// digest returns a digest of the content of a file, or of the reason why it cannot be
// read. Of anything but a regular file, such as a pipe, nothing is read.
func digest(path string) [sha256.Size]byte {
	info, err := os.Stat(path)
	if err != nil {
		return digestOfError(err)
	}
	if !info.Mode().IsRegular() {
		return digestOfError(errors.New("not a regular file"))
	}
	file, err := os.Open(path)
	if err != nil {
		return digestOfError(err)
	}
	defer file.Close()
	h := sha256.New()
	if _, err := io.Copy(h, io.LimitReader(file, maxWatched)); err != nil {
		return digestOfError(err)
	}
	return [sha256.Size]byte(h.Sum(nil))
}

// digestOfError returns a digest of an error.
func digestOfError(err error) [sha256.Size]byte {
	return sha256.Sum256(fmt.Appendf(nil, "\x00cannot be read: %s", err))
}

// Watch reloads the configuration when the content of a file that determines it has
// changed, until ctx is cancelled. It looks every reload.watch of the current
// configuration; while that is 0, it waits for a reload that changes it. A file that is
// being written is not loaded: two successive looks must agree.
//
// After a failed reload, each look tries again, because the missing file may be one that
// is not watched yet. A failure is reported once for each content, and again if its reason
// changes. Watch must be called after New, at most once.
func (b *Bridge) Watch(ctx context.Context) {
	w := watcher{
		every:  func() time.Duration { return time.Duration(b.work.Config().Reload.Watch) },
		wake:   b.reloaded,
		look:   b.watched.look,
		failed: func() bool { last := b.reloads.status(); return last != nil && !last.OK },
		reload: func(ctx context.Context, repeated bool) { _, _ = b.reload(ctx, admin.TriggerWatch, repeated) },
	}
	w.run(ctx)
}

// watcher decides when watched files cause a reload.
type watcher struct {
	every  func() time.Duration // between looks; 0: it does not look
	wake   <-chan struct{}      // receives when every may have changed
	look   func() (now, loaded contents)
	failed func() bool // whether the last reload failed
	// reload loads the configuration. If repeated is true, it does so without a change of
	// the files, and only news are reported.
	reload func(ctx context.Context, repeated bool)
}

// run looks until ctx is cancelled.
func (w watcher) run(ctx context.Context) {
	var previous contents
	for ctx.Err() == nil {
		every := w.every()
		timer := time.NewTimer(every)
		tick := timer.C
		if every == 0 {
			tick, previous = nil, nil
		}
		select {
		case <-ctx.Done():
		case <-w.wake:
		case <-tick:
			previous = w.tick(ctx, previous)
		}
		timer.Stop()
	}
}

// tick looks once, and reloads if the files differ from what was loaded and are what they
// were at the previous look. It returns what it saw.
func (w watcher) tick(ctx context.Context, previous contents) contents {
	now, loaded := w.look()
	if previous == nil || !maps.Equal(now, previous) {
		return now // they may be being written
	}
	switch {
	case loaded == nil: // perhaps they changed between the load and the first look
		w.reload(ctx, true)
	case !maps.Equal(now, loaded):
		w.reload(ctx, false)
	case w.failed():
		w.reload(ctx, true)
	}
	return now
}
