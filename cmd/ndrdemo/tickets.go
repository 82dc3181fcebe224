package main

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"ndrbridge/checkpoint"
	"ndrbridge/internal/admin"
	"ndrbridge/internal/commands"
	"ndrbridge/test/jira"
)

// Names and credentials that the demo's Jira and the bridge's configuration share.
const (
	jiraEmail, jiraToken = "bridge@corp.example", "demo"
	jiraSecret           = "demo"
	jiraProject          = "SEC"
	jiraAccount          = "ndrbridge"
	sinkTickets          = "tickets"
)

// newJira returns a Jira with a URL, which sends its webhooks to the bridge with the admin
// address.
func newJira(url, admin string) *jira.Server {
	return jira.New(jira.Options{
		URL: url, Email: jiraEmail, Token: jiraToken, Account: jiraAccount, Project: jiraProject,
		Webhook: "http://" + admin + "/api/v1/tickets/jira", Secret: jiraSecret, Now: time.Now,
	})
}

// closeIssues moves each issue but the first, which has a story, to Done some time after it was
// opened, until ctx is cancelled.
func closeIssues(ctx context.Context, site *jira.Server) error {
	const aWhile = time.Second
	look := time.NewTicker(200 * time.Millisecond)
	defer look.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-look.C:
		}
		for n, i := range site.Issues() {
			if n == 0 || i.Status.Category == "done" || time.Since(i.Created) < aWhile || ctx.Err() != nil {
				continue
			}
			resolution := []string{"Done", "Won't Do"}[n%2]
			// Complete a move even if ctx is cancelled: its webhook is sent only once.
			if err := site.Move(context.WithoutCancel(ctx), i.Key, "Done", resolution, "ada"); err != nil {
				return err
			}
		}
	}
}

// ticketCount counts tickets by what happened to them.
type ticketCount struct {
	opened int    // issues
	twice  int    // issues for detections that already had one
	linked int    // detections that were linked to their issues
	closed int    // detections that were closed because their issues were moved to Done
	untold string // of the story of the first ticket: what did not happen
}

// countTickets returns the counts up to now. quiet reports whether nothing is in flight: no
// event is waiting for the tickets sink, no issue for closeIssues, and no command for the appliance.
func countTickets(ctx context.Context, c *admin.Client, site *jira.Server) (n ticketCount, quiet bool, err error) {
	status, err := c.Status(ctx)
	if err != nil {
		return n, false, err
	}
	for _, s := range status.Sinks {
		if s.Name == sinkTickets {
			quiet = s.LagEvents == 0
		}
	}
	waiting, err := admin.API.ListTicketCommands.Call(ctx, c, admin.CommandsRequest{Status: checkpoint.CommandPending, Limit: 1})
	if err != nil {
		return n, false, err
	}
	var applied []admin.TicketCommand
	for r := (admin.CommandsRequest{Status: checkpoint.CommandApplied, Limit: 1000}); ; {
		page, err := admin.API.ListTicketCommands.Call(ctx, c, r)
		if err != nil {
			return n, false, err
		}
		applied = append(applied, page.Commands...)
		if r.After = page.Next; r.After == 0 {
			break
		}
	}
	for _, stored := range applied {
		var command commands.Command
		if err := json.Unmarshal(stored.Command, &command); err != nil {
			return n, false, fmt.Errorf("ticket command %d: %w", stored.ID, err)
		}
		if command.DetectionID != 0 && command.Kind() == commands.KindTicket {
			n.linked++
		}
		if command.Status == "closed" {
			n.closed++
		}
	}
	labels := make(map[string]bool)
	for nth, i := range site.Issues() {
		n.opened++
		quiet = quiet && (nth == 0 || i.Status.Category == "done")
		at := slices.IndexFunc(i.Labels, func(l string) bool { return strings.HasPrefix(l, "ndrbridge-") })
		if at < 0 || labels[i.Labels[at]] {
			n.twice++
			continue
		}
		labels[i.Labels[at]] = true
	}
	return n, quiet && len(waiting.Commands) == 0, nil
}
