package pipeline

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"time"

	"ndrbridge/checkpoint"
	"ndrbridge/configs"
	"ndrbridge/internal/admin"
	"ndrbridge/internal/appliance"
	"ndrbridge/poller"
	"ndrbridge/transform"
)

// operator carries out an operator's requests on a state, whether its bridge runs or
// not.
type operator struct {
	config  *configs.Config
	version string
	log     *slog.Logger
	store   *checkpoint.Store
	// writable returns the state, opened for writing. It may replace store.
	writable func() (*checkpoint.Store, error)
	// client returns the client of an appliance.
	client func(configs.Appliance) (*appliance.Client, error)
}

// Dead implements admin.Control.
func (p *operator) Dead(ctx context.Context, owner checkpoint.Owner, after string, limit int) ([]checkpoint.DeadLetter, error) {
	if err := p.checkOwner(ctx, owner); err != nil {
		return nil, err
	}
	return p.store.Dead(ctx, owner, after, limit)
}

// DeadLetter implements admin.Control.
func (p *operator) DeadLetter(ctx context.Context, owner checkpoint.Owner, key string) (checkpoint.DeadLetter, error) {
	if err := p.checkOwner(ctx, owner); err != nil {
		return checkpoint.DeadLetter{}, err
	}
	deadLetter, found, err := p.store.DeadLetterOf(ctx, owner, key)
	if err == nil && !found {
		err = fmt.Errorf("%w dead letter %q: it may have been dropped or requeued; list the dead letters to see which exist", admin.ErrUnknown, key)
	}
	return deadLetter, err
}

// DropDead implements admin.Control.
func (p *operator) DropDead(ctx context.Context, owner checkpoint.Owner, keys []string) (int, error) {
	if err := p.checkOwner(ctx, owner); err != nil {
		return 0, err
	}
	store, err := p.writable()
	if err != nil {
		return 0, err
	}
	n, err := store.DropDead(ctx, owner, keys)
	p.log.Info("dead letters were dropped on request", "owner", owner, "dropped", n)
	return n, err
}

// Requeue implements admin.Control.
func (p *operator) Requeue(ctx context.Context, sink string, keys []string) (int, error) {
	store, err := p.cursorOf(ctx, sink)
	if err != nil {
		return 0, err
	}
	n, err := store.Requeue(ctx, sink, keys)
	p.log.Info("dead letters were queued for redelivery on request", "sink", sink, "events", n)
	return n, err
}

// Replay implements admin.Control.
func (p *operator) Replay(ctx context.Context, sink string, r admin.Replay) (uint64, error) {
	period := checkpoint.Period{Since: r.Since, Until: r.Until}
	if r.DryRun {
		if err := p.checkCursor(ctx, p.store, sink); err != nil {
			return 0, err
		}
		selected, err := p.store.Replayable(ctx, sink, period)
		return selected.Events(), err
	}
	store, err := p.cursorOf(ctx, sink)
	if err != nil {
		return 0, err
	}
	queued, err := store.Replay(ctx, sink, period)
	if n := queued.Events(); err == nil && n > 0 {
		p.log.Info("events were queued for redelivery on request", "sink", sink, "since", r.Since, "events", n)
	}
	return queued.Events(), err
}

// pause stores whether a sink is paused.
func (p *operator) pause(ctx context.Context, sink string, paused bool) error {
	store, err := p.cursorOf(ctx, sink)
	if err != nil {
		return err
	}
	return store.Pause(ctx, sink, paused)
}

// Backup implements admin.Control.
func (p *operator) Backup(ctx context.Context, w io.Writer) error {
	_, err := p.store.Backup(ctx, w)
	return err
}

// Rewind moves the position of a stream back to a time, as poller.Rewind does. It
// returns admin.ErrUnknown if the appliance has no such stream.
func (p *operator) Rewind(ctx context.Context, source checkpoint.Source, to time.Time) error {
	a, err := p.appliance(source.Appliance)
	if err != nil {
		return err
	}
	if names := StreamsOf(a); !slices.Contains(names, source.Stream) {
		return fmt.Errorf("%w stream %q: appliance %s has %s", admin.ErrUnknown, source.Stream, a.Name, strings.Join(names, ", "))
	}
	store, err := p.writable()
	if err != nil {
		return err
	}
	return poller.Rewind(ctx, store, source, to)
}

