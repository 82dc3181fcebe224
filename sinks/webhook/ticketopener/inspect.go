package ticketopener

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"ndrbridge/internal/finding"
	"ndrbridge/sinks/webhook"
)

// An inspector is a System that can be asked whether it has what following needs: rights of the
// account, and the states, transitions and people that are configured.
type inspector interface {
	inspect(ctx context.Context, c *webhook.Conversation, f *Follow) []finding.Finding
}

// inspection collects findings. Its requests change nothing.
type inspection struct {
	ctx   context.Context
	c     *webhook.Conversation
	found []finding.Finding
}

// add adds the finding of a step. If there is advice, it is not OK.
func (i *inspection) add(step string, result finding.Result, detail, advice string) {
	i.found = append(i.found, finding.Finding{Step: step, Result: result, Detail: i.c.Quote(detail), Advice: advice})
}

// ask sends a request and decodes the answer. If it cannot, that is the step's finding: not tried,
// because an account may follow tickets without the right to read what is asked.
func (i *inspection) ask(step string, r webhook.Request, answer any, advice string) bool {
	a, err := i.c.Do(i.ctx, r)
	if err != nil {
		i.add(step, finding.Untried, err.Error(), advice)
		return false
	}
	if f := a.Finding("", advice); f.Result != finding.OK {
		i.add(step, finding.Untried, f.Detail, f.Advice)
		return false
	}
	if err := json.Unmarshal(a.Body, answer); err != nil {
		i.add(step, finding.Untried, "the answer cannot be read: "+err.Error(), "check url")
		return false
	}
	return true
}

// get returns the request that reads an address.
func get(target *url.URL, query url.Values) webhook.Request {
	target.RawQuery = query.Encode()
	return webhook.Request{Method: http.MethodGet, URL: target}
}

// names adds the finding of configured names: what each is, if known knows it, or that all has none
// such.
func (i *inspection) names(step, key string, configured map[string]string, known func(string) string, all []string) {
	var is, missing []string
	for _, name := range slices.Sorted(maps.Keys(configured)) {
		if what := known(configured[name]); what != "" {
			is = append(is, name+": "+what)
		} else {
			missing = append(missing, fmt.Sprintf("%q (%s)", configured[name], name))
		}
	}
	switch {
	case len(missing) > 0:
		i.add(step, finding.Failed, "there is no "+strings.Join(missing, ", "), "correct "+key+i.c.Quote(oneOf(all)))
	case len(is) > 0:
		i.add(step, finding.OK, strings.Join(is, ", "), "")
	}
}

func oneOf(all []string) string {
	if len(all) == 0 {
		return ""
	}
	return "; there are " + strings.Join(all, ", ")
}

// moves are the configured moves: what they lead to by their status.
func (f *Follow) moves() map[string]string {
	to := map[string]string{}
	for status, m := range f.States {
		to[status] = m.To
	}
	return to
}

// kept are the statuses that are configured to stay, by numbers.
func (f *Follow) kept() map[string]string {
	all := map[string]string{}
	for n, status := range f.KeepClosed {
		all[fmt.Sprintf("keep_closed[%d]", n)] = status
	}
	return all
}

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
	var wants []string
	name := map[string]string{"ADD_COMMENTS": "Add comments", "TRANSITION_ISSUES": "Transition issues", "ASSIGN_ISSUES": "Assign issues"}
	for right, wanted := range map[string]bool{"ADD_COMMENTS": len(f.Comment) > 0, "TRANSITION_ISSUES": len(f.States) > 0, "ASSIGN_ISSUES": len(f.People) > 0} {
		if wanted {
			wants = append(wants, right)
		}
	}
	if slices.Sort(wants); len(wants) == 0 {
		return
	}
	var reply struct {
		Permissions map[string]struct{ HavePermission bool }
	}
	request := get(j.site.JoinPath("rest/api/3/mypermissions"), url.Values{"projectKey": {j.Project}, "permissions": {strings.Join(wants, ",")}})
	if !i.ask("rights", request, &reply, checkAccount) {
		return
	}
	var has, lacks []string
	for _, right := range wants {
		if reply.Permissions[right].HavePermission {
			has = append(has, name[right])
		} else {
			lacks = append(lacks, name[right])
		}
	}
	if len(lacks) > 0 {
		i.add("rights", finding.Failed, "the account lacks the permission "+strings.Join(lacks, ", "), "grant it that in the project, or leave out what needs it under follow")
		return
	}
	i.add("rights", finding.OK, "the account has the permission "+strings.Join(has, ", "), "")
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
	i.names("keep_closed", "follow.keep_closed", f.kept(), func(name string) string {
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
	i.names(step, "follow.states", f.moves(), resolve, all)
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
	i.names("people", "follow.people", f.People, func(account string) string { return names[account] }, nil)
}

func (s serviceNow) inspect(ctx context.Context, c *webhook.Conversation, f *Follow) []finding.Finding {
	i := &inspection{ctx: ctx, c: c}
	table := func(name, query, fields string) webhook.Request {
		return get(s.site.JoinPath("api/now/table", name), url.Values{
			"sysparm_query": {query}, "sysparm_fields": {fields}, "sysparm_limit": {"200"}, "sysparm_exclude_reference_link": {"true"},
		})
	}
	var roles struct {
		Result []struct {
			Role string `json:"role.name"`
		}
	}
	const needs = "it must read and write the table, and read sys_journal_field, as with itil"
	if i.ask("rights", table("sys_user_has_role", "user=javascript:gs.getUserID()^state=active", "role.name"), &roles, needs) {
		var names []string
		for _, r := range roles.Result {
			names = append(names, r.Role)
		}
		if slices.Sort(names); len(names) == 0 {
			i.add("rights", finding.Untried, "the account may not see its roles", needs)
		} else {
			i.add("rights", finding.OK, "the account has the roles "+strings.Join(names, ", "), "")
		}
	}
	var choices struct {
		Result []struct{ Name, Value, Label string }
	}
	if i.ask("states", table("sys_choice", "nameIN"+s.Table+",task^element=state^inactive=false^language=en", "name,value,label"), &choices, "see the choices of the column state") {
		of := "task" // a table without choices of its own has those of task
		if slices.ContainsFunc(choices.Result, func(c struct{ Name, Value, Label string }) bool { return c.Name == s.Table }) {
			of = s.Table
		}
		labels := map[string]string{}
		for _, o := range choices.Result {
			if o.Name == of {
				labels[o.Value] = o.Label + " (" + o.Value + ")"
			}
		}
		all := slices.Sorted(maps.Values(labels))
		if len(all) == 0 {
			i.add("states", finding.Untried, "the account may not see the choices of the column state", "let it read sys_choice")
		} else {
			i.add("states", finding.OK, strings.Join(all, ", "), "")
			label := func(value string) string { return labels[value] }
			i.names("moves", "follow.states", f.moves(), label, all)
			i.names("keep_closed", "follow.keep_closed", f.kept(), label, all)
		}
	}
	var users struct {
		Result []struct {
			SysID string `json:"sys_id"`
			Name  string `json:"name"`
		}
	}
	if len(f.People) > 0 && i.ask("people", table("sys_user", "sys_idIN"+strings.Join(slices.Sorted(maps.Values(f.People)), ","), "sys_id,name"), &users, checkAccount) {
		names := map[string]string{}
		for _, u := range users.Result {
			names[u.SysID] = u.Name
		}
		i.names("people", "follow.people", f.People, func(id string) string { return names[id] }, nil)
	}
	return i.found
}
