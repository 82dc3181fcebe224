package cluster

import (
	"context"
	"slices"
	"time"
)

const (
	// relieveEvery is how long a member that handed over because it was ill keeps the log if it
	// gets it again: where nobody reaches anything, members must not pass it on and on.
	relieveEvery = 10 * time.Minute
	// probeTimeout bounds one probe.
	probeTimeout = 30 * time.Second
)

// relieve has an owner that reaches nothing hand over to a standby that reaches all, and a standby
// try whether it does. It is called once in a term, by one goroutine.
func (n *Node) relieve(ctx context.Context) {
	n.mu.Lock()
	owns, peers := n.ownership != nil, n.peers
	n.mu.Unlock()
	if owns {
		n.yieldIfIll(ctx, peers)
		return
	}
	reaches := false
	if slices.ContainsFunc(peers, func(r Report) bool { return r.Ill && r.LeaseMS > 0 }) {
		bounded, cancel := context.WithTimeout(ctx, probeTimeout)
		defer cancel()
		reaches = n.o.Probe(bounded) == nil
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	n.reaches, n.ill = reaches, false
}

// yieldIfIll hands over if this member, the owner, is ill and a standby is not.
func (n *Node) yieldIfIll(ctx context.Context, peers []Report) {
	ill := n.o.Ill()
	n.mu.Lock()
	n.ill, n.reaches = ill, false
	now := n.o.Clock.Now()
	due := n.relieved == 0 || now-n.relieved >= relieveEvery
	healthy := slices.IndexFunc(peers, func(r Report) bool { return r.Instance != n.instance && r.Reaches && r.CaughtUp })
	if ill && due && healthy >= 0 {
		n.relieved = now
	}
	n.mu.Unlock()
	if !ill || !due || healthy < 0 {
		return
	}
	n.o.Log.Warn("this member reaches no appliance and no sink, and a standby reaches all of them: the log is handed over", "to", peers[healthy].Member)
	bounded, cancel := context.WithTimeout(ctx, 2*gone(n.o.Term, n.o.Term))
	defer cancel()
	if err := n.Handover(bounded); err != nil {
		n.o.Log.Warn("the log was not handed over", "error", err)
	}
}
