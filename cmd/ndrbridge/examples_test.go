package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"ndrbridge/cmd/internal/commandline"
	"ndrbridge/internal/admin"
	standin "ndrbridge/test/appliance"
	"ndrbridge/test/docs"
	"ndrbridge/test/loopback"
	"ndrbridge/test/require"
)

// showcase is where the examples of the reference are played: a bridge between a
// stand-in appliance and two sinks, one of which refuses the audit log.
type showcase struct {
	*installation
	soc     *receiver
	names   *strings.Replacer // of addresses
	printed map[string]string // by the command's path
}

// playExamples returns what commands print, by their paths, behind the lines that
// were typed.
func playExamples(t *testing.T) map[string]string {
	// As long as the folder that the page shows, so that tables have the same columns.
	folder := filepath.Join(os.TempDir(), fmt.Sprintf("ndrbridge%05d", os.Getpid()%100000))
	require.NoError(t, os.Mkdir(folder, 0o700))
	t.Cleanup(func() { os.RemoveAll(folder) })
	t.Chdir(folder)
	// The audit log contains two entries, without that of the ticket.
	appliance := standin.New(standin.Options{Seed: 1, NoAuditAPI: true})
	server := httptest.NewServer(appliance)
	t.Cleanup(server.Close)
	s := &showcase{
		installation: &installation{t: t, appliance: appliance, config: "ndrbridge.yaml", events: "events.jsonl", admin: loopback.Free(t)},
		soc:          receive(t), printed: make(map[string]string),
	}
	s.soc.refusal = "unknown event type"
	s.soc.refusing.Store(true)
	// As long as what they stand for, so that columns stay as they are.
	s.names = strings.NewReplacer(
		folder, "/home/you/ndrbridge",
		strings.TrimPrefix(server.URL, "http://"), "sensor.internal", strings.TrimPrefix(s.soc.url, "http://"), "intake.internal",
		s.admin, "127.0.0.1:9600", "ndrbridge test", "ndrbridge dev")
	text := fmt.Sprintf(`
state: ./ndrbridge.db
admin: {listen: %q}
appliances:
  - name: hq
    url: %s
    api_key: %s
    rate_limit: 1000
    detections: {start: beginning, interval: 20ms}
    audit: {start: beginning, interval: 20ms}
    blind_spots: {interval: 20ms} # of ticket tracking
sinks:
  - {name: log, file: {path: %s}, start: beginning, batch: {linger: 1ms}}
  - {name: soc, webhook: {url: %q}, start: beginning, probe: 20ms, batch: {linger: 1ms}}
tickets: {enabled: true}
`, s.admin, server.URL, standin.DefaultAPIKey, s.events, s.soc.url)
	require.NoError(t, os.WriteFile(s.config, []byte(text), 0o600))
	s.play()
	return s.printed
}

// play types the commands in an order in which each has something to show.
func (s *showcase) play() {
	s.show("ndrbridge check --config ndrbridge.yaml")
	s.show("ndrbridge check --config ndrbridge.yaml --connect")
	s.addDetections()
	stop := s.start()
	s.await("detections", 4)
	s.appliance.AddAudit(2)
	s.await("audit", 2)
	s.showTail("ndrbridge tail --since -1h", 6)
	s.closeTicket()
	s.await("detections", 5)
	s.await("events", 1) // the ticket's event
	s.awaitSink("one with two dead letters", func(sink admin.SinkStatus) bool { return sink.DeadLetters == 2 })
	s.awaitRest(time.Time{})

	s.show("ndrbridge status")
	s.show("ndrbridge try match --count 'detection.risk_score >= 80' < events.jsonl")
	s.show("ndrbridge tickets list")
	s.show("ndrbridge dead list")
	s.show("ndrbridge dead list soc")
	s.show("ndrbridge dead show soc " + s.deadLetterKey())
	s.soc.refusing.Store(false)
	s.show("ndrbridge dead requeue soc --all --yes")
	s.show("ndrbridge replay log --since -1h --dry-run")
	s.show("ndrbridge replay log --since -1h --yes")
	s.show(fmt.Sprintf("ndrbridge hide %d --victim any --dry-run", s.appliance.Latest()[0].ID))
	s.show("ndrbridge verify hq --since -24h")
	s.show("ndrbridge pause soc")
	s.show("ndrbridge resume soc")
	s.appendConfig("journal: {retain: 48h}\n")
	s.show("ndrbridge reload")
	s.show("ndrbridge rewind hq detections --to -2h --yes")
	s.await("detections", 14) // those of before, replayed, and the 4 that there are
	s.awaitRest(time.Now())
	s.show("ndrbridge state backup copy.db")
	stop()
	s.show("ndrbridge state show")
	s.show("ndrbridge state compact")
}