// checkOwner returns admin.ErrUnknown if neither the configuration nor the state has an
// owner of dead letters.
func (p *operator) checkOwner(ctx context.Context, owner checkpoint.Owner) error {
	stats, err := p.store.Stats(ctx)
	if err != nil {
		return err
	}
	known := slices.Collect(maps.Keys(stats.DeadLetters))
	for _, s := range p.config.Sinks {
		known = append(known, checkpoint.SinkOwner(s.Name))
	}
	for name := range stats.Sinks {
		known = append(known, checkpoint.SinkOwner(name))
	}
	for _, a := range p.config.Appliances {
		for _, stream := range StreamsOf(a) {
			known = append(known, checkpoint.SourceOwner(checkpoint.Source{Appliance: a.Name, Stream: stream}))
		}
	}
	if slices.Contains(known, owner) {
		return nil
	}
	kind, name, _ := strings.Cut(string(owner), "/")
	var names []string // of the same kind
	for _, o := range known {
		if other, ok := strings.CutPrefix(string(o), kind+"/"); ok {
			names = append(names, other)
		}
	}
	slices.Sort(names)
	word := "stream"
	if kind == "sink" {
		word = "sink"
	}
	return fmt.Errorf("%w %s %q: choose from %s", admin.ErrUnknown, word, name, strings.Join(slices.Compact(names), ", "))
}

// cursorOf opens the state for a change to the cursor of a sink. It returns
// admin.ErrUnknown if the state has no such cursor.
func (p *operator) cursorOf(ctx context.Context, sink string) (*checkpoint.Store, error) {
	store, err := p.writable()
	if err != nil {
		return nil, err
	}
	return store, p.checkCursor(ctx, store, sink)
}

// checkCursor returns admin.ErrUnknown if the state has no cursor of a sink.
func (p *operator) checkCursor(ctx context.Context, store *checkpoint.Store, sink string) error {
	stats, err := store.Stats(ctx)
	if err != nil {
		return err
	}
	if _, ok := stats.Sinks[sink]; !ok {
		names := cmp.Or(strings.Join(slices.Sorted(maps.Keys(stats.Sinks)), ", "), "none, because no bridge has run with it yet")
		return fmt.Errorf("%w sink %q: the state has %s", admin.ErrUnknown, sink, names)
	}
	return nil
}

func (p *operator) appliance(name string) (configs.Appliance, error) {
	names := applianceNames(p.config)
	if i := slices.Index(names, name); i >= 0 {
		return p.config.Appliances[i], nil
	}
	return configs.Appliance{}, fmt.Errorf("%w appliance %q: the configuration has %s", admin.ErrUnknown, name, strings.Join(names, ", "))
}

// StreamsOf returns the names of the streams that an appliance is polled for.
func StreamsOf(a configs.Appliance) []string {
	var names []string
	if a.Detections.Enabled {
		names = append(names, transform.StreamDetections)
	}
	if a.Audit.Enabled {
		names = append(names, transform.StreamAudit)
	}
	for _, q := range a.Records {
		names = append(names, transform.StreamRecords+"/"+q.Name)
	}
	return names
}

// Commands implements admin.Control.
func (p *operator) Commands(ctx context.Context, f checkpoint.CommandFilter, after uint64, limit int) ([]checkpoint.Command, error) {
	return p.store.Commands(ctx, f, after, limit)
}

// Command implements admin.Control.
func (p *operator) Command(ctx context.Context, id uint64) (checkpoint.Command, error) {
	c, found, err := p.store.Command(ctx, id)
	if err == nil && !found {
		err = fmt.Errorf("%w ticket command %d: it may have been dropped, or completed so long ago that it was removed", admin.ErrUnknown, id)
	}
	return c, err
}

// RetryCommand implements admin.Control.
func (p *operator) RetryCommand(ctx context.Context, id uint64) error {
	c, err := p.Command(ctx, id)
	if err != nil {
		return err
	}
	if c.State != checkpoint.CommandRejected {
		return fmt.Errorf("ticket command %d is %s: %w", id, c.State, admin.ErrNotRejected)
	}
	store, err := p.writable()
	if err != nil {
		return err
	}
	p.log.Info("a ticket command is retried on request", "command", id)
	return store.RetryCommand(ctx, id)
}

// DropCommand implements admin.Control.
func (p *operator) DropCommand(ctx context.Context, id uint64) error {
	if _, err := p.Command(ctx, id); err != nil {
		return err
	}
	store, err := p.writable()
	if err != nil {
		return err
	}
	n, err := store.DropCommands(ctx, []uint64{id})
	if n > 0 {
		p.log.Info("a ticket command was dropped on request", "command", id)
	}
	return err
}
