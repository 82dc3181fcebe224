package ticketopener

import (
	"context"
	"encoding/json"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"ndrbridge/internal/finding"
	"ndrbridge/sinks/webhook"
)

func (j jira) inspect(ctx context.Context, c *webhook.Conversation, f *Follow) []finding.Finding {
	i := &inspection{ctx: ctx, c: c}
	j.inspectRights(i, f)
	typeID, ok := j.inspectStatuses(i, f)
	if ok && len(f.States) > 0 {
		j.inspectMoves(i, f, typeID)
	}
	if len(f.People) > 0 {
		j.inspectPeople(i, f)
	}
	return i.found
}

// inspectRights checks the permissions that following needs.
func (j jira) inspectRights(i *inspection, f *Follow) {
	keys := map[string]string{"Add comments": "ADD_COMMENTS", "Transition issues": "TRANSITION_ISSUES", "Assign issues": "ASSIGN_ISSUES"}
	var reply struct {
		Permissions map[string]struct{ HavePermission bool }
	}
	request := get(j.site.JoinPath("rest/api/3/mypermissions"), url.Values{
		"projectKey": {j.Project}, "permissions": {strings.Join(slices.Sorted(maps.Values(keys)), ",")},
	})
	if i.ask("rights", request, &reply, checkAccount) {
		i.rights(finding.Failed, map[string]bool{
			"Add comments": len(f.Comment) > 0, "Transition issues": len(f.States) > 0, "Assign issues": len(f.People) > 0,
		}, func(right string) bool { return reply.Permissions[keys[right]].HavePermission })
	}
}

// status is a status of a project.
type status struct{ ID, Name, StatusReference string }

func (s status) String() string { return s.Name + " (" + s.ID + ")" }

// inspectStatuses shows the statuses that issues may have.
func (j jira) inspectStatuses(i *inspection, f *Follow) (typeID string, ok bool) {
	var types []struct {
		ID, Name string
		Statuses []status
	}
	if !i.ask("states", get(j.site.JoinPath("rest/api/3/project", j.Project, "statuses"), nil), &types, "check ticket.project") {
		return "", false
	}
	var statuses []status
	var all []string
	for _, t := range types {
		if t.Name == j.Type {
			typeID, statuses = t.ID, t.Statuses
		}
	}
	for _, s := range statuses {
		all = append(all, s.String())
	}
	i.add("states", finding.OK, strings.Join(all, ", "), "")
	i.names("keep_closed", "follow.keep_closed", finding.Failed, f.kept(), func(name string) string {
		for _, s := range statuses {
			if s.Name == name {
				return s.String()
			}
		}
		return ""
	}, all)
	return typeID, true
}

// inspectMoves shows the transitions of the workflow, and which of them are configured.
func (j jira) inspectMoves(i *inspection, f *Follow, typeID string) {
	const step = "transitions"
	var project struct{ ID string }
	if !i.ask(step, get(j.site.JoinPath("rest/api/3/project", j.Project), nil), &project, "check ticket.project") {
		return
	}
	body, err := json.Marshal(map[string]any{"projectAndIssueTypes": []any{map[string]string{"projectId": project.ID, "issueTypeId": typeID}}})
	if err != nil {
		return // of texts
	}
	var reply struct {
		Statuses  []status
		Workflows []struct {
			Transitions []struct{ ID, Name, ToStatusReference string }
		}
	}
	if !i.ask(step, webhook.Request{Method: http.MethodPost, URL: j.site.JoinPath("rest/api/3/workflows"), Body: body}, &reply,
		"grant the account View read-only workflow in the project, or see the transitions of a ticket in ticket.conflict") {
		return
	}
	var offered []transition
	var all []string
	for _, w := range reply.Workflows {
		for _, t := range w.Transitions {
			o := transition{ID: t.ID, Name: t.Name}
			if to := slices.IndexFunc(reply.Statuses, func(s status) bool { return s.StatusReference == t.ToStatusReference }); to >= 0 {
				o.To.Name = reply.Statuses[to].Name
			}
			offered, all = append(offered, o), append(all, o.String())
		}
	}
	resolve := func(name string) string {
		if n := slices.IndexFunc(offered, func(t transition) bool { return t.is(name) }); n >= 0 {
			return offered[n].String()
		}
		return ""
	}
	i.names(step, "follow.states", finding.Failed, f.moves(), resolve, all)
}

// inspectPeople shows whose the configured accounts are.
func (j jira) inspectPeople(i *inspection, f *Follow) {
	var reply struct {
		Values []struct{ AccountID, DisplayName string }
	}
	accounts := slices.Sorted(maps.Values(f.People))
	if !i.ask("people", get(j.site.JoinPath("rest/api/3/user/bulk"), url.Values{"accountId": accounts, "maxResults": {"200"}}), &reply, checkAccount) {
		return
	}
	names := map[string]string{}
	for _, o := range reply.Values {
		names[o.AccountID] = o.DisplayName
	}
	i.names("people", "follow.people", finding.Failed, f.People, func(account string) string { return names[account] }, nil)
}
