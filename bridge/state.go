package bridge

import "context"

// untilStateFails returns a context that ends with ctx, or as soon as the state can no
// longer be used. Nothing that is delivered from then on could be remembered. The
// caller must call stop.
func (b *Bridge) untilStateFails(ctx context.Context) (_ context.Context, stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		select {
		case <-b.store.Failed():
			b.log.Error("the state can no longer be used; the bridge stops", "error", b.store.Err())
			cancel()
		case <-ctx.Done():
		}
	}()
	return ctx, func() {
		cancel()
		<-done
	}
}
