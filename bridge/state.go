package bridge

import "context"

// untilStateFails returns a context that is cancelled with ctx or when the state
// becomes unusable: from then on deliveries could not be recorded. The caller must call
// stop.
func (b *Bridge) untilStateFails(ctx context.Context) (_ context.Context, stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		select {
		case <-b.store.Failed():
			b.log.Error("the state is unusable; the bridge stops", "error", b.store.Err())
			cancel()
		case <-ctx.Done():
		}
	}()
	return ctx, func() {
		cancel()
		<-done
	}
}
