package bridge

import (
	"context"

	"ndrbridge/configs"
	"ndrbridge/internal/admin"
	"ndrbridge/internal/pipeline"
	"ndrbridge/internal/pipeline/lifecycle"
)

// work is what a Bridge runs. *pipeline.Pipeline documents the methods; Try and Reload of a
// member differ, see there.
type work interface {
	Try(ctx context.Context, config *configs.Config) pipeline.PartErrors
	Open(ctx context.Context, config *configs.Config) error
	// Run calls running with attributes for the log once it runs.
	Run(ctx context.Context, running func(attributes ...any)) pipeline.Stopped
	Close(c *lifecycle.Closer)
	Config() *configs.Config
	Err() error
	NotReady() []string
	Tickets() admin.Tickets
	Reload(ctx context.Context, load func(current *configs.Config) (*configs.Config, error)) (changes []string, err error)
	// control returns nil until the work is open.
	control() admin.Control
	// cluster returns the cluster that the work is part of, or nil.
	cluster() admin.ClusterControl
}

// single is the work of a bridge outside a cluster: one pipeline.
type single struct {
	*pipeline.Pipeline
	reload reload
}

// reload is Bridge.Reload for the admin API.
type reload func(context.Context) (admin.Reloaded, error)

// Run implements work.
func (a *single) Run(ctx context.Context, running func(attributes ...any)) pipeline.Stopped {
	return a.Pipeline.Run(ctx, func(streams, sinks int) { running("streams", streams, "sinks", sinks) })
}

func (*single) cluster() admin.ClusterControl { return nil }

func (a *single) control() admin.Control {
	if c := a.Control(); c != nil {
		return control{c, a.reload}
	}
	return nil
}

// control adds Reload, which concerns the process, to the control of a pipeline.
type control struct {
	*pipeline.Control
	reload reload
}

// Reload implements admin.Control.
func (c control) Reload(ctx context.Context) (admin.Reloaded, error) { return c.reload(ctx) }
