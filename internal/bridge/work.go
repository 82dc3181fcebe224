package bridge

import (
	"context"

	"ndrbridge/configs"
	"ndrbridge/internal/admin"
	"ndrbridge/internal/pipeline"
)

// work is what a Bridge runs. *pipeline.Pipeline documents the methods; Try and Reload of a
// member differ, see there.
type work interface {
	Try(ctx context.Context, config *configs.Config) []error
	Open(ctx context.Context, config *configs.Config) error
	// Run calls running with attributes for the log once it runs.
	Run(ctx context.Context, running func(attributes ...any)) *pipeline.Stop
	Close(s *pipeline.Stop)
	Config() *configs.Config
	Err() error
	NotReady() []string
	Tickets() admin.Tickets
	Reload(ctx context.Context, next *configs.Config) (changes []string, err error)
	// control returns nil until the work is open.
	control() *admin.Client
}

// single is the work of a bridge outside a cluster: one pipeline.
type single struct{ *pipeline.Pipeline }

// Reload implements work.
func (s single) Reload(ctx context.Context, next *configs.Config) ([]string, error) {
	return s.Pipeline.Reload(ctx, func() *configs.Config { return next })
}

func (s single) control() *admin.Client { return s.Control() }
