package cluster

import (
	"cmp"
	"context"
	"slices"
	"strings"

	"ndrbridge/internal/admin"
)

// members returns how many members were reached last.
func (n *Node) members() int {
	n.mu.Lock()
	defer n.mu.Unlock()
	return max(1, len(n.peers))
}

// couldOwn reports whether this member owns the log, or could take it and would go on as its owner
// did.
func (n *Node) couldOwn(r Report) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	_, differs := n.differs()
	return r.Error == "" && !differs && (r.LeaseMS > 0 || r.CaughtUp)
}

// Cluster asks all members that can be reached, and returns the state of the cluster.
func (n *Node) Cluster(ctx context.Context) admin.Cluster {
	own := n.Report()
	reports, err := n.o.Peers(ctx)
	reports = slices.DeleteFunc(reports, func(r Report) bool { return r.Instance == own.Instance })
	reports = append(reports, own)
	slices.SortFunc(reports, func(a, b Report) int {
		return cmp.Or(strings.Compare(a.Member, b.Member), strings.Compare(a.Instance, b.Instance))
	})

	c := admin.Cluster{Name: n.o.Name, ID: own.Cluster, Generation: own.Generation, Member: n.o.Member}
	if err != nil {
		c.Error = "the other members cannot be asked: " + err.Error()
	}
	compared := own // the owner, or this member
	for _, r := range reports {
		if r.LeaseMS > 0 {
			c.Owner, c.LeaseSeconds, compared = r.Member, float64(r.LeaseMS)/1000, r
		}
		if r.Lost {
			c.Error = cmp.Or(c.Error, r.Error)
		}
		c.LogBytes = max(c.LogBytes, r.LogBytes)
		if r.Snapshot.After(c.Snapshot) {
			c.Snapshot = r.Snapshot
		}
	}
	if c.Owner == "" {
		c.WithoutOwnerSeconds = n.withoutOwner()
	}
	for _, r := range reports {
		c.Members = append(c.Members, admin.ClusterMember{
			Member: r.Member, Version: r.Version, Since: r.Since, URL: r.URL, State: r.State, Config: compareConfig(r, compared),
			Generation: r.Generation, Offset: r.Offset, Behind: r.Behind,
			Ready: r.Error == "" && (r.LeaseMS > 0 || r.CaughtUp), Error: r.Error,
		})
	}
	return c
}

// withoutOwner returns for how many seconds nobody has appended to the log, as far as this member
// knows.
func (n *Node) withoutOwner() float64 {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.replica == nil {
		return 0
	}
	return (n.replica.Status().Quiet).Seconds()
}

// compareConfig compares the configuration of a member with another's.
func compareConfig(r, with Report) string {
	switch {
	case r.Version != with.Version:
		return admin.ConfigUnknown
	case r.ConfigHash != with.ConfigHash:
		return admin.ConfigDiffers
	}
	return admin.ConfigSame
}
