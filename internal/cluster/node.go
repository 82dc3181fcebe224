package cluster

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"sync"
	"time"

	"ndrbridge/checkpoint"
	"ndrbridge/configs"
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

// Run runs the member of the cluster with an identity, which Check returned, until ctx is cancelled.
// Then it hands over its shards cleanly, and returns when everything has stopped. It returns errName
// if this member may not be one. It is called once.
func (n *Node) Run(ctx context.Context, cluster string) error {
	n.members.cluster = cluster
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

// NotReady returns the reasons why this member is not ready, a sentence each:
// JetStream does not answer, its lease of a shard is over, or NATS lacks records that its copy of
// a shard has.
func (n *Node) NotReady() (reasons []string) {
	if silent := n.members.silent(); silent > n.o.Term {
		reasons = append(reasons, fmt.Sprintf("the NATS servers of the cluster have not answered for %s", silent.Round(time.Second)))
	}
	for _, s := range n.shards {
		if reason := s.notReady(); reason != "" {
			reasons = append(reasons, "shard "+configs.ShardName(s.number)+": "+reason)
		}
	}
	return reasons
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
		if r.Role != "" || r.Lost {
			m.Shards[configs.ShardName(s.number)] = r
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
