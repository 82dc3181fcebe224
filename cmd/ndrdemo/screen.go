package main

import (
	"encoding/json"
	"fmt"
	"io"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"ndrbridge/cmd/internal/terminal"
	standin "ndrbridge/test/appliance"
	"ndrbridge/transform"
)

// screen prints some of the events. It ignores write errors. It is safe for concurrent use.
type screen struct {
	out  io.Writer
	some *rate.Limiter

	mu sync.Mutex
}

// newScreen returns a screen that prints three events every two seconds.
func newScreen(out io.Writer) *screen { return &screen{out: out, some: rate.NewLimiter(1.5, 3)} }

// line prints a line.
func (s *screen) line(text string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	fmt.Fprintln(s.out, text)
}

// event prints an event, unless enough events were printed lately.
func (s *screen) event(e transform.Event) {
	if !s.some.Allow() {
		return
	}
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
	s.line(terminal.Printable(fmt.Sprintf("%s %-10s %-8s %-8s %s",
		e.Time.Local().Format(time.TimeOnly), e.Stream(), e.SeverityWord(), e.Action(), what)))
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
bridge         http://%s in a browser: the status page, with rates and lags; and http://%s/readyz, http://%s/metrics
configuration  %s
log            %s, with every failed request
bus, NATS      %s, stream NDR, subjects ndr.>
soc, webhook   %s
chat, Slack    %s in a browser: cards of high-risk detections
tickets, Jira  %s/browse/%s-1 in a browser: the first ticket
log, file      %s
`, end, d.ApplianceURL, standin.DefaultAPIKey, d.ApplianceURL, admin, admin, admin, d.Config, d.Log, d.NATSURL, d.WebhookURL, d.ChatURL, d.JiraURL, jiraProject, d.File))
}
