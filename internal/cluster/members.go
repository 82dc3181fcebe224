package cluster

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	"ndrbridge/internal/lease"
)

// errName is returned if another process runs under this member's name.
var errName = errors.New("another process runs as this member")

// members keeps this member's entry in the registry and the view of all of them.
type members struct {
	registry Registry
	clock    lease.Clock
	term     time.Duration
	log      *slog.Logger
	// self returns this member's entry as it has to be published now.
	self func() member

	wake    chan struct{} // holds an element: publish soon
	cluster string        // identity; set before the shards run

	mu         sync.Mutex
	view       *view
	answeredAt time.Duration // time of the last successful round, or of the start

	// Of the loop alone.
	seen      map[string]*observed // by name
	readAt    time.Duration        // when the registry was read last
	revision  uint64               // of the own entry; 0: it does not exist
	claimed   bool                 // the name is this member's
	claimedAt time.Duration
	foreign   uint64        // revision of an entry under the own name by another instance; 0: none
	foreignAt time.Duration // since when it is unchanged
	failing   bool          // the registry cannot be reached
}

// observed is a member's entry as it was read last.
type observed struct {
	member
	revision uint64
	// When the instance, and this revision, was first read, by the reader's clock.
	first, changed time.Duration
}

func newMembers(r Registry, c lease.Clock, term time.Duration, shards int, log *slog.Logger, self func() member) *members {
	return &members{
		registry: r, clock: c, term: term, log: log, self: self,
		wake: make(chan struct{}, 1), seen: make(map[string]*observed),
		view: newView(self().Instance, nil, shards), answeredAt: c.Now(),
	}
}

// run publishes this member's entry and reads those of the others until ctx is done. It
// returns errName if the name belongs to another process.
func (m *members) run(ctx context.Context) error {
	for {
		err := m.round(ctx)
		switch {
		case ctx.Err() != nil:
			return nil
		case errors.Is(err, errName):
			return err
		case err != nil && !m.failing:
			m.log.Warn("the members of the cluster cannot be read; retrying", "error", err)
		case err == nil && m.failing:
			m.log.Info("the members of the cluster can be read again")
		}
		m.failing = err != nil
		// Not more often than this, however often something changes.
		if !sleep(ctx, m.clock, m.term/30, nil) || !sleep(ctx, m.clock, m.term/3-m.term/30, m.wake) {
			return nil
		}
	}
}

// round publishes once and reads once.
func (m *members) round(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, m.term/3)
	defer cancel()
	publishErr := m.publish(ctx)
	if errors.Is(publishErr, errName) {
		return publishErr
	}
	entries, err := m.registry.List(ctx, memberPrefix)
	if err == nil {
		m.observe(entries)
	}
	m.updateView()
	if err = errors.Join(publishErr, err); err == nil {
		m.mu.Lock()
		defer m.mu.Unlock()
		m.answeredAt = m.clock.Now()
	}
	return err
}

// silent returns the time since the registry answered last.
func (m *members) silent() time.Duration {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.clock.Now() - m.answeredAt
}

// publishSoon makes run publish the entry soon.
func (m *members) publishSoon() {
	select {
	case m.wake <- struct{}{}:
	default:
	}
}

// current returns the latest view.
func (m *members) current() *view {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.view
}

// publish writes the own entry, once the name is this member's.
func (m *members) publish(ctx context.Context) error {
	self := m.self()
	value, err := self.encode()
	if err != nil {
		return fmt.Errorf("encode the member's entry: %w", err)
	}
	key := memberPrefix + self.ID
	if !m.claimed {
		if free, err := m.free(ctx, key, self.Instance); err != nil || !free {
			return err
		}
	}
	revision, err := m.registry.Put(ctx, key, value, m.revision)
	if err == nil {
		if m.revision = revision; !m.claimed {
			m.claimed, m.claimedAt = true, m.clock.Now()
		}
		return nil
	}
	if !errors.Is(err, errConflict) {
		return fmt.Errorf("publish the member's entry: %w", err)
	}
	// An earlier write may have been stored without an answer, or somebody removed the entry.
	e, err := m.registry.Get(ctx, key)
	switch {
	case errors.Is(err, errNoKey):
		m.revision = 0
		return nil
	case err != nil:
		return fmt.Errorf("publish the member's entry: %w", err)
	}
	// An earlier revision than the last written one is a stale read, or the servers lost the end
	// of the bucket. It does no harm: if the entry has a later one, the next write is refused too.
	if stored, err := decodeMember(e); err == nil && stored.Instance != self.Instance && e.Revision > m.revision {
		return nameTaken(stored)
	}
	m.revision = e.Revision
	return nil
}

