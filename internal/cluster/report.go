package cluster

import (
	"context"
	"time"

	"ndrbridge/checkpoint"
	"ndrbridge/checkpoint/replicated"
)

// Report is what a member says of itself when it is asked. Members of other versions read it: a
// field keeps its meaning, and unknown fields are ignored.
type Report struct {
	Member     string    `json:"member"`
	Instance   string    `json:"instance"` // one for each start of the process
	Version    string    `json:"version"`
	Layout     int       `json:"layout"` // newest layout of the state that it can apply
	Since      time.Time `json:"since"`  // start, by its own clock: for people
	URL        string    `json:"url,omitempty"`
	ConfigHash string    `json:"config_hash"`
	State      string    `json:"state"`
	// The log that it owns or follows, and the number of the last message in its copy.
	Cluster    string `json:"cluster,omitempty"`
	Generation uint64 `json:"generation,omitempty"`
	Offset     uint64 `json:"offset,omitempty"`
	Behind     uint64 `json:"behind,omitempty"`    // follower: messages of the log that it has not applied
	CaughtUp   bool   `json:"caught_up,omitempty"` // follower: it may take the log
	LeaseMS    int64  `json:"lease_ms,omitempty"`  // owner: what is left of its lease
	// LogBytes and Snapshot are the size of the log behind the newest snapshot, and when that
	// was made; zero: not known.
	LogBytes int64     `json:"log_bytes,omitempty"`
	Snapshot time.Time `json:"snapshot,omitzero"`
	// Lost: its copy has records that the log lacks, or NATS lost the log. No member takes the log
	// then.
	Lost  bool   `json:"lost,omitempty"`
	Error string `json:"error,omitempty"` // why it can neither own nor follow the log
	// Ill: the owner reaches nothing of what it polls and delivers to. Reaches: the standby tried
	// lately, because the owner is ill, and reaches all of that.
	Ill     bool `json:"ill,omitempty"`
	Reaches bool `json:"reaches,omitempty"`
	// Needs is the number of the message of which it needs a snapshot, or of a later one, because the
	// log lost a message before. Zero: it needs none.
	Needs uint64 `json:"needs,omitempty"`
}

// identity returns the identity of the log that the member owns or follows.
func (r Report) identity() replicated.Identity {
	return replicated.Identity{Cluster: r.Cluster, Generation: r.Generation}
}

// at notes up to where the member has which log.
func (r *Report) at(p checkpoint.Point) {
	i := replicated.IdentityOf(p)
	r.Cluster, r.Generation, r.Offset = i.Cluster, i.Generation, p.Offset
}

// Report returns what this member says of itself.
func (n *Node) Report() Report {
	n.mu.Lock()
	defer n.mu.Unlock()
	r := Report{
		Member: n.o.Member, Instance: n.instance, Version: n.o.Version, Layout: checkpoint.Layout, Since: n.since,
		URL: n.o.URL(), ConfigHash: n.o.ConfigHash(), State: string(n.state),
	}
	switch {
	case n.ownership != nil:
		r.Cluster, r.Generation, r.Offset = n.ownership.identity.Cluster, n.ownership.identity.Generation, n.ownership.log.Offset()
		r.LeaseMS, r.Ill = n.ownership.lease.Left().Milliseconds(), n.ill
		if s := n.ownership.snapshotter.Load(); s != nil {
			var last replicated.Snapshot
			last, r.LogBytes = s.Status()
			r.Snapshot = last.Time
		}
	case n.replica != nil:
		f := n.replica.Status()
		r.at(n.replica.file.At())
		r.Reaches = n.reaches
		r.CaughtUp, r.LogBytes, r.Snapshot = caughtUp(f) && n.unheard() == 0, f.LogBytes, f.Snapshot.Time
		if f.Last > f.Applied {
			r.Behind = f.Last - f.Applied
		}
	default:
		r.at(n.kept)
	}
	if n.problem.err != nil {
		r.Lost, r.Error, r.Needs = n.problem.lost, n.problem.err.Error(), n.problem.needs
	}
	return r
}

// ask asks the members what they do, once in a term, and more often while the owner is silent,
// until ctx is done.
func (n *Node) ask(ctx context.Context) {
	for {
		n.askOnce(ctx)
		for asked := n.o.Clock.Now(); ; {
			if !sleep(ctx, n.o.Clock, n.o.step()) {
				return
			}
			if n.o.Clock.Now()-asked >= n.o.Term || n.silent() {
				break
			}
		}
	}
}

// silent reports whether this member follows, and nothing was appended to the log for longer than
// a living owner takes.
func (n *Node) silent() bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.replica == nil {
		return false
	}
	f := n.replica.Status()
	return f.Released || f.Quiet > n.o.Term/2
}

// askOnce asks the members, and lets the owner's snapshotter know of those that need a snapshot.
func (n *Node) askOnce(ctx context.Context) {
	reports, err := n.o.Peers(ctx)
	if err != nil {
		return
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	n.peers, n.peersAt = reports, n.o.Clock.Now()
	if n.ownership == nil {
		return
	}
	if s := n.ownership.snapshotter.Load(); s != nil {
		for _, r := range reports {
			s.Need(r.Needs)
		}
	}
}
