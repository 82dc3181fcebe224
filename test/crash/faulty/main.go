// Command faulty is a bridge with a fault, which the crash tests must detect. It consists of
// the parts of the real one, and runs its configuration as far as these tests need it. As a
// member of a cluster it is the real one.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"net"
	"os"
	"os/signal"
	"slices"
	"sync"
	"syscall"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"ndrbridge/checkpoint"
	"ndrbridge/configs"
	"ndrbridge/internal/admin"
	"ndrbridge/internal/commands"
	"ndrbridge/internal/commands/intake"
	"ndrbridge/internal/failure"
	"ndrbridge/internal/pipeline/endpoint"
	"ndrbridge/poller"
	"ndrbridge/sinks"
	"ndrbridge/sinks/nats"
	"ndrbridge/transform"
)

func main() {
	b := &bridge{log: slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelWarn}))}
	flag.StringVar(&b.fault, "fault", "", "early-cursor, early-dead-letter or early-acceptance; of a member of a cluster: no-guard or no-fence; empty: none")
	path := flag.String("config", "", "the configuration file")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	if err := b.run(ctx, *path); err != nil {
		fmt.Fprintln(os.Stderr, "faulty:", err)
		os.Exit(1)
	}
}

// bridge runs its parts until ctx is cancelled.
type bridge struct {
	fault   string
	log     *slog.Logger
	config  *configs.Config
	store   *checkpoint.Store
	running sync.WaitGroup
}

func (b *bridge) run(ctx context.Context, path string) (err error) {
	if b.config, err = configs.Load(configs.Source{Paths: []string{path}}); err != nil {
		return err
	}
	if b.config.Cluster.Enabled() {
		return b.runMember(ctx)
	}
	b.store, err = checkpoint.Open(b.config.State, checkpoint.Options{Limits: checkpoint.Limits{
		MaxBytes: int64(b.config.Journal.MaxBytes), Retain: time.Duration(b.config.Journal.Retain),
		DeadBytes: int64(b.config.DeadLetters.MaxBytes),
	}})
	if err != nil {
		return err
	}
	registry := prometheus.NewRegistry()
	if err := b.deliver(ctx, sinks.NewMetrics(registry)); err != nil {
		return err
	}
	var names []string
	pollers, writers := poller.NewMetrics(registry), commands.NewWriterMetrics(registry, commands.KindTicket)
	for _, a := range b.config.Appliances {
		names = append(names, a.Name)
		if err := b.poll(ctx, a, pollers, writers); err != nil {
			return err
		}
	}
	server := admin.NewServer(admin.Options{
		Metrics: registry,
		Control: func() *admin.Client { return admin.NewLocal(nil) }, // receiving tickets calls none of its methods
		Tickets: b.receive(ctx, names, commands.NewAcceptorMetrics(registry)),
	})
	listener, err := net.Listen("tcp", b.config.Admin.Listen)
	if err != nil {
		return err
	}
	go func() { _ = server.Serve(listener) }() // until Close

	<-ctx.Done()
	err = server.Close()
	b.running.Wait()
	if err != nil {
		return err
	}
	return b.store.Close()
}

// poll reads the streams of an appliance, and writes ticket changes to it.
func (b *bridge) poll(ctx context.Context, a configs.Appliance, m *poller.Metrics, writers *commands.WriterMetrics) error {
	client, err := endpoint.NewClient(a, endpoint.ClientOptions{Log: b.log})
	if err != nil {
		return err
	}
	ownWrites, err := commands.LoadOwnWrites(ctx, b.store, a.Name)
	if err != nil {
		return err
	}
	if b.config.Tickets.Enabled {
		w := commands.NewWriter(client, b.store, ownWrites, commands.WriterOptions{
			Appliance: a.Name, Kind: commands.KindTicket, RetryInitial: time.Duration(a.Retry.Initial), RetryMax: time.Duration(a.Retry.Max),
			Probe: time.Duration(a.AuthRetry), Log: b.log, Metrics: writers,
		})
		b.running.Go(func() { w.Run(ctx, ctx) })
	}
	watch := poller.NewWatch(b.store, poller.WatchOptions{Appliance: a.Name, After: a.UnreachableAfter, Log: b.log})
	start := func(s poller.Source, interval configs.Duration) {
		p := poller.New(s, poller.Options{
			Interval: time.Duration(interval), RetryInitial: time.Duration(a.Retry.Initial), RetryMax: time.Duration(a.Retry.Max),
			AuthRetry: time.Duration(a.AuthRetry), Watch: watch, Log: b.log, Metrics: m,
		})
		b.running.Go(func() { p.Run(ctx) })
	}
	d := a.Detections
	options := func(start configs.Start, pageSize int) poller.StreamOptions {
		return poller.StreamOptions{
			Appliance: a.Name, URL: a.URL, Start: start.At, PageSize: pageSize, Now: time.Now, Log: b.log, Metrics: m,
		}
	}
	start(poller.NewDetections(client, b.store, poller.DetectionsOptions{
		StreamOptions: options(d.Start, d.PageSize), Overlap: time.Duration(d.Overlap),
		ReconcileEvery: time.Duration(d.Reconcile.Every), ReconcileBack: time.Duration(d.Reconcile.Back),
		ForgetAfter: time.Duration(d.ForgetAfter), OwnWrites: ownWrites,
	}), d.Interval)
	if a.Audit.Enabled {
		start(poller.NewAudit(client, b.store, poller.AuditOptions{StreamOptions: options(a.Audit.Start, a.Audit.PageSize)}), a.Audit.Interval)
	}
	for _, q := range a.Records {
		start(poller.NewRecords(client, b.store, poller.RecordsOptions{
			StreamOptions: options(q.Start, q.PageSize), Query: q.Name, Types: q.Types, Window: time.Duration(q.Window),
			Delay: time.Duration(q.Delay), Recheck: time.Duration(q.Recheck), ContextTTL: time.Duration(q.ContextTTL),
			MaxWindowRecords: q.MaxWindowRecords, Store: poller.RecordStore(q.Store),
		}), q.Interval)
	}
	return nil
}

