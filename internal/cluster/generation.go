package cluster

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"time"

	"ndrbridge/checkpoint"
	"ndrbridge/checkpoint/replicated"
	"ndrbridge/internal/lease"
)

// ErrNotNew is returned by Init and Continue if NATS has another cluster with the name. The text
// says what to do.
var ErrNotNew = errors.New("the cluster is not new")

// Generations begins generations of the log of a cluster.
type Generations struct {
	Name     string // of the cluster
	Registry Registry
	Storage  OpenStorage
	Clock    lease.Clock
	Term     time.Duration // cluster.lease
}

// Init creates a cluster, whose log begins with a state; nil: an empty one. It calls written before
// each record with the bytes of all so far, that
// one included. It returns ErrNotNew if the cluster exists. After
// another error it may be called again.
func (g Generations) Init(ctx context.Context, state replicated.Dumper, written func(bytes int64)) error {
	switch _, _, err := getSettings(ctx, g.Registry, g.Name); {
	case err == nil:
		return fmt.Errorf("%w: %q exists, and its state would be replaced; choose another cluster.name, or delete its streams, NDR_%[2]s_*", ErrNotNew, g.Name)
	case !errors.Is(err, replicated.ErrNoKey):
		return err
	}
	next, err := g.begin(ctx, replicated.Identity{Cluster: rand.Text()[:16], Generation: 1}, state, written)
	if err != nil {
		return err
	}
	return g.use(ctx, next, 0)
}

// Successor is the generation that Continue begins, and what comes before it.
type Successor struct {
	Copy    replicated.Identity // of the copy
	Offset  uint64              // up to which the copy has its log
	Current uint64              // the generation in use; 0: NATS has lost the settings
	Last    uint64              // number of the last message of that generation; 0: it has none
	Next    uint64              // the generation begun; 0: none yet
}

// Continue begins the next generation of a cluster's log with a copy of its state. What the log has
// beyond the copy is lost. Before it changes anything, it calls confirm, and returns its error.
// It returns ErrNotNew if NATS has another cluster with the name, and another error if a
// member owns the log. After an error it may be called again.
func (g Generations) Continue(ctx context.Context, from replicated.Replica, confirm func(Successor) error) (s Successor, err error) {
	s.Copy, s.Offset = replicated.IdentityOf(from.At()), from.At().Offset
	if s.Copy.Cluster == "" {
		return s, errors.New("the copy is empty or belongs to no cluster: use the copy of another member, or of a backup")
	}
	stored, revision, err := getSettings(ctx, g.Registry, g.Name)
	if err != nil && !errors.Is(err, replicated.ErrNoKey) {
		return s, err
	}
	if err == nil && stored.ID != s.Copy.Cluster {
		return s, fmt.Errorf("%w: the copy belongs to the cluster %q, and NATS has another one, %q; to use the copy, delete the streams NDR_%s_*", ErrNotNew, s.Copy.Cluster, stored.ID, g.Name)
	}
	s.Current = stored.Generation
	old, err := g.quiet(ctx, &s)
	if err == nil {
		err = confirm(s)
	}
	if err != nil {
		return s, err
	}
	next, err := g.begin(ctx, replicated.Identity{Cluster: s.Copy.Cluster, Generation: max(s.Current, s.Copy.Generation) + 1}, from, func(int64) {})
	if err == nil && old != nil {
		err = replicated.Retire(ctx, old, g.owner(ctx), s.Last, next.Generation)
	}
	if err == nil {
		err = g.use(ctx, next, revision)
	}
	if err == nil {
		s.Next = next.Generation
	}
	return s, err
}

// pieceBytes is how large the records are with which a log begins.
const pieceBytes = 8 << 20

// quiet returns the log of the generation in use, once its last owner's lease is over; nil: there
// is none.
func (g Generations) quiet(ctx context.Context, s *Successor) (replicated.Stream, error) {
	if s.Current == 0 {
		return nil, nil
	}
	old, err := g.Storage(ctx, s.Current, false)
	if errors.Is(err, replicated.ErrLogLost) {
		return nil, nil
	}
	if err == nil {
		s.Last, err = quiet(ctx, old.Stream, g.Clock, g.Term)
	}
	return old.Stream, err
}

// quiet returns the sequence number of the last message of a log. It returns an error if a member
// appends to the log while the last owner's lease may be valid: for the term in its last
// message, or for term if that is longer.
func quiet(ctx context.Context, log replicated.Stream, clock lease.Clock, term time.Duration) (uint64, error) {
	last, err := log.Last(ctx)
	if err != nil {
		return 0, err
	}
	m, err := log.Get(ctx, last)
	switch {
	case last == 0:
		m.Term = term // nobody has owned it
	case err != nil:
		m.Term = 0 // not known: NATS lost the message
	}
	if !sleep(ctx, clock, gone(m.Term, term)) {
		return 0, context.Cause(ctx)
	}
	now, err := log.Last(ctx)
	if err == nil && now != last {
		err = errors.New("a member owns the log and appends to it, so that there is nothing to recover")
	}
	return last, err
}

// begin writes a state to a generation that nobody has begun, the first from an identity on, and
// returns its identity.
func (g Generations) begin(ctx context.Context, from replicated.Identity, state replicated.Dumper, written func(bytes int64)) (replicated.Identity, error) {
	for ; ; from.Generation++ {
		log, err := g.take(ctx, from)
		if errors.Is(err, checkpoint.ErrNotOwner) {
			continue // the rest of an attempt that failed
		}
		if err == nil && state != nil {
			bytes := int64(0)
			_, err = state.Dump(ctx, pieceBytes, func(record []byte) error {
				bytes += int64(len(record))
				written(bytes)
				_, err := log.Append(record)
				return err
			})
		}
		if err == nil {
			err = log.Release(ctx)
		}
		if err != nil {
			return from, fmt.Errorf("begin generation %d of the log: %w", from.Generation, err)
		}
		return from, nil
	}
}

// take takes the log of a generation, which it makes, and which has to be empty.
func (g Generations) take(ctx context.Context, identity replicated.Identity) (*replicated.Log, error) {
	storage, err := g.Storage(ctx, identity.Generation, true)
	if err != nil {
		return nil, err
	}
	o := g.owner(ctx)
	o.Identity = identity
	return replicated.Take(ctx, storage.Stream, 0, o)
}

// owner returns the options of an owner that is no member.
func (g Generations) owner(ctx context.Context) replicated.Options {
	return replicated.Options{Context: ctx, Owner: "operator-" + rand.Text(), Clock: g.Clock, Term: g.Term}
}

// use stores the settings of a generation that is complete.
func (g Generations) use(ctx context.Context, of replicated.Identity, revision uint64) error {
	err := putSettings(ctx, g.Registry, settings{Name: g.Name, ID: of.Cluster, Generation: of.Generation, Layout: checkpoint.Layout}, revision)
	if errors.Is(err, replicated.ErrConflict) {
		return fmt.Errorf("%w: somebody else created or continued it meanwhile", ErrNotNew)
	}
	return err
}
