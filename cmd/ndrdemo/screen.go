package main

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"sync"
	"time"

	"ndrbridge/cmd/internal/terminal"
	standin "ndrbridge/test/appliance"
	"ndrbridge/transform"
)

// screen prints some events, and a row of counts from time to time, with a heading every few
// rows. It ignores write errors. It is safe for concurrent use.
type screen struct {
	out io.Writer

	mu     sync.Mutex
	rows   int
	events int // printed since the last row
}

// line prints a line.
func (s *screen) line(text string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	fmt.Fprintln(s.out, text)
}

// event prints an event, unless enough events were printed since the last row.
func (s *screen) event(e transform.Event) {
	const most = 3
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.events == most {
		return
	}
	s.events++
	what := e.Subject + " " + terminal.Summary(e)
	var data struct {
		Ticket struct {
			ID     string `json:"ticket_id"`
			Status string
		}
	}
	if json.Unmarshal(e.Data(), &data) == nil && data.Ticket.ID != "" {
		what = data.Ticket.ID + " " + data.Ticket.Status
	}
	fmt.Fprintln(s.out, terminal.Printable(fmt.Sprintf("%s %-10s %-8s %-8s %s",
		e.Time.Local().Format(time.TimeOnly), e.Stream(), e.SeverityWord(), e.Action(), what)))
}

// row prints the counts of a report.
func (s *screen) row(elapsed time.Duration, r report) {
	const rowsPerHeading = 10
	above, below := "        detections     audit log        ", " time | shown versions entries records"
	seconds := int(elapsed.Round(time.Second).Seconds())
	row := fmt.Sprintf("%2d:%02d | %5d %8d %7d %7d", seconds/60, seconds%60, r.detections, r.versions, r.entries, r.records)
	for _, sink := range r.sinks {
		above += fmt.Sprintf("   %-15s", sink.demoSink)
		below += " | events dup wait"
		row += fmt.Sprintf(" | %6d %3d %4d", sink.events, sink.duplicates, sink.waiting)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.rows%rowsPerHeading == 0 {
		fmt.Fprintf(s.out, "%s\n%s\n", strings.TrimRight(above, " "), below)
	}
	fmt.Fprintln(s.out, row)
	s.rows++
	s.events = 0
}

// printParts prints the parts of the demo with their addresses.
func (d *demo) printParts(admin string) {
	end := "Ctrl-C ends the demo."
	if d.lasts > 0 {
		end = fmt.Sprintf("The demo ends after %v.", d.lasts)
	}
	d.screen.line(fmt.Sprintf(`A stand-in appliance, a NATS server, a webhook receiver, a chat, a Jira, and the bridge
between them. The appliance fails one request in seven, and the webhook hangs up before
responding to one event in a hundred: nothing is lost. %s

appliance      %s
               curl -H 'Authorization: Service apikey=%s' '%s/api/v1/detections?limit=1'
bridge         http://%s in a browser: the status page; and http://%s/readyz, http://%s/metrics
configuration  %s
log            %s, with every failed request
bus, NATS      %s, stream NDR, subjects ndr.>
soc, webhook   %s
chat, Slack    %s in a browser: cards of high-risk detections
tickets, Jira  curl -u %s:%s '%s/rest/api/3/issue/%s-1'
log, file      %s

dup: events that were delivered again; wait: objects that have not been delivered yet.
`, end, d.ApplianceURL, standin.DefaultAPIKey, d.ApplianceURL, admin, admin, admin, d.Config, d.Log, d.NATSURL, d.WebhookURL, d.ChatURL, jiraEmail, jiraToken, d.JiraURL, jiraProject, d.File))
}
