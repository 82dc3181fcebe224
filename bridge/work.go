package bridge

import (
	"context"

	"go.opentelemetry.io/otel/trace"

	"ndrbridge/admin"
	"ndrbridge/configs"
	"ndrbridge/pipeline"
	"ndrbridge/pipeline/lifecycle"
)

// work is what a Bridge runs. *pipeline.Pipeline documents the methods.
type work interface {
	Try(ctx context.Context, config *configs.Config) pipeline.PartErrors
	Open(ctx context.Context, config *configs.Config, openTracer func() (trace.Tracer, error)) error
	Run(ctx context.Context, running func(streams, sinks int)) pipeline.Stopped
	Close(c *lifecycle.Closer)
	Config() *configs.Config
	Err() error
	NotReady() []string
	Tickets() admin.Tickets
	Reload(ctx context.Context, load func(current *configs.Config) (*configs.Config, error)) (changes []string, err error)
	// control returns nil until the work is open.
	control() admin.Control
}

// alone is the work of a bridge outside a cluster: one pipeline.
type alone struct {
	*pipeline.Pipeline
	reload reload
}

// reload is Bridge.Reload.
type reload func(context.Context) (admin.Reloaded, error)

func (a *alone) control() admin.Control {
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
