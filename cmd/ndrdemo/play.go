package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"sync"
	"time"

	"ndrbridge/admin"
	"ndrbridge/bridge"
	"ndrbridge/cmd/internal/commandline"
	"ndrbridge/transform"
)

// play runs the demo until ctx is cancelled or its time is over, and prints the summary. It
// returns an error that wraps errMissing if a promise was broken.
func play(ctx context.Context, s settings, stdout io.Writer) (err error) {
	commandline.SetGrace(ctx, s.patience+30*time.Second) // the bridge delivers the rest first
	folder, err := os.MkdirTemp("", "ndrdemo-")
	if err != nil {
		return fmt.Errorf("create a folder: %w", err)
	}
	defer func() {
		if errors.Is(err, errMissing) {
			err = fmt.Errorf("%w; the files of the demo are kept in %s", err, folder)
			return
		}
		err = errors.Join(err, os.RemoveAll(folder))
	}()
	d := &demo{
		settings: s,
		files:    filesIn(folder),
		screen:   newScreen(stdout),
		shown:    &shown{appliance: newAppliance(s.seed)},
		arrivals: newArrivals(),
		chat:     newChat(),
		project:  new(project),
		samples:  make(chan transform.Event),
		warnings: make(chan string, 8),
		failures: make(chan error, 8),
	}
	if err := d.run(ctx); err != nil {
		return err
	}
	select {
	case err := <-d.failures: // while stopping
		return err
	default:
	}
	return conclude(d.arrivals.ledger, d.shown.now(), d.chat.counted(), d.tickets, stdout)
}

// demo is one run of the demo, with the state that its parts share.
type demo struct {
	settings
	files
	addresses
	screen   *screen
	shown    *shown
	arrivals *arrivals
	chat     *chat
	project  *project
	tickets  ticketCount          // set by watch
	samples  chan transform.Event // events that reached the webhook while a sample was awaited
	warnings chan string          // of the bridge
	failures chan error           // of parts that should run until they are stopped
}

// run runs the parts until every sink has received everything, or until the time for that
// is over. It returns when all parts have stopped.
func (d *demo) run(ctx context.Context) error {
	logFile, err := os.Create(d.files.Log)
	if err != nil {
		return err
	}
	defer logFile.Close()
	plain := slog.New(slog.NewTextHandler(logFile, nil))

	var stop func()
	if d.ApplianceURL, stop, err = serve(d.shown.appliance, plain); err != nil {
		return err
	}
	defer stop()
	if d.WebhookURL, stop, err = serve(&receiver{arrivals: d.arrivals, samples: d.samples}, plain); err != nil {
		return err
	}
	defer stop()
	if d.ChatURL, stop, err = serve(d.chat, plain); err != nil {
		return err
	}
	defer stop()
	if d.JiraURL, stop, err = serve(d.project, plain); err != nil {
		return err
	}
	defer stop()
	if d.NATSURL, stop, err = startBroker(d.JetStream); err != nil {
		return err
	}
	defer stop()

	config, err := writeConfiguration(d.files, d.addresses)
	if err != nil {
		return err
	}
	b, err := bridge.New(ctx, config, bridge.Options{
		Version: "demo",
		Log:     slog.New(&warningHandler{Handler: bridge.NewLog(logFile, config.Log).Handler(), warn: d.warn}),
	})
	if err != nil {
		return err
	}
	d.project.open(d.JiraURL, b.AdminAddress())
	control, err := admin.NewClient("http://"+b.AdminAddress(), "")
	if err != nil {
		return errors.Join(err, b.Close())
	}
	// The bridge delivers the rest after ctx is cancelled.
	stopBridge := d.start(ctx, b.Run)
	stopConsumer := d.start(ctx, func(ctx context.Context) error {
		return consumeStream(ctx, d.NATSURL, "NDR", d.receive(sinkBus))
	})
	stopFollower := d.start(ctx, func(ctx context.Context) error {
		return followFile(ctx, d.File, d.receive(sinkLog))
	})
	// The bridge stops before the readers of its output.
	defer stopFollower()
	defer stopConsumer()
	defer stopBridge()

	d.printIntroduction(b.AdminAddress())
	return d.watch(ctx, control)
}

// start runs a part until stop is called. stop waits until the part has returned. A part
// that returns early or with an error is a failure.
func (d *demo) start(ctx context.Context, run func(context.Context) error) (stop func()) {
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	var running sync.WaitGroup
	running.Go(func() {
		err := run(ctx)
		if err == nil && ctx.Err() == nil {
			err = errors.New("a part of the demo stopped unexpectedly")
		}
		if err != nil {
			d.failures <- err
		}
	})
	return func() {
		cancel()
		running.Wait()
	}
}

func (d *demo) receive(sink string) func([]byte) error {
	return func(structured []byte) error {
		_, err := d.arrivals.receive(sink, structured)
		return err
	}
}

// warn queues a warning to be printed, or drops it if too many are queued.
func (d *demo) warn(line string) {
	select {
	case d.warnings <- line:
	default:
	}
}