// free reports whether the name can be claimed: its entry does not exist, is this
// process's, or has been unchanged long enough for its process to be gone. It returns errName
// if the entry changes.
func (m *members) free(ctx context.Context, key, instance string) (bool, error) {
	e, err := m.registry.Get(ctx, key)
	if errors.Is(err, errNoKey) {
		m.revision = 0
		return true, nil
	}
	if err != nil {
		return false, fmt.Errorf("read the member's entry: %w", err)
	}
	stored, err := decodeMember(e)
	now := m.clock.Now()
	switch {
	case err == nil && stored.Instance == instance: // a write without an answer
	case m.foreign == 0:
		m.foreign, m.foreignAt = e.Revision, now
		return false, nil
	case e.Revision > m.foreign && err == nil:
		return false, nameTaken(stored)
	case now-m.foreignAt < stored.gone(m.term):
		return false, nil
	}
	m.revision = e.Revision
	return true, nil
}

func nameTaken(by member) error {
	return fmt.Errorf("%w: %q is in use by a process of version %s, started at %s; give each bridge a cluster.member of its own",
		errName, by.ID, by.Version, by.Since.Format(time.RFC3339))
}

// observe notes what the registry has.
func (m *members) observe(entries []Entry) {
	m.readAt = m.clock.Now()
	present := make(map[string]bool, len(entries))
	for _, e := range entries {
		read, err := decodeMember(e)
		if err != nil {
			m.log.Debug("an entry of the registry is ignored", "error", err)
			continue
		}
		present[read.ID] = true
		known := m.seen[read.ID]
		switch {
		case known == nil || known.Instance != read.Instance && e.Revision != known.revision:
			m.seen[read.ID] = &observed{member: read, revision: e.Revision, first: m.readAt, changed: m.readAt}
		case e.Revision != known.revision: // smaller: a stale read, or the servers lost the end of the bucket
			if m.readAt-known.changed >= known.gone(m.term) {
				known.first = m.readAt // it is back
			}
			known.member, known.revision, known.changed = read, e.Revision, m.readAt
		}
	}
	for id := range m.seen {
		if !present[id] {
			delete(m.seen, id) // it left
		}
	}
}

// updateView makes a view of what was noted last. A member that does not change its entry is gone
// only if the registry could be read since.
func (m *members) updateView() {
	self := m.self()
	m.mu.Lock()
	defer m.mu.Unlock()
	now := m.clock.Now()
	first := now
	if m.claimed {
		first = m.claimedAt
	}
	// This member follows logs while it waits for its name: once it may take one, it already knows
	// how long the log has been quiet.
	live := []observed{{member: self, first: first, changed: now}}
	for id, s := range m.seen {
		if m.readAt-s.changed < s.gone(m.term) && id != self.ID {
			live = append(live, *s)
		}
	}
	slices.SortFunc(live, func(a, b observed) int { return strings.Compare(a.ID, b.ID) })
	v := newView(self.Instance, live, len(m.view.unowned))
	v.claimed = m.claimed
	for shard, since := range m.view.unowned {
		if _, has := v.owner(shard); has {
			continue
		}
		if since == owned || m.view.members == nil {
			since = now
		}
		v.unowned[shard] = since
	}
	m.view = v
}

// leave removes the own entry.
func (m *members) leave(ctx context.Context) error {
	if !m.claimed {
		return nil
	}
	err := m.registry.Delete(ctx, memberPrefix+m.self().ID, m.revision)
	if err != nil && !errors.Is(err, errConflict) {
		return fmt.Errorf("remove the member's entry: %w", err)
	}
	return nil
}

// sleep waits for d by clock, or until wake has an element; nil: never. It reports false
// if ctx is done.
func sleep(ctx context.Context, clock lease.Clock, d time.Duration, wake <-chan struct{}) bool {
	over := make(chan struct{})
	stop := clock.AfterFunc(d, func() { close(over) })
	defer stop()
	select {
	case <-ctx.Done():
		return false
	case <-over:
	case <-wake:
	}
	return true
}
