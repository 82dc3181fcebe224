// Package crash kills the bridge, and judges what arrived in spite of it.
package crash

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	standin "ndrbridge/test/appliance"
	"ndrbridge/test/ledger"
)

// maxEvents is how many events a batch may have.
const maxEvents = 50

// TestKillsLoseNothing kills the bridge at random moments while detections
// appear, change and tie, the audit log grows and records are stored, and lets the
// judge compare each sink with what the appliance showed. KILLS sets how often (50), SEED which moments.
func TestKillsLoseNothing(t *testing.T) {
	kills, seed := setting(t, "KILLS", 50), uint64(setting(t, "SEED", int(time.Now().UnixNano()&0xffffff)))
	t.Logf("KILLS=%d SEED=%d", kills, seed)
	random := rand.New(rand.NewPCG(seed, 0))
	folder := t.TempDir()
	program := build(t, folder)

	a := standin.New(standin.Options{Seed: seed, Size: 1000})
	a.SetHazards(standin.Hazards{
		Reset: 0.01, ServerError: 0.01, CutBody: 0.01, CutJSON: 0.01, HTML: 0.01, LimitCap: 80, InclusiveBound: seed%2 == 0,
		RecordUntilInclusive: seed%3 == 0, RecordWholeMillis: seed%5 == 0, RecordBatch: 30, CursorRenews: seed%7 == 0,
	})
	server := httptest.NewServer(a)
	defer server.Close()
	a.AddBacklog(500, time.Minute)
	a.AddAudit(300)
	for range 100 {
		a.AddRecordsAt(3, a.Clock().Add(-time.Duration(random.IntN(60_000))*time.Millisecond).UnixMicro())
	}

	book := ledger.New()
	targets := startTargets(t, book, filepath.Join(folder, "events.jsonl"))
	config := filepath.Join(folder, "ndrbridge.yaml")
	if err := os.WriteFile(config, []byte(configuration(folder, server.URL, targets)), 0o600); err != nil {
		t.Fatal(err)
	}

	ctx, stopLife := context.WithCancel(t.Context())
	var life sync.WaitGroup
	life.Go(func() {
		a.Live(ctx, standin.Rates{
			Appear: 150, Update: 200, Close: 50, Edit: 20, Late: 5, Future: 0.2, Tie: 1, Neighbours: 0.2,
			TieSize: 120, NeighbourSize: 70, LateBy: 20 * time.Minute, FutureBy: 3 * time.Second,
			AuditEntries: 50, Records: 100, RecordsLate: 5, RecordsTie: 0.2,
			RecordTieSize: 120, RecordLateBy: time.Second,
		})
	})
	repeated := 0
	for kill := range kills {
		if kill%100 == 99 {
			t.Logf("%d kills, %d versions of detections, %d events at the webhook", kill+1, len(a.History()), book.Received("soc"))
		}
		b := start(t, program, config)
		// Some die before they have begun, most at work.
		time.Sleep(time.Duration(random.IntN(500)) * time.Millisecond)
		b.kill(t)
		// The webhook's events are recorded before they are acknowledged, so it
		// shows what each kill makes the next bridge repeat: the batch in flight,
		// and the one whose cursor was not written yet.
		now := book.Repeated("soc")
		if now-repeated > 2*maxEvents {
			t.Errorf("kill %d: %d events were repeated; two batches are %d", kill, now-repeated, 2*maxEvents)
		}
		repeated = now
	}
	stopLife()
	life.Wait()
	a.SetHazards(standin.Hazards{})

	b := start(t, program, config)
	shown := shownBy(a)
	targets.await(t, book, shown, b)
	b.terminate(t)

	targets.readFile(t, book)
	for _, sink := range []string{"soc", "bus", "lake", "log"} {
		for stream, verdict := range shown.judge(book, sink) {
			t.Logf("%s: %d events of %s, %d duplicates after %d kills", sink, verdict.Delivered, stream, verdict.Duplicates, kills)
			for _, fault := range verdict.Faults {
				t.Errorf("%s, %s: %s", sink, stream, fault)
			}
		}
		if repeated, most := book.Repeated(sink), kills*2*maxEvents; repeated > most {
			t.Errorf("%s: %d duplicates, and %d kills explain %d", sink, repeated, kills, most)
		}
	}
}

// The sources of what never changes.
const (
	auditSource  = "ndrbridge://hq/auditlog"
	recordSource = "ndrbridge://hq/records/all"
)

// shown is what the appliance showed.
type shown struct {
	detections    []ledger.Version
	audit, record []ledger.Object
}

