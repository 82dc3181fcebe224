package main

import (
	"context"
	"log/slog"
)

// warningHandler is a log handler that passes all records on, and calls warn with a line
// for each warning or error.
type warningHandler struct {
	slog.Handler
	part string // of the bridge
	warn func(line string)
}

// Handle implements slog.Handler.
func (h *warningHandler) Handle(ctx context.Context, r slog.Record) error {
	if r.Level >= slog.LevelWarn {
		line := h.part + r.Message
		for a := range r.Attrs {
			if a.Key == "error" {
				line += ": " + a.Value.String()
			}
		}
		h.warn(line)
	}
	return h.Handler.Handle(ctx, r)
}

// WithAttrs implements slog.Handler.
func (h *warningHandler) WithAttrs(attrs []slog.Attr) slog.Handler {
	part := h.part
	for _, a := range attrs {
		part += a.Value.String() + ": "
	}
	return &warningHandler{h.Handler.WithAttrs(attrs), part, h.warn}
}

// WithGroup implements slog.Handler.
func (h *warningHandler) WithGroup(name string) slog.Handler {
	return &warningHandler{h.Handler.WithGroup(name), h.part, h.warn}
}
