package cluster

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"sync"
	"time"

	"ndrbridge/checkpoint"
)

// Node is a member of a cluster. Its methods are safe for concurrent use.
type Node struct {
	o        Options
	instance string // the member's name and a random part: one for each Node
	since    time.Time
	members  *members
	shards   []*shard

	stopping chan struct{} // closed when Run begins to stop
}

// New returns a Node, which does nothing before Run.
func New(o Options) *Node {
	o = o.withDefaults()
	random := make([]byte, 8)
	rand.Read(random) // never fails
	n := &Node{
		o: o, instance: o.Member + "." + hex.EncodeToString(random), since: o.Clock.Wall(),
		stopping: make(chan struct{}),
	}
	n.members = newMembers(o.Registry, o.Clock, o.Term, o.Shards, o.Log, n.entry)
	for number := range o.Shards {
		n.shards = append(n.shards, newShard(&n.o, n.members, n.instance, number))
	}
	o.Metrics.begin(n)
	return n
}

// Run runs the member until ctx is cancelled. Then it hands over its shards cleanly, and
// returns when everything has stopped. It returns ErrSettings or ErrName if this member may
// not be one. It is called once.
func (n *Node) Run(ctx context.Context) error {
	if err := n.join(ctx); err != nil || ctx.Err() != nil {
		return err
	}
	shardsCtx, stopShards := context.WithCancel(ctx)
	defer stopShards()
	var shards, rest sync.WaitGroup
	for _, s := range n.shards {
		shards.Go(func() { s.run(shardsCtx) })
	}
	shards.Go(func() { n.balance(shardsCtx) })

	// The others must see to the end that this member is there, and that it stops.
	membersCtx, stopMembers := context.WithCancel(context.WithoutCancel(ctx))
	defer stopMembers()
	var err error
	rest.Go(func() {
		err = n.members.run(membersCtx)
		stopShards() // if the name is not this member's
	})

	<-shardsCtx.Done()
	close(n.stopping)
	n.members.publishSoon()
	shards.Wait()
	stopMembers()
	rest.Wait()

	leaveCtx, cancel := context.WithTimeout(context.WithoutCancel(ctx), n.o.Term)
	defer cancel()
	if left := n.members.leave(leaveCtx); left != nil {
		n.o.Log.Warn("the other members will notice only later that this one stopped", "error", left)
	}
	return err
}

// join compares the settings with the cluster's, until the registry answers.
func (n *Node) join(ctx context.Context) error {
	mine := settings{Name: n.o.Name, Shards: n.o.Shards, Layout: checkpoint.Layout}
	for failing := false; ; failing = true {
		bounded, cancel := context.WithTimeout(ctx, n.o.Term)
		err := agree(bounded, n.o.Registry, mine)
		cancel()
		if err == nil || errors.Is(err, ErrSettings) {
			return err
		}
		if !failing && ctx.Err() == nil {
			n.o.Log.Warn("the cluster's settings cannot be read; retrying", "error", err)
		}
		if !sleep(ctx, n.o.Clock, n.o.Term/3, nil) {
			return nil
		}
	}
}

// entry returns this member's entry in the registry.
func (n *Node) entry() member {
	m := member{
		ID: n.o.Member, Instance: n.instance, Version: n.o.Version, Layout: checkpoint.Layout, Since: n.since,
		TermMS: n.o.Term.Milliseconds(), ConfigHash: n.o.ConfigHash(), Shards: make(map[string]report),
	}
	stopping := n.isStopping()
	for _, s := range n.shards {
		r, yields := s.report()
		if r.Role != "" {
			m.Shards[shardName(s.number)] = r
		}
		if yields || stopping {
			m.Yields = append(m.Yields, s.number)
		}
	}
	return m
}

func (n *Node) isStopping() bool {
	select {
	case <-n.stopping:
		return true
	default:
		return false
	}
}
