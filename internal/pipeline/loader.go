package pipeline

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"ndrbridge/internal/admin"
)

// loadTimeout is the default of Options.LoadTimeout.
const loadTimeout = 30 * time.Second

// errSlowLoad is returned by a reload that exceeds Options.LoadTimeout.
var errSlowLoad = errors.New("loading it and making its parts takes too long; the attempt continues, and no other begins before it ends: check the templates, and that all files can be read")

// Loader runs one reload at a time and limits how long it may load.
type Loader struct {
	timeout time.Duration
	ended   <-chan struct{} // closed when nobody needs a result any more
	running chan struct{}   // semaphore
}

// NewLoader returns a Loader. A timeout of 0 means the default. ended may be nil.
func NewLoader(timeout time.Duration, ended <-chan struct{}) *Loader {
	return &Loader{timeout: cmp.Or(timeout, loadTimeout), ended: ended, running: make(chan struct{}, 1)}
}

// Load calls load, which loads a configuration and makes its parts. The caller must call done
// once the reload is over. Cancelling ctx does not interrupt load.
//
// Load returns an error if load takes too long, admin.ErrBusy if an earlier reload does,
// admin.ErrNotRunning if l ends, and ctx's error if ctx is done before load begins. If load
// returns after that, discard is called, and must discard what load has made.
func (l *Loader) Load(ctx context.Context, load func(context.Context), discard func()) (done func(), err error) {
	timer := time.NewTimer(l.timeout)
	defer timer.Stop()
	select {
	case l.running <- struct{}{}:
	case <-l.ended:
		return nil, errStopping
	case <-ctx.Done():
		return nil, ctx.Err()
	case <-timer.C:
		return nil, fmt.Errorf("%w: an earlier reload is still running; try again, or restart the bridge", admin.ErrBusy)
	}
	release := func() { <-l.running }
	loaded := make(chan struct{})
	go func() {
		defer close(loaded)
		load(context.WithoutCancel(ctx))
	}()
	timer.Reset(l.timeout)
	select {
	case <-loaded:
		return release, nil
	case <-l.ended:
		err = errStopping
	case <-timer.C:
		err = errSlowLoad
	}
	go func() {
		<-loaded
		discard()
		release()
	}()
	return nil, err
}
