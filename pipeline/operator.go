package pipeline

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"time"

	"ndrbridge/admin"
	"ndrbridge/appliance"
	"ndrbridge/checkpoint"
	"ndrbridge/configs"
	"ndrbridge/poller"
	"ndrbridge/transform"
)

// operator carries out an operator's requests on a state, whether its bridge runs or
// not.
type operator struct {
	config  *configs.Config
	version string
	log     *slog.Logger
	// state returns the state, opened for reading only or for writing.
	state func(access) (*checkpoint.Store, error)
	// client returns the client of an appliance.
	client func(configs.Appliance) (*appliance.Client, error)
}

// access is the kind of access to a state.
type access int

const (
	reading access = iota
	writing
)

// Dead implements admin.Control.
func (p *operator) Dead(ctx context.Context, owner checkpoint.Owner, after string, limit int) ([]checkpoint.DeadLetter, error) {
	store, err := p.deadLettersOf(ctx, owner, reading)
	if err != nil {
		return nil, err
	}
	return store.Dead(ctx, owner, after, limit)
}

// DeadLetter implements admin.Control.
func (p *operator) DeadLetter(ctx context.Context, owner checkpoint.Owner, key string) (checkpoint.DeadLetter, error) {
	store, err := p.deadLettersOf(ctx, owner, reading)
	if err != nil {
		return checkpoint.DeadLetter{}, err
	}
	deadLetter, found, err := store.DeadLetterOf(ctx, owner, key)
	if err == nil && !found {
		err = fmt.Errorf("%w dead letter %q: it may have been dropped or requeued; list the dead letters to see which exist", admin.ErrUnknown, key)
	}
	return deadLetter, err
}

// DropDead implements admin.Control.
func (p *operator) DropDead(ctx context.Context, owner checkpoint.Owner, keys []string) (int, error) {
	store, err := p.deadLettersOf(ctx, owner, writing)
	if err != nil {
		return 0, err
	}
	n, err := store.DropDead(ctx, owner, keys)
	p.log.Info("dead letters were dropped on request", "owner", owner, "dropped", n)
	return n, err
}

// Requeue implements admin.Control.
func (p *operator) Requeue(ctx context.Context, sink string, keys []string) (int, error) {
	store, err := p.cursorOf(ctx, sink, writing)
	if err != nil {
		return 0, err
	}
	n, err := store.Requeue(ctx, sink, keys)
	p.log.Info("dead letters were queued for redelivery on request", "sink", sink, "events", n)
	return n, err
}

// Replay implements admin.Control.
func (p *operator) Replay(ctx context.Context, sink string, since time.Time) (uint64, error) {
	store, err := p.cursorOf(ctx, sink, writing)
	if err != nil {
		return 0, err
	}
	r, err := store.Replay(ctx, sink, since)
	if err != nil || r == (checkpoint.Range{}) {
		return 0, err
	}
	n := r.Last + 1 - r.First
	p.log.Info("events were queued for redelivery on request", "sink", sink, "since", since, "events", n)
	return n, nil
}

// pause stores whether a sink is paused.
func (p *operator) pause(ctx context.Context, sink string, paused bool) error {
	store, err := p.cursorOf(ctx, sink, writing)
	if err != nil {
		return err
	}
	return store.Pause(ctx, sink, paused)
}

// Backup implements admin.Control.
func (p *operator) Backup(ctx context.Context, w io.Writer) error {
	store, err := p.state(reading)
	if err != nil {
		return err
	}
	_, err = store.Backup(ctx, w)
	return err
}

// Rewind moves the position of a stream back to a time, as poller.Rewind does. It
// returns admin.ErrUnknown if the appliance has no such stream.
func (p *operator) Rewind(ctx context.Context, source checkpoint.Source, to time.Time) error {
	a, err := p.appliance(source.Appliance)
	if err != nil {
		return err
	}
	if names := streamsOf(a); !slices.Contains(names, source.Stream) {
		return fmt.Errorf("%w stream %q: appliance %s has %s", admin.ErrUnknown, source.Stream, a.Name, strings.Join(names, ", "))
	}
	store, err := p.state(writing)
	if err != nil {
		return err
	}
	return poller.Rewind(ctx, store, source, to)
}

