package pipeline

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"

	"ndrbridge/checkpoint"
	"ndrbridge/configs"
	"ndrbridge/internal/admin"
	"ndrbridge/internal/appliance"
	"ndrbridge/poller"
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

// operations returns the operations that do not depend on whether the bridge runs.
func (p *operator) operations() admin.Operations {
	all := make(admin.Operations)
	admin.API.ListDeadLetters.By(all, p.dead)
	admin.API.GroupDeadLetters.By(all, p.deadGroups)
	admin.API.GetDeadLetter.By(all, p.deadLetter)
	admin.API.DropDeadLetters.By(all, p.dropDead)
	admin.API.RequeueDeadLetters.By(all, p.requeue)
	admin.API.ReplayEvents.By(all, p.replay)
	admin.API.GetDetection.By(all, p.detection)
	admin.API.Verify.By(all, p.verify)
	admin.API.ListTicketCommands.By(all, p.commands)
	admin.API.GetTicketCommand.By(all, p.command)
	admin.API.RetryTicketCommand.By(all, p.retryCommand)
	admin.API.DropTicketCommand.By(all, p.dropCommand)
	admin.API.Backup.By(all, p.backup)
	admin.API.Rewind.By(all, p.rewind)
	admin.API.ForgetSink.By(all, p.forget)
	admin.API.RenameSink.By(all, p.rename)
	admin.API.ForgetAppliance.By(all, p.forgetAppliance)
	return all
}

func (p *operator) dead(ctx context.Context, r admin.DeadRequest) (admin.DeadPage, error) {
	owner := r.Owner()
	if err := p.checkOwner(ctx, owner); err != nil {
		return admin.DeadPage{}, err
	}
	return admin.NewDeadPage(r, func(after string) ([]checkpoint.DeadLetter, error) { return p.store.Dead(ctx, owner, after, 1) })
}

func (p *operator) deadLetter(ctx context.Context, r admin.OfDeadLetter) (admin.DeadLetter, error) {
	if err := p.checkOwner(ctx, r.Owner()); err != nil {
		return admin.DeadLetter{}, err
	}
	deadLetter, found, err := p.store.DeadLetterOf(ctx, r.Owner(), r.Key)
	if err == nil && !found {
		err = fmt.Errorf("%w dead letter %q: it may have been dropped or requeued; list the dead letters to see which exist", admin.ErrUnknown, r.Key)
	}
	return admin.NewDeadLetter(deadLetter, true), err
}

func (p *operator) dropDead(ctx context.Context, r admin.Selection) (admin.Dropped, error) {
	if err := p.checkOwner(ctx, r.Owner()); err != nil {
		return admin.Dropped{}, err
	}
	store, err := p.writable()
	if err != nil {
		return admin.Dropped{}, err
	}
	n, err := store.DropDead(ctx, r.Owner(), r.Keys)
	p.log.Info("dead letters were dropped on request", "owner", r.Owner(), "dropped", n)
	return admin.Dropped{N: n}, err
}

func (p *operator) requeue(ctx context.Context, r admin.Selection) (admin.Requeued, error) {
	store, err := p.cursorOf(ctx, r.Sink)
	if err != nil {
		return admin.Requeued{}, err
	}
	n, err := store.Requeue(ctx, r.Sink, r.Keys)
	p.log.Info("dead letters were queued for redelivery on request", "sink", r.Sink, "events", n)
	return admin.Requeued{N: n}, err
}

func (p *operator) replay(ctx context.Context, r admin.ReplayRequest) (admin.Replayed, error) {
	period := checkpoint.Period{Since: r.Since, Until: r.Until}
	if r.DryRun {
		if err := p.checkCursor(ctx, p.store, r.Sink); err != nil {
			return admin.Replayed{}, err
		}
		selected, err := p.store.Replayable(ctx, r.Sink, period)
		return admin.Replayed{Events: selected.Events()}, err
	}
	store, err := p.cursorOf(ctx, r.Sink)
	if err != nil {
		return admin.Replayed{}, err
	}
	queued, err := store.Replay(ctx, r.Sink, period)
	if n := queued.Events(); err == nil && n > 0 {
		p.log.Info("events were queued for redelivery on request", "sink", r.Sink, "since", r.Since, "events", n)
	}
	return admin.Replayed{Events: queued.Events()}, err
}

// pause stores whether a sink is paused.
func (p *operator) pause(ctx context.Context, sink string, paused bool) error {
	store, err := p.cursorOf(ctx, sink)
	if err != nil {
		return err
	}
	return store.Pause(ctx, sink, paused)
}

func (p *operator) backup(ctx context.Context, r admin.BackupRequest) error {
	_, err := p.store.Backup(ctx, r.To)
	return err
}

// rewind moves the position of a stream back to a time, as poller.Rewind does. It
// returns admin.ErrUnknown if the appliance has no such stream with positions in time.
func (p *operator) rewind(ctx context.Context, r admin.RewindRequest) error {
	a, err := p.appliance(r.Appliance)
	if err != nil {
		return err
	}
	var names []string
	for _, s := range sourcesOf(p.config, a) {
		if s.verify != nil { // it has positions in time
			names = append(names, s.stream)
		}
	}
	if !slices.Contains(names, r.Stream) {
		return fmt.Errorf("%w stream %q: appliance %s has %s", admin.ErrUnknown, r.Stream, a.Name, strings.Join(names, ", "))
	}
	store, err := p.writable()
	if err != nil {
		return err
	}
	return poller.Rewind(ctx, store, checkpoint.Source{Appliance: r.Appliance, Stream: r.Stream}, r.To)
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
		for _, stream := range StreamsOf(p.config, a) {
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
	names := p.config.ApplianceNames()
	if i := slices.Index(names, name); i >= 0 {
		return p.config.Appliances[i], nil
	}
	return configs.Appliance{}, fmt.Errorf("%w appliance %q: the configuration has %s", admin.ErrUnknown, name, strings.Join(names, ", "))
}

func (p *operator) commands(ctx context.Context, r admin.CommandsRequest) (admin.CommandPage, error) {
	commands, err := p.store.Commands(ctx, r.Filter(), r.After, r.Limit+1)
	return admin.NewCommandPage(commands, r.Limit), err
}

func (p *operator) command(ctx context.Context, r admin.OfCommand) (admin.TicketCommand, error) {
	c, found, err := p.store.Command(ctx, r.ID)
	if err == nil && !found {
		err = fmt.Errorf("%w ticket command %d: it may have been dropped, or completed so long ago that it was removed", admin.ErrUnknown, r.ID)
	}
	return admin.NewTicketCommand(c), err
}

func (p *operator) retryCommand(ctx context.Context, r admin.OfCommand) error {
	c, err := p.command(ctx, r)
	if err != nil {
		return err
	}
	if c.Status != checkpoint.CommandRejected {
		return fmt.Errorf("ticket command %d is %s: %w", r.ID, c.Status, admin.ErrNotRejected)
	}
	store, err := p.writable()
	if err != nil {
		return err
	}
	p.log.Info("a ticket command is retried on request", "command", r.ID)
	return store.RetryCommand(ctx, r.ID)
}

func (p *operator) dropCommand(ctx context.Context, r admin.OfCommand) error {
	if _, err := p.command(ctx, r); err != nil {
		return err
	}
	store, err := p.writable()
	if err != nil {
		return err
	}
	n, err := store.DropCommands(ctx, []uint64{r.ID})
	if n > 0 {
		p.log.Info("a ticket command was dropped on request", "command", r.ID)
	}
	return err
}
