package ticketopener

import (
	"cmp"
	"context"
	"encoding/json"
	"maps"
	"net/url"
	"slices"
	"strings"

	"ndrbridge/internal/finding"
	"ndrbridge/sinks/webhook"
)

func (r requestTracker) inspect(ctx context.Context, c *webhook.Conversation, f *Follow) []finding.Finding {
	i := &inspection{ctx: ctx, c: c}
	r.inspectTickets(i, f)
	if len(f.People) > 0 {
		r.inspectPeople(i, f)
	}
	return i.found
}

// inspectTickets shows the statuses of the queue's newest tickets, and what these offer the account: REST 2
// has no resource for lifecycles and rights.
func (r requestTracker) inspectTickets(i *inspection, f *Follow) {
	var reply struct {
		Items []struct {
			Status string
			Links  []struct{ Ref, From, To string } `json:"_hyperlinks"`
		}
	}
	const newest = "100" // the most that a page has
	queue := strings.NewReplacer(`\`, `\\`, `'`, `\'`).Replace(r.Queue)
	request := get(r.resource("tickets"), url.Values{
		"query": {"Queue = '" + queue + "'"}, "fields": {"Status,_hyperlinks"}, "orderby": {"id"}, "order": {"DESC"}, "per_page": {newest},
	})
	if !i.ask("states", request, &reply, "grant the account the right ShowTicket in the queue") {
		return
	}
	if len(reply.Items) == 0 {
		i.add("states", finding.Untried, "the account sees no ticket in the queue, and only tickets show their statuses", "check again after the first ticket")
		return
	}
	next, offered := map[string][]string{}, map[string]bool{}
	lead := func(from string, to ...string) { next[from] = append(next[from], to...) }
	for _, ticket := range reply.Items {
		lead(ticket.Status)
		for _, link := range ticket.Links {
			if offered[link.Ref] = true; link.Ref == "lifecycle" {
				lead(ticket.Status, link.To)
				lead(link.To)
			}
		}
	}
	offer := map[string]string{"CommentOnTicket": "comment", "ModifyTicket": "lifecycle"}
	i.rights(finding.Warning, map[string]bool{"CommentOnTicket": len(f.Comment) > 0, "ModifyTicket": len(f.States) > 0},
		func(right string) bool { return offered[offer[right]] })
	statuses := slices.Sorted(maps.Keys(next))
	var all []string
	for _, status := range statuses {
		if to := slices.Compact(slices.Sorted(slices.Values(next[status]))); len(to) > 0 {
			status += " (to " + strings.Join(to, ", ") + ")"
		}
		all = append(all, status)
	}
	i.add("states", finding.OK, strings.Join(all, ", "), "")
	known := func(status string) string {
		if _, ok := next[status]; ok {
			return status
		}
		return ""
	}
	i.names("moves", "follow.states", finding.Warning, f.moves(), known, statuses)
	i.names("keep_closed", "follow.keep_closed", finding.Warning, f.kept(), known, statuses)
}

// inspectPeople shows whose the configured names are.
func (r requestTracker) inspectPeople(i *inspection, f *Follow) {
	names := map[string]string{}
	const most = 50 // of one request, whose line is limited
	for chunk := range slices.Chunk(slices.Sorted(maps.Values(f.People)), most) {
		var query []map[string]string
		for _, name := range chunk {
			query = append(query, map[string]string{"field": "Name", "value": name})
		}
		encoded, err := json.Marshal(query)
		if err != nil {
			return // of texts
		}
		var reply struct {
			Items []struct{ ID, RealName string }
		}
		request := get(r.resource("users"), url.Values{"query": {string(encoded)}, "fields": {"RealName"}, "per_page": {"100"}})
		if !i.ask("people", request, &reply, checkAccount) {
			return
		}
		for _, user := range reply.Items {
			if !slices.ContainsFunc(chunk, func(name string) bool { return strings.EqualFold(name, user.ID) }) {
				i.add("people", finding.Untried, "the account may not search users by their names", "add Name to $UserSummaryExtraInfo in Request Tracker's configuration")
				return
			}
			names[user.ID] = cmp.Or(user.RealName, user.ID)
		}
	}
	i.names("people", "follow.people", finding.Failed, f.People, func(name string) string { return names[name] }, nil)
}