// deadLettersOf opens the state for an operation on an owner's dead letters. It returns
// admin.ErrUnknown if neither the configuration nor the state has the owner.
func (p *operator) deadLettersOf(ctx context.Context, owner checkpoint.Owner, a access) (*checkpoint.Store, error) {
	store, err := p.state(a)
	if err != nil {
		return nil, err
	}
	stats, err := store.Stats(ctx)
	if err != nil {
		return nil, err
	}
	known := make(map[checkpoint.Owner]bool)
	for _, s := range p.config.Sinks {
		known[checkpoint.SinkOwner(s.Name)] = true
	}
	for name := range stats.Sinks {
		known[checkpoint.SinkOwner(name)] = true
	}
	for _, a := range p.config.Appliances {
		for _, stream := range streamsOf(a) {
			known[checkpoint.SourceOwner(checkpoint.Source{Appliance: a.Name, Stream: stream})] = true
		}
	}
	for o := range stats.DeadLetters {
		known[o] = true
	}
	if known[owner] {
		return store, nil
	}
	var sinks, streams []string
	for o := range known {
		if sink, ok := o.Sink(); ok {
			sinks = append(sinks, sink)
		} else {
			streams = append(streams, strings.TrimPrefix(string(o), "source/"))
		}
	}
	slices.Sort(sinks)
	slices.Sort(streams)
	if name, ok := owner.Sink(); ok {
		return nil, fmt.Errorf("%w sink %q: there is %s", admin.ErrUnknown, name, strings.Join(sinks, ", "))
	}
	return nil, fmt.Errorf("%w stream %q: there is %s", admin.ErrUnknown, strings.TrimPrefix(string(owner), "source/"), strings.Join(streams, ", "))
}

// cursorOf opens the state for an operation on the cursor of a sink. It returns
// admin.ErrUnknown if the state has no such cursor.
func (p *operator) cursorOf(ctx context.Context, sink string, a access) (*checkpoint.Store, error) {
	store, err := p.state(a)
	if err != nil {
		return nil, err
	}
	stats, err := store.Stats(ctx)
	if err != nil {
		return nil, err
	}
	if _, ok := stats.Sinks[sink]; !ok {
		return nil, fmt.Errorf("%w sink %q: the state has %s", admin.ErrUnknown, sink, strings.Join(slices.Sorted(maps.Keys(stats.Sinks)), ", "))
	}
	return store, nil
}

func (p *operator) appliance(name string) (configs.Appliance, error) {
	var names []string
	for _, a := range p.config.Appliances {
		if a.Name == name {
			return a, nil
		}
		names = append(names, a.Name)
	}
	return configs.Appliance{}, fmt.Errorf("%w appliance %q: the configuration has %s", admin.ErrUnknown, name, strings.Join(names, ", "))
}

// streamsOf returns the names of the streams that an appliance is polled for.
func streamsOf(a configs.Appliance) []string {
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
	store, err := p.state(reading)
	if err != nil {
		return nil, err
	}
	return store.Commands(ctx, f, after, limit)
}

// Command implements admin.Control.
func (p *operator) Command(ctx context.Context, id uint64) (checkpoint.Command, error) {
	store, err := p.state(reading)
	if err != nil {
		return checkpoint.Command{}, err
	}
	c, found, err := store.Command(ctx, id)
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
	store, err := p.state(writing)
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
	store, err := p.state(writing)
	if err != nil {
		return err
	}
	n, err := store.DropCommands(ctx, []uint64{id})
	if n > 0 {
		p.log.Info("a ticket command was dropped on request", "command", id)
	}
	return err
}
