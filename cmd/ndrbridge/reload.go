package main

import (
	"context"
	"log/slog"
	"os"

	"ndrbridge/admin"
)

// reloadOn loads the configuration again with each signal, until ctx ends. What
// changed is told by reload itself.
func reloadOn(ctx context.Context, hangups <-chan os.Signal, reload func(context.Context) (admin.Reloaded, error), log *slog.Logger) {
	for {
		select {
		case <-hangups:
			reloaded, err := reload(ctx)
			switch {
			case err != nil && ctx.Err() == nil:
				log.Error("the configuration was not loaded again; the bridge goes on with the one that it has", "error", err)
			case err == nil && len(reloaded.Changes) == 0:
				log.Info("the configuration was loaded again; nothing in it differs")
			}
		case <-ctx.Done():
			return
		}
	}
}
