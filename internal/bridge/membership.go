package bridge

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"ndrbridge/configs"
	"ndrbridge/internal/admin"
	"ndrbridge/internal/cluster/forward"
	"ndrbridge/internal/cluster/operations"
)

// shardSubject returns the NATS subject at which the owner of a shard answers.
func (c *clusterConnection) shardSubject(shard int) string {
	return "ndr." + c.name + ".shard." + configs.ShardName(shard)
}

// memberSubject returns the NATS subject at which a member answers.
func (c *clusterConnection) memberSubject(member string) string {
	return "ndr." + c.name + ".member." + member
}

// remoteMember returns a client of another member.
func (c *clusterConnection) remoteMember(name string) *admin.Client {
	return operations.NewMemberClient(c.transport(c.memberSubject(name)))
}

// transport returns a transport to a subject.
func (c *clusterConnection) transport(subject string) http.RoundTripper {
	return forward.NewTransport(c.conn.Conn, subject)
}

// answer has h answer the requests to a subject until stop is called.
func (c *clusterConnection) answer(subject string, h http.Handler) (stop func(), err error) {
	s, err := forward.Serve(c.conn.Conn, subject, h, c.options.Log)
	if err != nil {
		return nil, fmt.Errorf("answer other members at %s: %w", subject, err)
	}
	return s.Close, nil
}

// Count implements operations.Shards.
func (c *clusterConnection) Count() int { return len(c.remote) }

// Of implements operations.Shards.
func (c *clusterConnection) Of(appliance string) int {
	return configs.ShardOf(appliance, len(c.remote))
}

// Shard implements operations.Shards.
func (c *clusterConnection) Shard(n int) *admin.Client {
	if p := c.shards.pipeline(n); p != nil {
		return p.Control()
	}
	return c.remote[n]
}

// Members implements operations.Shards.
func (c *clusterConnection) Members() []operations.Member {
	all := []operations.Member{{Name: c.self, Reload: c.options.Reload}}
	for _, m := range c.node.Cluster().Members {
		if m.Member != c.self {
			all = append(all, operations.Member{Name: m.Member, Reload: c.remoteMember(m.Member).Reload})
		}
	}
	slices.SortFunc(all, func(a, b operations.Member) int { return strings.Compare(a.Name, b.Name) })
	return all
}

// handler answers other members: it is the admin API, in which a reload, a handover and a recovery
// are those of this member alone.
func (c *clusterConnection) handler() http.Handler {
	all := make(admin.Operations)
	admin.API.Reload.By(all, func(ctx context.Context, _ admin.None) (admin.Reloaded, error) { return c.options.Reload(ctx) })
	return operations.NewHandler(func() *admin.Client { return c.ofOwn().With(all) })
}

// ofOwn returns the control of the cluster, which hands over and recovers shards as far as this
// member does.
func (c *clusterConnection) ofOwn() *admin.Client {
	all := make(admin.Operations)
	admin.API.GetCluster.By(all, func(context.Context, admin.None) (admin.Cluster, error) { return c.node.Cluster(), nil })
	admin.API.HandOver.By(all, c.node.Handover)
	admin.API.RecoverShard.By(all, c.node.Recover)
	return c.control.With(all)
}

// ofAll is ofOwn that forwards handovers and recoveries to the member that they concern.
func (c *clusterConnection) ofAll() *admin.Client {
	own, all := c.ofOwn(), make(admin.Operations)
	// at returns the control of a live member, or this one's if there is no such member.
	at := func(seen admin.Cluster, member string) *admin.Client {
		for _, other := range seen.Members {
			if other.Member == member && member != c.self {
				return c.remoteMember(member)
			}
		}
		return own
	}
	admin.API.HandOver.By(all, func(ctx context.Context, what admin.Handover) error {
		seen := c.node.Cluster()
		to := what.Member
		if what.Shard != nil && *what.Shard >= 0 && *what.Shard < len(seen.Shards) {
			to = seen.Shards[*what.Shard].Owner
		}
		return admin.API.HandOver.Do(ctx, at(seen, to), what)
	})
	admin.API.RecoverShard.By(all, func(ctx context.Context, what admin.Recovery) error {
		return admin.API.RecoverShard.Do(ctx, at(c.node.Cluster(), what.From), what)
	})
	return own.With(all)
}
