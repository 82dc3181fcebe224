// Package operations provides the operations of all shards of a cluster as those of one
// bridge, and accepts ticket commands for the appliances of all shards. Any member
// can carry them out: the owner of a shard is asked, wherever it is.
//
// An operation on everything, such as Pause, is sent to all shards at once. If some shards
// fail, its error names them; the others have carried it out, and it can be repeated. Lists
// are merged in an order that does not depend on the owners, and fail if a shard cannot be
// asked, since a page without its items would look complete. Status and History
// leave such a shard out, and Status reports it.
package operations

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"time"

	"ndrbridge/configs"
	"ndrbridge/internal/admin"
	"ndrbridge/poller"
)

// Member is a live member of the cluster.
type Member struct {
	Name string
	// Reload has the member load its configuration again.
	Reload func(context.Context) (admin.Reloaded, error)
}

// shards are the shards and members of a cluster. The methods are safe for concurrent use.
type shards interface {
	// Count returns the number of shards, which never changes.
	Count() int
	// Of returns the shard of an appliance.
	Of(appliance string) int
	// Shard returns a client of shard n, 0 to Count()-1, as its owner operates it. Its methods
	// return admin.ErrUnavailable if nobody owns the shard, or if the owner cannot be asked. It
	// is called for each operation.
	Shard(n int) *admin.Client
	// Members returns the live members, sorted by name.
	Members() []Member
}

// Options describe a cluster. All fields but Log are required.
type Options struct {
	Shards shards
	// Config returns the current configuration of the cluster.
	Config func() *configs.Config
	// Version and Started are those of this process.
	Version string
	Started time.Time
	Log     *slog.Logger // nil: slog.Default()
}

// control operates all shards. It is safe for concurrent use.
type control struct {
	o         Options
	shards    shards
	backingUp chan struct{} // receives while a backup runs
}

// New returns a client of all shards.
func New(o Options) *admin.Client {
	if o.Log == nil {
		o.Log = slog.Default()
	}
	c := &control{o: o, shards: o.Shards, backingUp: make(chan struct{}, 1)}
	all := make(admin.Operations)
	admin.API.GetStatus.By(all, c.status)
	admin.API.GetHistory.By(all, c.history)
	admin.API.Reload.By(all, c.reload)
	admin.API.ListTicketCommands.By(all, c.commands)
	admin.API.ListDeadLetters.By(all, c.dead)
	admin.API.GroupDeadLetters.By(all, c.deadGroups)
	admin.API.GetDeadLetter.By(all, c.deadLetter)
	admin.API.GetDetection.By(all, c.detection)
	admin.API.Verify.By(all, c.verify)
	admin.API.TailEvents.By(all, c.tail)
	admin.API.Backup.By(all, c.backup)
	changeDead(c, all, admin.API.RequeueDeadLetters, func(sum *admin.Requeued, of admin.Requeued) { sum.N += of.N })
	changeDead(c, all, admin.API.DropDeadLetters, func(sum *admin.Dropped, of admin.Dropped) { sum.N += of.N })

	none := func(*admin.None, admin.None) {}
	everywhere(c, all, admin.API.PauseSink.Operation, none)
	everywhere(c, all, admin.API.ResumeSink.Operation, none)
	everywhere(c, all, admin.API.ForgetSink.Operation, none)
	everywhere(c, all, admin.API.RenameSink.Operation, none)
	// If it fails, the number is that of the shards that did it: a repetition queues their
	// events once more.
	everywhere(c, all, admin.API.ReplayEvents, func(sum *admin.Replayed, of admin.Replayed) { sum.Events += of.Events })

	inShardOf(c, all, admin.API.Rewind.Operation, func(r admin.RewindRequest) (int, error) { return c.shardOf(r.Appliance) })
	inShardOf(c, all, admin.API.ForgetAppliance.Operation, func(r admin.ForgetRequest) (int, error) { return c.shards.Of(r.Appliance), nil })
	inShardOf(c, all, admin.API.GetTicketCommand, c.ofCommand)
	inShardOf(c, all, admin.API.RetryTicketCommand.Operation, c.ofCommand)
	inShardOf(c, all, admin.API.DropTicketCommand.Operation, c.ofCommand)
	return admin.NewLocal(all)
}

// everywhere has all shards carry out an operation, and adds their answers.
func everywhere[Req, Answer any](c *control, all admin.Operations, o admin.Operation[Req, Answer], add func(sum *Answer, of Answer)) {
	o.By(all, func(ctx context.Context, r Req) (sum Answer, err error) {
		answers := askAll(ctx, c.shards, func(ctx context.Context, s *admin.Client) (Answer, error) { return o.Call(ctx, s, r) })
		for _, a := range answers {
			add(&sum, a.value)
		}
		return sum, failure(answers)
	})
}

// inShardOf has one shard carry out an operation.
func inShardOf[Req, Answer any](c *control, all admin.Operations, o admin.Operation[Req, Answer], of func(Req) (int, error)) {
	o.By(all, func(ctx context.Context, r Req) (answer Answer, err error) {
		n, err := of(r)
		if err != nil {
			return answer, err
		}
		answer, err = o.Call(ctx, c.shards.Shard(n), r)
		return answer, inShard(n, err)
	})
}

// ofCommand returns the shard of a command: IDs of shard n of N are n, n+N, n+2N …
func (c *control) ofCommand(r admin.OfCommand) (int, error) {
	return int(r.ID % uint64(c.shards.Count())), nil
}

func (c *control) detection(ctx context.Context, r admin.DetectionRequest) (admin.Detection, error) {
	n, err := c.shardOf(r.Appliance)
	if err != nil {
		return admin.Detection{}, err
	}
	d, err := admin.API.GetDetection.Call(ctx, c.shards.Shard(n), r)
	for _, v := range d.Versions {
		for i := range v.Sinks {
			if of := &v.Sinks[i]; of.Key != "" {
				of.Key = prefix(n) + of.Key
			}
		}
	}
	return d, inShard(n, err)
}

func (c *control) verify(ctx context.Context, r admin.VerifyRequest) ([]poller.Verification, error) {
	n, err := c.shardOf(r.Appliance)
	if err != nil {
		return nil, err
	}
	verifications, err := c.shards.Shard(n).Verify(ctx, r.Appliance, r.Since, r.Report)
	return verifications, inShard(n, err)
}

// shardOf returns the shard of an appliance, or admin.ErrUnknown if the configuration does
// not have the appliance.
func (c *control) shardOf(appliance string) (int, error) {
	var names []string
	for _, a := range c.o.Config().Appliances {
		names = append(names, a.Name)
	}
	if !slices.Contains(names, appliance) {
		return 0, fmt.Errorf("%w appliance %q: the configuration has %s", admin.ErrUnknown, appliance, strings.Join(names, ", "))
	}
	return c.shards.Of(appliance), nil
}
