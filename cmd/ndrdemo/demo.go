package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"sync"
	"time"

	"ndrbridge/cmd/internal/commandline"
	"ndrbridge/configs"
	"ndrbridge/internal/admin"
	"ndrbridge/internal/bridge"
	"ndrbridge/test/jira"
	"ndrbridge/test/natsserver"
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
		settings: s, files: filesIn(folder), screen: newScreen(stdout),
		arrivals: newArrivals(newAppliance(s.seed)), chat: newChat(), failures: make(chan error, 8),
	}
	if err := d.run(ctx); err != nil {
		return err
	}
	select {
	case err := <-d.failures: // while stopping
		return err
	default:
	}
	d.tickets.untold = d.story.missing()
	return conclude(d.arrivals.ledger, d.arrivals.shown(), d.chat.counted(), d.tickets, stdout)
}

// demo is one run of the demo, with the state that its parts share.
type demo struct {
	settings
	files
	addresses
	screen   *screen
	arrivals *arrivals
	chat     *chat
	jira     *jira.Server
	story    *story
	tickets  ticketCount // set by watch
	failures chan error  // of parts that should run until they are stopped
}

// run runs the parts until every sink has received everything, or until the time for that
// is over. It returns when all parts have stopped.
func (d *demo) run(ctx context.Context) error {
	logFile, err := os.Create(d.Log)
	if err != nil {
		return err
	}
	defer logFile.Close()
	events, err := os.Create(d.File)
	if err != nil {
		return err
	}
	defer events.Close()
	for _, part := range []struct {
		url     *string
		handler http.Handler
	}{{&d.ApplianceURL, d.arrivals.appliance}, {&d.WebhookURL, &receiver{arrivals: d.arrivals, screen: d.screen}}, {&d.ChatURL, d.chat}} {
		s := httptest.NewServer(part.handler)
		defer s.Close()
		*part.url = s.URL
	}
	jiraServer := httptest.NewUnstartedServer(nil) // it starts once the bridge has an address
	defer jiraServer.Close()
	d.JiraURL = "http://" + jiraServer.Listener.Addr().String()
	broker, stopBroker, err := natsserver.Start(d.JetStream, nil)
	if err != nil {
		return err
	}
	defer stopBroker()
	d.NATSURL = broker.ClientURL()

	config, err := writeConfiguration(d.files, d.addresses)
	if err != nil {
		return err
	}
	b, err := bridge.New(ctx, config, bridge.Options{
		Version: "demo", Log: bridge.NewLog(logFile, config.Log), Load: func() (*configs.Config, error) { return loadConfiguration(d.files) },
	})
	if err != nil {
		return err
	}
	d.jira = newJira(d.JiraURL, b.AdminAddress())
	d.story = &story{appliance: d.arrivals.appliance, url: d.ApplianceURL, jira: d.jira, screen: d.screen}
	jiraServer.Config.Handler = d.jira
	jiraServer.Start()
	control, err := admin.NewClient("http://"+b.AdminAddress(), "")
	if err != nil {
		return errors.Join(err, b.Close())
	}
	// The bridge delivers the rest after ctx is cancelled, and stops before the readers of
	// its output.
	defer d.start(ctx, func(ctx context.Context) error { return consume(ctx, d.NATSURL, d.receive(sinkBus)) })()
	defer d.start(ctx, func(ctx context.Context) error { return follow(ctx, events, d.receive(sinkLog)) })()
	defer d.start(ctx, b.Run)()

	d.printParts(b.AdminAddress())
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
		d.fail(err)
	})
	return func() {
		cancel()
		running.Wait()
	}
}

// fail ends the demo with err, unless it is nil or another failure came first.
func (d *demo) fail(err error) {
	if err == nil {
		return
	}
	select {
	case d.failures <- err:
	default:
	}
}

// receive returns a function that records the events that reach a sink.
func (d *demo) receive(sink string) func([]byte) {
	return func(structured []byte) {
		_, err := d.arrivals.receive(sink, structured)
		d.fail(err)
	}
}

// watch lets the appliance change until ctx is cancelled or the time is over, and gives the
// bridge time to deliver the rest. It returns the error of a part that failed.
func (d *demo) watch(ctx context.Context, control *admin.Client) error {
	alive, end := context.WithCancel(ctx)
	defer end()
	if d.lasts > 0 {
		alive, end = context.WithTimeout(ctx, d.lasts)
		defer end()
	}
	var living sync.WaitGroup
	living.Go(func() { d.arrivals.appliance.Live(alive, rates(d.rate)) })
	untold, endStory := context.WithCancel(context.WithoutCancel(ctx))
	var telling sync.WaitGroup
	telling.Go(func() { d.story.tell(untold) })
	telling.Go(func() { d.fail(closeIssues(untold, d.jira)) })
	defer telling.Wait()
	defer endStory()
	err := d.await(alive, func() bool { return false })
	end()
	living.Wait()
	if err != nil {
		return err
	}

	d.screen.line("The appliance has stopped changing; waiting for the rest to be delivered.")
	rest, cancel := context.WithTimeout(context.WithoutCancel(ctx), d.patience)
	defer cancel()
	return d.await(rest, func() bool { return d.caughtUp(rest, control) })
}

// caughtUp reports whether every sink has received everything and no ticket change is in
// flight, which would create another version on the appliance.
func (d *demo) caughtUp(ctx context.Context, control *admin.Client) bool {
	if d.story.missing() != "" || !d.arrivals.caughtUp() { // the tickets sink may still receive events
		return false
	}
	var quiet bool
	var err error
	d.tickets, quiet, err = countTickets(ctx, control, d.jira)
	return err == nil && quiet && d.arrivals.caughtUp()
}

// await waits until ctx is done or over returns true. It returns the error of a part that
// failed.
func (d *demo) await(ctx context.Context, over func() bool) error {
	look := time.NewTicker(100 * time.Millisecond)
	defer look.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case err := <-d.failures:
			return err
		case <-look.C:
			if over() {
				return nil
			}
		}
	}
}
