package pipeline

import (
	"context"
	"io"
	"time"

	"ndrbridge/checkpoint"
	"ndrbridge/configs"
)

// watchSpace logs, until ctx is done, when sources start or stop waiting for space and when
// a sink exceeds its lag budget or is within it again.
func (p *Pipeline) watchSpace(ctx context.Context) {
	waiting, behind := false, make(map[string]bool)
	every(ctx, 5*time.Second, func() {
		stats, err := p.store.Stats(ctx)
		if err != nil {
			return
		}
		config := p.current.Load().config
		if stats.SourcesWait != waiting {
			waiting = stats.SourcesWait
			p.reportSpace(stats)
		}
		for _, s := range config.Sinks {
			p.reportLag(ctx, s, stats, behind)
		}
	})
}

// archive writes a copy of the state to w as a backup does, unless that could fill the disk of the
// state, which the archive may be on.
func (p *Pipeline) archive(ctx context.Context, w io.Writer) error {
	stats, err := p.store.Stats(ctx)
	if err != nil {
		return err
	}
	if err := p.store.CheckFree(stats.FileBytes); err != nil {
		return err
	}
	return p.Control().Backup(ctx, sparing{w, p.store})
}

// sparing writes to w unless that could fill the disk of the state.
type sparing struct {
	w     io.Writer
	state *checkpoint.Store
}

func (s sparing) Write(b []byte) (int, error) {
	if err := s.state.CheckFree(int64(len(b))); err != nil {
		return 0, err
	}
	return s.w.Write(b)
}

// fillingSink returns the sink that would fill the journal: the one with the most
// unacknowledged bytes among those whose lag policy is block. It returns "" if they have
// delivered everything.
func fillingSink(config *configs.Config, stats checkpoint.Stats) string {
	name, most := "", int64(0)
	for _, s := range config.Sinks {
		if lag := stats.Sinks[s.Name].LagBytes; s.Lag.Policy == configs.LagBlock && lag > most {
			name, most = s.Name, lag
		}
	}
	return name
}

// reportSpace logs whether sources wait for space in the journal.
func (p *Pipeline) reportSpace(stats checkpoint.Stats) {
	if !stats.SourcesWait {
		p.options.Log.Info("the journal has space again; polling continues")
		return
	}
	slowest := ""
	for name, s := range stats.Sinks {
		if s.Configured && (slowest == "" || s.LagBytes > stats.Sinks[slowest].LagBytes) {
			slowest = name
		}
	}
	p.options.Log.Warn("the journal is full, so polling pauses; the appliance keeps the data",
		"sink_that_is_behind", slowest, "lag_events", stats.Sinks[slowest].LagEvents, "max_bytes", stats.MaxBytes)
}

// reportLag logs when a sink whose lag policy is block exceeds its lag budget or is
// within it again. behind holds the sinks that exceed it.
func (p *Pipeline) reportLag(ctx context.Context, s configs.Sink, stats checkpoint.Stats, behind map[string]bool) {
	over, err := overLag(ctx, p.store, s, stats)
	if err != nil || s.Lag.Policy != configs.LagBlock || over == behind[s.Name] {
		return
	}
	behind[s.Name] = over
	if !over {
		p.options.Log.Info("the sink is within its lag budget again", "sink", s.Name)
		return
	}
	p.options.Log.Warn("the sink is too far behind; its events are kept and may eventually fill the journal",
		"sink", s.Name, "lag_events", stats.Sinks[s.Name].LagEvents, "oldest", stats.Sinks[s.Name].Oldest,
		"max_age", s.Lag.MaxAge, "max_bytes", s.Lag.MaxBytes)
}
