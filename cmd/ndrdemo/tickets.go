package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"ndrbridge/admin"
	"ndrbridge/checkpoint"
	"ndrbridge/test/jira"
	"ndrbridge/tickets"
)

// What the demo's Jira, and the bridge's configuration, know of each other.
const (
	jiraEmail, jiraToken = "bridge@corp.example", "demo"
	jiraSecret           = "demo"
	jiraProject          = "SEC"
	jiraAccount          = "ndrbridge"
	sinkTickets          = "tickets"
)

// project is a project in a Jira, with somebody who moves its issues to Done. It is
// an http.Handler from when it is opened.
type project struct{ site atomic.Pointer[jira.Server] }

// open lets the project send its webhooks to a bridge.
func (p *project) open(url, admin string) {
	p.site.Store(jira.New(jira.Options{
		URL: url, Email: jiraEmail, Token: jiraToken, Account: jiraAccount, Project: jiraProject,
		Webhook: "http://" + admin + "/api/v1/tickets/jira", Secret: jiraSecret, Now: time.Now,
	}))
}

// ServeHTTP is Jira's REST API.
func (p *project) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	p.site.Load().ServeHTTP(w, r)
}

// work moves issues to Done, each a while after it was opened, until ctx ends.
func (p *project) work(ctx context.Context) error {
	const aWhile = time.Second
	look := time.NewTicker(200 * time.Millisecond)
	defer look.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-look.C:
		}
		for n, i := range p.site.Load().Issues() {
			if i.Status.Category == "done" || time.Since(i.Created) < aWhile || ctx.Err() != nil {
				continue
			}
			resolution := []string{"Done", "Won't Do"}[n%2]
			// What was begun is told: nobody tells it again.
			if err := p.site.Load().Move(context.WithoutCancel(ctx), i.Key, "Done", resolution, "ada"); err != nil {
				return err
			}
		}
	}
}

// ticketCount is what became of tickets.
type ticketCount struct {
	opened int // issues
	twice  int // issues of detections that had one
	linked int // links of detections with their issues that were written
	closed int // issues that were moved to Done, and closed their detections
}

// counted returns what became of the tickets up to now, and whether nothing is under
// way: no event waits for the sink, and no command for the appliance.
func (p *project) counted(ctx context.Context, c admin.Control) (n ticketCount, quiet bool, err error) {
	status, err := c.Status(ctx)
	if err != nil {
		return n, false, err
	}
	for _, s := range status.Sinks {
		if s.Name == sinkTickets {
			quiet = s.LagEvents == 0
		}
	}
	waiting, err := c.Commands(ctx, checkpoint.CommandFilter{State: checkpoint.CommandPending}, 0, 1)
	if err != nil {
		return n, false, err
	}
	const most = 10_000
	applied, err := c.Commands(ctx, checkpoint.CommandFilter{State: checkpoint.CommandApplied}, 0, most)
	if err != nil {
		return n, false, err
	}
	for _, stored := range applied {
		var command tickets.Command
		if err := json.Unmarshal(stored.Body, &command); err != nil {
			return n, false, fmt.Errorf("ticket command %d: %w", stored.ID, err)
		}
		if command.DetectionID != 0 {
			n.linked++
		}
		if command.Status == "closed" {
			n.closed++
		}
	}
	labels := make(map[string]bool)
	for _, i := range p.site.Load().Issues() {
		n.opened++
		at := slices.IndexFunc(i.Labels, func(l string) bool { return strings.HasPrefix(l, "ndrbridge-") })
		if at < 0 || labels[i.Labels[at]] {
			n.twice++
			continue
		}
		labels[i.Labels[at]] = true
	}
	return n, quiet && len(waiting) == 0, nil
}
