package pipeline

import (
	"context"
	"log/slog"
	"sync/atomic"
	"time"

	"ndrbridge/internal/appliance"
)

// firmwareEvery is how often the firmware version is read while the appliance stays
// reachable.
const firmwareEvery = time.Hour

// firmware reads and keeps the firmware version of an appliance. Its methods are safe for
// concurrent use.
type firmware struct {
	client  *appliance.Client
	system  func(context.Context, appliance.System) error
	log     *slog.Logger
	back    chan struct{} // signals that the appliance became reachable
	version atomic.Value  // a string; nil until known
}

// newFirmware returns a firmware whose requests have background priority. system, if not
// nil, receives the appliance's description of itself whenever the version is read.
func newFirmware(client *appliance.Client, system func(context.Context, appliance.System) error, log *slog.Logger) *firmware {
	return &firmware{client: client.Background(), system: system, log: log, back: make(chan struct{}, 1)}
}

// String returns the version, or "" until it is known.
func (f *firmware) String() string {
	version, _ := f.version.Load().(string)
	return version
}

// reached notes that the appliance became reachable, for the first time or again: it
// may have been upgraded in between. It never blocks.
func (f *firmware) reached() {
	select {
	case f.back <- struct{}{}:
	default: // a signal is already pending
	}
}

// run reads the version when the appliance becomes reachable and every firmwareEvery
// after, until ctx is done. Errors are only logged: nothing depends on the version.
func (f *firmware) run(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-f.back:
		case <-time.After(firmwareEvery):
		}
		version, err := f.client.Firmware(ctx)
		if err != nil {
			f.log.Debug("failed to read the firmware version; trying again later", "error", err)
			continue
		}
		if err := f.askSystem(ctx); err != nil && ctx.Err() == nil {
			f.log.Debug("failed to read or store the appliance's identity; trying again later", "error", err)
		}
		f.version.Store(version.String()) // last: a known version implies that all requests were made
	}
}

func (f *firmware) askSystem(ctx context.Context) error {
	if f.system == nil {
		return nil
	}
	system, err := f.client.System(ctx)
	if err != nil {
		return err
	}
	return f.system(ctx, system)
}
