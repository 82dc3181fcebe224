package bridge

import (
	"context"

	"ndrbridge/configs"
	"ndrbridge/internal/admin"
	"ndrbridge/internal/pipeline"
)

// work is run by a Bridge: a *pipeline.Pipeline, which documents the methods, or a *member, whose Try
// and Reload differ.
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
	Reload(ctx context.Context, load func() *configs.Config) (changes []string, err error)
	Control() *admin.Client
}
