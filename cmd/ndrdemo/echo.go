package main

import (
	"context"
	"log/slog"
)

// echo is a log handler that passes everything on, and tells a person of
// warnings in a line.
type echo struct {
	slog.Handler
	part string // of the bridge
	tell func(line string)
}

// Handle implements slog.Handler.
func (h *echo) Handle(ctx context.Context, r slog.Record) error {
	if r.Level >= slog.LevelWarn {
		line := h.part + r.Message
		for a := range r.Attrs {
			if a.Key == "error" {
				line += ": " + a.Value.String()
			}
		}
		h.tell(line)
	}
	return h.Handler.Handle(ctx, r)
}

// WithAttrs implements slog.Handler.
func (h *echo) WithAttrs(attrs []slog.Attr) slog.Handler {
	part := h.part
	for _, a := range attrs {
		part += a.Value.String() + ": "
	}
	return &echo{h.Handler.WithAttrs(attrs), part, h.tell}
}

// WithGroup implements slog.Handler.
func (h *echo) WithGroup(name string) slog.Handler {
	return &echo{h.Handler.WithGroup(name), h.part, h.tell}
}
