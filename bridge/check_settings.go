package bridge

import (
	"context"
	"io"
	"log/slog"
	"time"

	"ndrbridge/admin"
	"ndrbridge/configs"
	"ndrbridge/preflight"
)

// CheckSettings returns findings of what a bridge with a configuration needs on this
// machine alone: the state, which is opened for reading, but not read in full, the
// address of the admin interface, and whatever the parts are made of, such as
// certificates. It changes nothing and contacts nothing, but for a bridge that has the
// address of the admin interface.
func CheckSettings(ctx context.Context, config *configs.Config, version string) []preflight.Finding {
	return append(checkState(config, true), checkParts(ctx, config, version)...)
}

// checkParts makes every part as a bridge that starts does, and returns a finding for
// each that cannot be made.
func checkParts(ctx context.Context, config *configs.Config, version string) []preflight.Finding {
	found := checkAdmin(ctx, config.Admin)
	b := newBridge(Options{Version: version, Log: slog.New(slog.DiscardHandler), Stdout: io.Discard})
	all, failed := b.makeParts(ctx, config)
	b.current.Store(all)
	_ = b.Close() // nothing has run that could be lost
	for _, err := range failed {
		found = append(found, preflight.Of(err.part, unusable(err.err))...)
	}
	return found
}

// checkAdmin takes the address of the admin interface for a moment. An address that a
// bridge has is a warning: most likely it runs with this configuration.
func checkAdmin(ctx context.Context, a configs.Admin) []preflight.Finding {
	_, listener, failed := openAdmin(a)
	if failed == nil {
		_ = listener.Close()
		return nil
	}
	f := preflight.Failure(failed.part, failed.err)
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	if failed.part == "admin.listen" && admin.IsBridge(ctx, "http://"+admin.DialAddress(a.Listen)) {
		f.Result, f.Advice = preflight.Warning, "a bridge runs there: if it is the one with this configuration, nothing has to be done; another one needs another address"
	}
	return preflight.Of(configuration, []preflight.Finding{f})
}
