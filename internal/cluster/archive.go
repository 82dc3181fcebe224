package cluster

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"time"

	"ndrbridge/checkpoint"
	"ndrbridge/internal/lease"
)

// Archive configures the archives that the owner writes: copies of its state, from which a
// cluster can be recovered.
type Archive struct {
	Folder string // empty: none are written
	Every  time.Duration
	Keep   int // how many are kept; 1 at least
}

// archiveRetry is how long after a failure the next attempt begins: each reads the whole state.
const archiveRetry = 5 * time.Minute

// archiveTime is the form of times, in UTC, in the names of archives.
const archiveTime = "20060102T150405Z"

// archiver writes archives while this member owns the log.
type archiver struct {
	Archive
	cluster string
	backup  func(ctx context.Context, to io.Writer) error // writes a copy of the state
	clock   lease.Clock
	log     *slog.Logger
	newest  atomic.Int64 // when the newest was written, in seconds since 1970; 0: never, or not known
	cause   string       // of the last failure; empty: there was none since the last success
}

// keepArchives is Ownership.Archives.
func (n *Node) keepArchives(ctx context.Context, backup func(context.Context, io.Writer) error) {
	a := &archiver{Archive: n.o.Archive, cluster: n.o.Name, backup: backup, clock: n.o.Clock, log: n.o.Log}
	n.o.Metrics.archiver.Store(a)
	defer n.o.Metrics.archiver.Store(nil)
	a.run(ctx)
}

// run writes archives until ctx is done.
func (a *archiver) run(ctx context.Context) {
	for {
		wait, err := a.next(ctx)
		if ctx.Err() != nil {
			return
		}
		a.report(err)
		if !sleep(ctx, a.clock, wait) {
			return
		}
	}
}

// report logs an error of next, unless the last one had the same cause.
func (a *archiver) report(err error) {
	if err == nil {
		a.cause = ""
		return
	}
	cause := err
	for next := errors.Unwrap(cause); next != nil; next = errors.Unwrap(cause) {
		cause = next // without names of files, which differ each time
	}
	if cause.Error() != a.cause {
		a.log.Warn("archiving the state failed; it is tried again", "error", err)
	}
	a.cause = cause.Error()
}

// next writes an archive if the newest one is older than Every, and then removes all but the
// newest Keep. It returns how long to wait before the next call.
func (a *archiver) next(ctx context.Context) (wait time.Duration, err error) {
	retry := min(a.Every, archiveRetry)
	archives, err := a.list()
	if err != nil {
		return retry, err
	}
	now, newest := a.clock.Wall().UTC().Truncate(time.Second), int64(0)
	for _, at := range archives {
		if !at.After(now) { // otherwise the clock of its writer was wrong
			newest = at.Unix()
		}
	}
	a.newest.Store(newest)
	if wait := time.Unix(newest, 0).Add(a.Every).Sub(now); wait > 0 {
		return wait, nil
	}
	path := filepath.Join(a.Folder, a.name(now))
	size, err := checkpoint.WriteCopy(path, func(w io.Writer) error { return a.backup(ctx, w) }, nil)
	if err != nil {
		return retry, fmt.Errorf("write an archive: %w", err)
	}
	a.newest.Store(now.Unix())
	a.log.Info("an archive of the state was written", "path", path, "bytes", size)
	for _, at := range archives[:max(0, len(archives)-a.Keep+1)] {
		err := os.Remove(filepath.Join(a.Folder, a.name(at)))
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return a.Every, fmt.Errorf("remove an old archive: %w", err)
		}
	}
	return a.Every, nil
}

// list returns the times of the cluster's archives in the folder, the oldest first. It removes what
// is left of an archive whose writer was killed.
func (a *archiver) list() ([]time.Time, error) {
	entries, err := os.ReadDir(a.Folder) // sorted by name
	if err != nil {
		return nil, fmt.Errorf("list the archives: %w", err)
	}
	var archives []time.Time
	for _, entry := range entries {
		name, unfinished := checkpoint.UnfinishedCopy(entry.Name())
		switch at, is := a.timeOf(name); {
		case !is || !entry.Type().IsRegular():
		case unfinished:
			_ = os.Remove(filepath.Join(a.Folder, entry.Name())) // it only takes space
		default:
			archives = append(archives, at)
		}
	}
	return archives, nil
}

// name returns the name of the archive of a time.
func (a *archiver) name(at time.Time) string {
	return "ndrbridge-" + a.cluster + "-" + at.Format(archiveTime) + ".db"
}

// timeOf returns the time in the name of an archive, and reports whether it is one of this cluster.
func (a *archiver) timeOf(name string) (at time.Time, is bool) {
	text := strings.TrimPrefix(strings.TrimSuffix(name, ".db"), "ndrbridge-"+a.cluster+"-")
	at, err := time.Parse(archiveTime, text)
	return at, err == nil && a.name(at) == name
}
