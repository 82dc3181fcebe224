package main

import (
	"context"
	"log/slog"
	"os"

	"ndrbridge/admin"
)

// reloadOn calls reload for each signal until ctx is cancelled. reload logs what changed.
func reloadOn(ctx context.Context, hangups <-chan os.Signal, reload func(context.Context) (admin.Reloaded, error), log *slog.Logger) {
	for {
		select {
		case <-hangups:
			reloaded, err := reload(ctx)
			switch {
			case err != nil && ctx.Err() == nil:
				log.Error("configuration not reloaded; the bridge continues with the current one", "error", err)
			case err == nil && len(reloaded.Changes) == 0:
				log.Info("configuration reloaded; nothing changed")
			}
		case <-ctx.Done():
			return
		}
	}
}
