// Package operations provides the operations of all shards of a cluster as one
// admin.Control, and accepts ticket commands for the appliances of all shards. Any member
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
	"log/slog"
	"time"

	"ndrbridge/checkpoint"
	"ndrbridge/configs"
	"ndrbridge/internal/admin"
	"ndrbridge/internal/tickets"
)

// Shard is a shard, as its owner operates it. The methods return admin.ErrUnavailable if
// nobody owns it, or if the owner cannot be asked.
type Shard interface {
	admin.Control
	// Locate returns the shard's appliances that know a command's detection, or its ticket
	// if it names no detection: those that the state knows of or, with ask, those that say
	// so themselves.
	Locate(ctx context.Context, c tickets.Command, ask bool) ([]string, error)
	// Accept stores commands that were checked, as checkpoint.Store.Accept does.
	Accept(ctx context.Context, commands []checkpoint.Command) ([]checkpoint.Acceptance, error)
}

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
	// Shard returns shard n, 0 to Count()-1. It is called for each operation.
	Shard(n int) Shard
	// Members returns the live members, sorted by name.
	Members() []Member
}

// Options configure a Control. All fields but Log are required.
type Options struct {
	Shards shards
	// Config returns the current configuration of the cluster.
	Config func() *configs.Config
	// Version and Started are those of this process.
	Version string
	Started time.Time
	Log     *slog.Logger // nil: slog.Default()
}

// Control operates all shards. It is safe for concurrent use.
type Control struct {
	o         Options
	shards    shards
	backingUp chan struct{} // receives while a backup runs
}

var _ admin.Control = (*Control)(nil)

// New returns a Control.
func New(o Options) *Control {
	if o.Log == nil {
		o.Log = slog.Default()
	}
	return &Control{o: o, shards: o.Shards, backingUp: make(chan struct{}, 1)}
}
