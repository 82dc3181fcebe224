package bridge

import (
	"io"
	"log/slog"

	"ndrbridge/configs"
)

// NewLog returns the logger that a configuration describes. If it is passed to a bridge
// as Options.Log, its level follows the configuration on a reload.
func NewLog(w io.Writer, l configs.Log) *slog.Logger {
	level := new(slog.LevelVar)
	level.Set(levelOf(l))
	o := &slog.HandlerOptions{Level: level}
	if l.Format == "json" {
		return slog.New(levelled{slog.NewJSONHandler(w, o), level})
	}
	return slog.New(levelled{slog.NewTextHandler(w, o), level})
}

// levelled is a handler whose level can be changed, also for loggers derived from it.
type levelled struct {
	slog.Handler
	level *slog.LevelVar
}

func levelOf(l configs.Log) slog.Level {
	var level slog.Level
	if err := level.UnmarshalText([]byte(l.Level)); err != nil {
		return slog.LevelInfo // cannot happen: configs validated it
	}
	return level
}

// setLevel sets the level of the log if it can be changed.
func (b *Bridge) setLevel(config *configs.Config) {
	if l, ok := b.log.Handler().(levelled); ok {
		l.level.Set(levelOf(config.Log))
	}
}
