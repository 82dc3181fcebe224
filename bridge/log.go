package bridge

import (
	"io"
	"log/slog"

	"ndrbridge/configs"
)

// NewLog returns the log that a configuration asks for.
func NewLog(w io.Writer, l configs.Log) *slog.Logger {
	var level slog.Level
	if err := level.UnmarshalText([]byte(l.Level)); err != nil {
		level = slog.LevelInfo // configs has refused what is no level
	}
	o := &slog.HandlerOptions{Level: level}
	if l.Format == "json" {
		return slog.New(slog.NewJSONHandler(w, o))
	}
	return slog.New(slog.NewTextHandler(w, o))
}
