package bridge

import (
	"context"
	"log/slog"
	"sync/atomic"
	"time"

	"ndrbridge/appliance"
)

// firmwareEvery is how often an appliance is asked for its firmware's version while
// it can be reached all the time.
const firmwareEvery = time.Hour

// firmware knows what firmware an appliance runs.
type firmware struct {
	client *appliance.Client
	// system takes what the appliance says of itself, each time that it is asked; nil:
	// it is not asked.
	system  func(context.Context, appliance.System) error
	log     *slog.Logger
	back    chan struct{} // the appliance can be reached, for the first time or again
	version atomic.Value  // a string; nil: not known
}

// newFirmware returns a firmware whose requests let those of others go first.
func newFirmware(client *appliance.Client, log *slog.Logger) *firmware {
	return &firmware{client: client.Background(), log: log, back: make(chan struct{}, 1)}
}

// String is the version, empty while it is not known.
func (f *firmware) String() string {
	version, _ := f.version.Load().(string)
	return version
}

// reached says that the appliance can be reached, for the first time or again: it may
// have been upgraded in between. It never waits.
func (f *firmware) reached() {
	select {
	case f.back <- struct{}{}:
	default: // run has yet to look
	}
}

// run asks for the version when the appliance can be reached, and now and then from
// there on, until ctx ends. An appliance that does not tell is none the worse for it.
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
			f.log.Debug("the firmware's version could not be read; it is tried again later", "error", err)
			continue
		}
		if err := f.askSystem(ctx); err != nil && ctx.Err() == nil {
			f.log.Debug("what the appliance says of itself could not be read or kept; it is tried again later", "error", err)
		}
		f.version.Store(version.String()) // last: who sees it knows that all was asked for
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
