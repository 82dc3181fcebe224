package zombie

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"log"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"ndrbridge/checkpoint"
	"ndrbridge/internal/lease"
	"ndrbridge/sinks"
	"ndrbridge/sinks/webhook"
	"ndrbridge/transform"
)

const (
	term     = time.Second
	versions = 40 // of one detection
	stopped  = 5  // version that the first owner is about to deliver when it is stopped
)

// The environment of the process that is the first owner.
const (
	envURL     = "ZOMBIE_URL"     // of the site; unset: this is the test
	envGuarded = "ZOMBIE_GUARDED" // whether deliveries need the lease
	envStops   = "ZOMBIE_STOPS"   // whether it stops itself before it writes version stopped
	envSize    = "ZOMBIE_SIZE"    // of an event, in bytes
)

func TestMain(m *testing.M) {
	if url := os.Getenv(envURL); url != "" {
		go func() {
			_, _ = io.Copy(io.Discard, os.Stdin) // until the test has ended, whatever became of it
			os.Exit(1)
		}()
		if err := own(url); err != nil {
			log.Fatal(err)
		}
		return
	}
	os.Exit(m.Run())
}

// own is the first owner: a runner with a webhook sink over a journal of versions, and a
// lease that the site renews. It returns some time after the site has refused a renewal.
func own(url string) error {
	folder, err := os.MkdirTemp("", "zombie")
	if err != nil {
		return err
	}
	defer os.RemoveAll(folder)
	store, err := checkpoint.Open(filepath.Join(folder, "state.db"), checkpoint.Options{})
	if err != nil {
		return err
	}
	defer store.Close()
	size, err := strconv.Atoi(os.Getenv(envSize))
	if err != nil {
		return err
	}
	if err := fill(store, size); err != nil {
		return err
	}
	clock := lease.System()
	l := lease.New(term, clock)
	guard := l
	if os.Getenv(envGuarded) != "true" {
		guard = nil
	}
	runner := sinks.NewRunner(store, sinks.Options{
		Name: "site", Batch: checkpoint.Batch{MaxEvents: 1}, RetryInitial: 50 * time.Millisecond, RetryMax: 100 * time.Millisecond,
		Probe: time.Second, Log: slog.New(slog.DiscardHandler), Metrics: sinks.NewMetrics(prometheus.NewRegistry()), Lease: guard,
		Open: func() (sinks.Sink, error) {
			sink, err := webhook.New(webhook.Options{URL: url + "/first", Lease: guard})
			return &stoppable{Sink: sink, stops: os.Getenv(envStops) == "true"}, err
		},
	})
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { runner.Run(ctx, ctx) })
	for renewed := true; renewed; time.Sleep(term / 5) {
		begun := clock.Now()
		switch status := renew(url); status {
		case http.StatusOK:
			l.Renew(begun)
		case http.StatusConflict:
			renewed = false
		}
	}
	time.Sleep(term) // whatever it still sends, it sends now
	cancel()
	running.Wait()
	return nil
}

// renew asks the site, which stands for the log, and returns the status of its answer; 0:
// none.
func renew(url string) int {
	client := &http.Client{Timeout: term / 2}
	answer, err := client.Post(url+"/log", "", nil)
	if err != nil {
		return 0
	}
	defer answer.Body.Close()
	return answer.StatusCode
}

// stoppable is a sink whose process stops itself once between the check of the lease and
// the request.
type stoppable struct {
	sinks.Sink
	stops bool
}

func (s *stoppable) Send(ctx context.Context, events []transform.Event) error {
	if s.stops && events[0].ID == strconv.Itoa(stopped) {
		s.stops = false
		clock := lease.System()
		before := clock.Now()
		if err := syscall.Kill(os.Getpid(), syscall.SIGSTOP); err != nil {
			return err
		}
		// This thread may go on for a moment. When the process goes on, it is the first.
		for now := clock.Now(); now-before < term; now = clock.Now() {
			before = now
		}
	}
	return s.Sink.Send(ctx, events)
}

// fill stores the versions.
func fill(store *checkpoint.Store, size int) error {
	ctx := context.Background()
	if err := store.Configure(ctx, map[string]checkpoint.Start{"site": {}}); err != nil {
		return err
	}
	for i := 1; i <= versions; i++ {
		n := 10
		if i == stopped {
			n = size
		}
		e, err := version(i, n)
		if err != nil {
			return err
		}
		source := checkpoint.Source{Appliance: "hq", Stream: "detections"}
		expect, err := store.Position(ctx, source)
		if err != nil {
			return err
		}
		if err := store.Commit(ctx, checkpoint.Commit{Source: source, Expect: expect, Position: []byte(strconv.Itoa(i)), Events: []transform.Event{e}}); err != nil {
			return err
		}
	}
	return nil
}

// version returns a version of the detection with so many bytes.
func version(number, size int) (transform.Event, error) {
	return transform.New(transform.Attributes{
		ID: strconv.Itoa(number), Source: "ndrbridge://hq/detections", Type: "io.ndrbridge.detection.updated", PartitionKey: "1", RecordedTime: time.Now(),
	}, fmt.Appendf(nil, "%q", strings.Repeat("x", cmp.Or(size, 1))))
}