func shownBy(a *standin.Appliance) shown {
	return shown{ledger.VersionsOf(a, 0), ledger.AuditEntriesOf(a), ledger.RecordsOf(a)}
}

// missing says what has yet to reach a sink, and how much that is.
func (s shown) missing(book *ledger.Ledger, sink string) (n int, example string) {
	n, version := book.Missing(sink, s.detections)
	example = fmt.Sprintf("detection %d-%d", version.ID, version.ModTime)
	for source, objects := range map[string][]ledger.Object{auditSource: s.audit, recordSource: s.record} {
		if missing, object := book.MissingObjects(sink, source, objects); missing > 0 {
			n, example = n+missing, source+" "+object.ID
		}
	}
	return n, example
}

func (s shown) judge(book *ledger.Ledger, sink string) map[string]ledger.Verdict {
	return map[string]ledger.Verdict{
		"detections": book.Judge(sink, s.detections),
		"audit":      book.JudgeObjects(sink, auditSource, s.audit, true),
		"records":    book.JudgeObjects(sink, recordSource, s.record, false),
	}
}

func setting(t *testing.T, name string, otherwise int) int {
	t.Helper()
	text := os.Getenv(name)
	if text == "" {
		return otherwise
	}
	n, err := strconv.Atoi(text)
	if err != nil {
		t.Fatalf("%s=%s is no number", name, text)
	}
	return n
}

// build builds the bridge.
func build(t *testing.T, folder string) (program string) {
	t.Helper()
	program = filepath.Join(folder, "ndrbridge")
	command := exec.Command("go", "build", "-o", program, "ndrbridge/cmd/ndrbridge")
	if output, err := command.CombinedOutput(); err != nil {
		t.Fatalf("build the bridge: %v\n%s", err, output)
	}
	return program
}

// configuration has short times, so that a run of half a second does a day's
// work: the overlap is below what is late, and the sweep finds the rest.
func configuration(folder, url string, t *targets) string {
	return fmt.Sprintf(`
state: %s/state.db
log: {level: warn}
admin: {listen: "127.0.0.1:0"}
appliances:
  - name: hq
    url: %s
    api_key: %s
    rate_limit: 1000
    retry: {initial: 10ms, max: 50ms}
    detections:
      start: beginning
      interval: 20ms
      overlap: 2s
      page_size: 100
      reconcile: {every: 1s, back: 1h}
    audit: {start: beginning, interval: 20ms, page_size: 40}
    records:
      - {name: all, start: beginning, interval: 20ms, window: 2s, delay: 100ms, recheck: 3s, page_size: 50, max_window_records: 300}
sinks:
  - name: soc
    webhook: {url: %q}
    batch: &batch {max_events: %d, linger: 5ms}
    retry: &retry {initial: 10ms, max: 100ms}
  - name: bus
    nats: {url: %q, stream: NDR, create_stream: true}
    batch: *batch
    retry: *retry
  - name: lake
    kafka: {brokers: [%q]}
    batch: *batch
    retry: *retry
  - name: log
    file: {path: %q, rotate: {max_bytes: 0}}
    batch: *batch
    retry: *retry
`, folder, url, standin.DefaultAPIKey, t.webhook, maxEvents, t.nats, t.kafka, t.file)
}

// bridge is a running process.
type bridge struct {
	command *exec.Cmd
	output  *bytes.Buffer
}

func start(t *testing.T, program, config string) *bridge {
	t.Helper()
	b := &bridge{command: exec.Command(program, "run", "--config", config), output: new(bytes.Buffer)}
	b.command.Stdout, b.command.Stderr = b.output, b.output
	if err := b.command.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = b.command.Process.Kill() }) // where the test failed before it did
	return b
}

// kill ends the process as a crash does. One that has ended by itself is a
// failure.
func (b *bridge) kill(t *testing.T) {
	t.Helper()
	if err := b.command.Process.Kill(); err != nil && !errors.Is(err, os.ErrProcessDone) {
		t.Fatal(err)
	}
	_ = b.command.Wait() // its state tells
	if status, ok := b.command.ProcessState.Sys().(syscall.WaitStatus); !ok || !status.Signaled() {
		t.Fatalf("the bridge ended by itself: %s\n%s", b.command.ProcessState, b.output)
	}
}

// terminate ends the process as an operator does.
func (b *bridge) terminate(t *testing.T) {
	t.Helper()
	if err := b.command.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if err := b.command.Wait(); err != nil {
		t.Fatalf("the bridge stopped with %v\n%s", err, b.output)
	}
	if text := b.output.String(); strings.Contains(text, "panic") || strings.Contains(text, "DATA RACE") {
		t.Errorf("the bridge wrote:\n%s", text)
	}
}
