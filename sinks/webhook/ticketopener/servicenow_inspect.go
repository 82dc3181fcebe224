package ticketopener

import (
	"context"
	"maps"
	"net/url"
	"slices"
	"strings"

	"ndrbridge/internal/finding"
	"ndrbridge/sinks/webhook"
)

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
			i.names("moves", "follow.states", finding.Failed, f.moves(), label, all)
			i.names("keep_closed", "follow.keep_closed", finding.Failed, f.kept(), label, all)
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
		i.names("people", "follow.people", finding.Failed, f.People, func(id string) string { return names[id] }, nil)
	}
	return i.found
}
