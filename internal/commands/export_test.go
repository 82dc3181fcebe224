package commands

import (
	"context"
	"time"
)

// WriterStore is the part of the state that a Writer uses.
type WriterStore = writerStore

// Step is one step of Run.
func (w *Writer) Step(ctx context.Context) (pause time.Duration) { return w.step(ctx, ctx) }
