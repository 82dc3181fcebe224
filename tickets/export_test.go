package tickets

import (
	"context"
	"time"
)

// Step does what Run does between two waits.
func (w *Writer) Step(ctx context.Context) (pause time.Duration) { return w.step(ctx, ctx) }
