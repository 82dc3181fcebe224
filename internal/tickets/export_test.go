package tickets

import (
	"context"
	"time"
)

// Step is one step of Run.
func (w *Writer) Step(ctx context.Context) (pause time.Duration) { return w.step(ctx, ctx) }
