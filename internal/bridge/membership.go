package bridge

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/prometheus/client_golang/prometheus"

	"ndrbridge/checkpoint"
	"ndrbridge/configs"
	"ndrbridge/internal/admin"
	"ndrbridge/internal/cluster/forward"
	"ndrbridge/internal/cluster/operations"
	"ndrbridge/internal/pipeline"
	"ndrbridge/internal/tickets"
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
	s, err := forward.Serve(c.conn.Conn, subject, h, c.log)
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
func (c *clusterConnection) Shard(n int) operations.Shard {
	if p := c.shards.pipeline(n); p != nil {
		return c.local(p)
	}
	return c.remote[n]
}

// local returns a shard that this member owns.
func (c *clusterConnection) local(p *pipeline.Pipeline) operations.Shard {
	return localShard{p.Control(), p}
}

// localShard is a shard that this member owns.
type localShard struct {
	*pipeline.Control
	pipeline *pipeline.Pipeline
}

// Locate implements operations.Shard.
func (s localShard) Locate(ctx context.Context, c tickets.Command, ask bool) ([]string, error) {
	return s.pipeline.Locate(ctx, c, ask)
}

// Accept implements operations.Shard.
func (s localShard) Accept(ctx context.Context, commands []checkpoint.Command) ([]checkpoint.Acceptance, error) {
	return s.pipeline.Accept(ctx, commands)
}

// Members implements operations.Shards.
func (c *clusterConnection) Members() []operations.Member {
	all := []operations.Member{{Name: c.member, Reload: c.reload}}
	for _, m := range c.node.Cluster().Members {
		if m.Member != c.member {
			all = append(all, operations.Member{Name: m.Member, Reload: c.remoteMember(m.Member).Reload})
		}
	}
	slices.SortFunc(all, func(a, b operations.Member) int { return strings.Compare(a.Name, b.Name) })
	return all
}

// handler returns what this member answers to other members: the admin API, in which a reload
// and what concerns the cluster are those of this member alone.
func (c *clusterConnection) handler() http.Handler {
	return admin.NewHandler(admin.Options{
		Metrics:  prometheus.NewRegistry(),
		Control:  func() admin.Control { return memberControl{c.control, c.reload} },
		Tickets:  func() admin.Tickets { return admin.Tickets{} },
		NotReady: func() []string { return nil },
		Cluster:  func() admin.ClusterControl { return ownShards{c} },
	})
}

// memberControl is the control of the cluster with a Reload of this member alone.
type memberControl struct {
	*operations.Control
	reload reload
}

// Reload implements admin.Control.
func (c memberControl) Reload(ctx context.Context) (admin.Reloaded, error) { return c.reload(ctx) }

// ownShards is the control of the cluster as far as this member carries it out.
type ownShards struct{ *clusterConnection }

// Cluster implements admin.ClusterControl.
func (s ownShards) Cluster(context.Context) (admin.Cluster, error) { return s.node.Cluster(), nil }

// Handover implements admin.ClusterControl.
func (s ownShards) Handover(ctx context.Context, what admin.Handover) error {
	return s.node.Handover(ctx, what)
}

// Recover implements admin.ClusterControl.
func (s ownShards) Recover(ctx context.Context, what admin.Recovery) error {
	return s.node.Recover(ctx, what)
}

// allShards passes what concerns the shards of another member on to it.
type allShards struct{ ownShards }

// Handover implements admin.ClusterControl.
func (s allShards) Handover(ctx context.Context, what admin.Handover) error {
	seen := s.node.Cluster()
	to := what.Member
	if what.Shard != nil && *what.Shard >= 0 && *what.Shard < len(seen.Shards) {
		to = seen.Shards[*what.Shard].Owner
	}
	return s.at(seen, to).Handover(ctx, what)
}

// Recover implements admin.ClusterControl.
func (s allShards) Recover(ctx context.Context, what admin.Recovery) error {
	return s.at(s.node.Cluster(), what.From).Recover(ctx, what)
}

// at returns the control of a live member, or this one's if there is no such member.
func (s allShards) at(seen admin.Cluster, member string) admin.ClusterControl {
	for _, other := range seen.Members {
		if other.Member == member && member != s.member {
			return s.remoteMember(member)
		}
	}
	return s.ownShards
}