// deliver delivers the journal to the sinks.
func (b *bridge) deliver(ctx context.Context, m *sinks.Metrics) error {
	starts := make(map[string]checkpoint.Start)
	for _, s := range b.config.Sinks {
		starts[s.Name] = checkpoint.Start{}
	}
	if err := b.store.Configure(ctx, starts); err != nil {
		return err
	}
	for _, s := range b.config.Sinks {
		o := sinks.Options{
			Name: s.Name, Open: func() (sinks.Sink, error) { return endpoint.OpenSink(s, endpoint.SinkOptions{Log: b.log}) },
			Batch:  checkpoint.Batch{MaxEvents: s.Batch.MaxEvents, MaxBytes: int(s.Batch.MaxBytes)},
			Linger: time.Duration(s.Batch.Linger), RetryInitial: time.Duration(s.Retry.Initial), RetryMax: time.Duration(s.Retry.Max),
			Probe: time.Duration(s.Probe), Log: b.log.With("sink", s.Name), Metrics: m,
		}
		if b.fault == "early-dead-letter" {
			open := o.Open
			o.Open = func() (sinks.Sink, error) {
				sink, err := open()
				return blaming{sink}, err
			}
			o.MaxAttempts = 1
		}
		r := sinks.NewRunner(b.journal(s.Name), o)
		b.running.Go(func() { r.Run(ctx, ctx) })
	}
	return nil
}

// blaming is a sink that reports each failure as one of the events.
type blaming struct{ sinks.Sink }

func (s blaming) Send(ctx context.Context, events []transform.Event) error {
	err := s.Sink.Send(ctx, events)
	if err == nil {
		return nil
	}
	each, ok := errors.AsType[failure.EventErrors](err)
	if !ok {
		each = slices.Repeat(failure.EventErrors{err}, len(events))
	}
	for i, err := range each {
		if err != nil {
			each[i] = errors.New(err.Error()) // without its scope
		}
	}
	return each
}

// receive receives ticket commands from NATS. It returns the intake for HTTP.
func (b *bridge) receive(ctx context.Context, appliances []string, m *commands.AcceptorMetrics) func() admin.Tickets {
	if !b.config.Tickets.Enabled {
		return func() admin.Tickets { return admin.Tickets{} }
	}
	acceptor := commands.NewAcceptor(b.commands(), commands.AcceptorOptions{Appliances: appliances, Now: time.Now, Metrics: m})
	n := b.config.Tickets.NATS
	in := intake.NewNATS(intake.NATSOptions{
		Options: intake.Options{
			Acceptor: acceptor, Refuse: func(_ context.Context, r intake.Refusal) error { return fmt.Errorf("refused: %s", r.Reason) },
			RetryInitial: 100 * time.Millisecond, RetryMax: time.Second, Log: b.log,
		},
		Stream: n.Stream, Subject: n.Subject, Durable: n.Durable,
		Connect: func() (nats.Options, error) { return nats.Options{URL: n.URL.Value()}, nil },
	})
	b.running.Go(func() { in.Run(ctx) })
	return func() admin.Tickets { return admin.Tickets{Acceptor: acceptor} }
}
