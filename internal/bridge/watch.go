package bridge

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"time"

	"ndrbridge/configs"
	"ndrbridge/internal/admin"
)

// watched are the files that a configuration names and that only a reload reads again, and the
// contents of these and of the configuration files when one was last loaded; nil: unknown.
type watched struct {
	named  []string
	loaded contents
}

// contents are digests of files, by path. Two are equal if nothing changed.
type contents map[string][sha256.Size]byte

// loadWatched loads the configuration, and notes the contents of the files before anything uses
// them: a file that changes later differs from them, even while the configuration is being applied.
func (b *Bridge) loadWatched() (*configs.Config, error) {
	next := &watched{named: b.watched.Load().named, loaded: b.sourceContents()}
	config, err := b.load()
	if err == nil {
		next.named = config.ReloadedFiles()
	}
	next.loaded.add(next.named)
	b.watched.Store(next)
	return config, err
}

// sourceContents returns the contents of the configuration files, in a folder of those that are
// there now.
func (b *Bridge) sourceContents() contents {
	now := make(contents)
	if b.sources == nil {
		return now
	}
	paths, err := b.sources()
	if err != nil {
		now[""] = digestOfError(err) // and the reload reports it
	}
	now.add(paths)
	return now
}

func (c contents) add(paths []string) {
	for _, path := range paths {
		c[path] = digest(path)
	}
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

func digestOfError(err error) [sha256.Size]byte {
	return sha256.Sum256(fmt.Appendf(nil, "\x00cannot be read: %s", err))
}

// Watch reloads the configuration when the content of a file that determines it has
// changed, until ctx is cancelled. It looks every reload.watch of the current
// configuration; 0: never. A file that is being written is not loaded: two successive looks
// must agree.
//
// After a failed reload, each look tries again, because the missing file may be one that
// is not watched yet.
func (b *Bridge) Watch(ctx context.Context) {
	ticker := time.NewTicker(time.Second) // the least reload.watch
	defer ticker.Stop()
	var previous contents
	for looked := time.Now(); ; {
		select {
		case <-ctx.Done():
			return
		case now := <-ticker.C:
			switch every := time.Duration(b.work.Config().Reload.Watch); {
			case every == 0:
				previous = nil
			case now.Sub(looked).Round(time.Second) >= every:
				looked, previous = now, b.look(ctx, previous)
			}
		}
	}
}

// look reloads the configuration if the files are what they were at the previous look and differ
// from what was loaded, or the last reload failed. It returns what it saw.
func (b *Bridge) look(ctx context.Context, previous contents) contents {
	w, now, last := b.watched.Load(), b.sourceContents(), b.last.Load()
	now.add(w.named)
	if previous != nil && maps.Equal(now, previous) && (w.loaded == nil || !maps.Equal(now, w.loaded) || last != nil && !last.OK) {
		_, _ = b.Reload(ctx, admin.TriggerWatch) // it logs the error
	}
	return now
}