// awaitRest waits until the sinks have all events, the streams were polled after a time,
// and the firmware is known.
func (s *showcase) awaitRest(polled time.Time) {
	s.t.Helper()
	s.awaitStatus("all is at rest", func(status admin.Status) bool {
		a := status.Appliances[0]
		return a.Firmware != "" &&
			!slices.ContainsFunc(a.Streams, func(of admin.StreamStatus) bool { return !of.LastSuccess.After(polled) }) &&
			!slices.ContainsFunc(status.Sinks, func(of admin.SinkStatus) bool { return of.LagEvents > 0 })
	})
}

// appendConfig adds keys to the configuration.
func (s *showcase) appendConfig(text string) {
	s.t.Helper()
	before, err := os.ReadFile(s.config)
	if err == nil {
		err = os.WriteFile(s.config, append(before, text...), 0o600)
	}
	require.NoError(s.t, err)
}

// show types a line and keeps what it prints.
func (s *showcase) show(line string) {
	s.t.Helper()
	var out bytes.Buffer
	s.typed(s.t.Context(), line, &out)
}

// showTail is show for a command that goes on, until it has printed so many lines.
func (s *showcase) showTail(line string, lines int) {
	s.t.Helper()
	ctx, cancel := context.WithCancel(s.t.Context())
	defer cancel()
	s.typed(ctx, line, &counter{left: lines, done: cancel})
}

// output is what a command prints.
type output interface {
	io.Writer
	String() string
}

func (s *showcase) typed(ctx context.Context, line string, out output) {
	s.t.Helper()
	words := docs.Split(line)[0]
	c := &command{environ: []string{"NDRBRIDGE_CONFIG=" + s.config}, stdin: strings.NewReader(""), stdout: out, stderr: out}
	if _, path, ok := strings.Cut(line, " < "); ok {
		file := require.Value(os.Open(path))(s.t)
		defer file.Close()
		c.stdin = file
	}
	root := c.root()
	root.SetIn(c.stdin)
	if got := commandline.Run(ctx, root, words[1:], out, out); got != 0 {
		s.t.Fatalf("%s: exit %d\n%s", line, got, out)
	}
	cmd, _, err := root.Find(words[1:])
	require.NoError(s.t, err)
	s.printed[cmd.CommandPath()] += "$ " + line + "\n" + s.names.Replace(out.String())
}

// counter keeps what is written, and says when so many lines were.
type counter struct {
	bytes.Buffer
	left int
	done func()
}

func (c *counter) Write(b []byte) (int, error) {
	if c.left -= bytes.Count(b, []byte("\n")); c.left <= 0 {
		c.done()
	}
	return c.Buffer.Write(b)
}

// addDetections makes some, the first with a ticket.
func (s *showcase) addDetections() {
	s.t.Helper()
	first := s.appliance.AddBacklog(4, time.Hour)[0].ID
	require.NoError(s.t, s.appliance.Update(func(d *standin.Detection) { d.TicketID = standin.TicketID{ID: "SEC-1"} }, first))
}

// closeTicket posts a ticket command.
func (s *showcase) closeTicket() {
	s.t.Helper()
	const body = `{"ticket_id": "SEC-1", "status": "closed", "resolution": "action_taken"}`
	answer, err := http.Post("http://"+s.admin+"/api/v1/tickets", "application/json", strings.NewReader(body))
	require.NoError(s.t, err)
	if err := answer.Body.Close(); err != nil || answer.StatusCode != http.StatusAccepted {
		s.t.Fatalf("the ticket command was answered with %s %v", answer.Status, err)
	}
}

// dead letter is the key of a dead letter of soc.
func (s *showcase) deadLetterKey() string {
	s.t.Helper()
	lines := strings.Split(s.printed["ndrbridge dead list"], "\n")
	return strings.Fields(lines[len(lines)-2])[0]
}
