package bridge

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"ndrbridge/configs"
	"ndrbridge/internal/admin"
)

// watched are the files that only a reload reads again, and the digest of all when a
// configuration was last loaded. No digest is zero.
type watched struct {
	named  []string // by the configuration
	loaded digest
}

// digest is one of the configuration files, and one of the files that the configuration names.
type digest struct{ sources, named [sha256.Size]byte }

// loadWatched loads the configuration, and notes the contents of the files before anything uses
// them: a file that changes later differs from them, even while the configuration is being applied.
func (b *Bridge) loadWatched() (*configs.Config, error) {
	next := &watched{named: b.watched.Load().named, loaded: digest{sources: b.digestSources()}}
	config, err := b.load()
	if err == nil {
		next.named = config.ReloadedFiles()
	}
	next.loaded.named = digestFiles(next.named)
	b.watched.Store(next)
	return config, err
}

// digestSources returns the digest of the configuration files, in a folder of the present ones.
func (b *Bridge) digestSources() [sha256.Size]byte {
	if b.sources == nil {
		return digestFiles(nil)
	}
	paths, err := b.sources()
	if err != nil { // the reload reports it
		return sha256.Sum256([]byte(err.Error()))
	}
	return digestFiles(paths)
}

// digestFiles returns a digest of the names and contents of files, or of the reasons why they
// cannot be read.
func digestFiles(paths []string) [sha256.Size]byte {
	all := sha256.New()
	for _, path := range paths {
		fmt.Fprintf(all, "\x00%s\x00", path)
		if err := copyFile(all, path); err != nil {
			fmt.Fprintf(all, "\x00cannot be read: %s", err)
		}
	}
	return [sha256.Size]byte(all.Sum(nil))
}

// maxWatched is how much of a file is compared. No file that a configuration is made of
// may be larger.
const maxWatched = 16 << 20

// copyFile copies a file. Of anything but a regular file, such as a pipe, nothing is read.
func copyFile(to io.Writer, path string) error {
	info, err := os.Stat(path)
	if err != nil {
		return err
	}
	if !info.Mode().IsRegular() {
		return errors.New("not a regular file")
	}
	file, err := os.Open(path)
	if err != nil {
		return err
	}
	defer file.Close()
	_, err = io.Copy(to, io.LimitReader(file, maxWatched))
	return err
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
	var previous digest
	for looked := time.Now(); ; {
		select {
		case <-ctx.Done():
			return
		case now := <-ticker.C:
			switch every := time.Duration(b.work.Config().Reload.Watch); {
			case every == 0:
				previous = digest{}
			case now.Sub(looked).Round(time.Second) >= every:
				looked, previous = now, b.look(ctx, previous)
			}
		}
	}
}

// look reloads the configuration if the files are the same as at the previous look and differ from
// the loaded ones, or the last reload failed. It returns their digest.
func (b *Bridge) look(ctx context.Context, previous digest) digest {
	w, last := b.watched.Load(), b.last.Load()
	now := digest{b.digestSources(), digestFiles(w.named)}
	if now == previous && (now != w.loaded || last != nil && !last.OK) {
		_, _ = b.Reload(ctx, admin.TriggerWatch) // it logs the error
	}
	return now
}
