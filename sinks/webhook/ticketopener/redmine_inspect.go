package ticketopener

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"ndrbridge/internal/finding"
	"ndrbridge/sinks/webhook"
)

func (r redmine) inspect(ctx context.Context, c *webhook.Conversation, f *Follow) []finding.Finding {
	i := &inspection{ctx: ctx, c: c}
	r.inspectRights(i, f)
	r.inspectStatuses(i, f)
	if len(f.People) > 0 {
		r.inspectPeople(i, f)
	}
	return i.found
}

// inspectRights checks the permissions of the account's roles in the project.
func (r redmine) inspectRights(i *inspection, f *Follow) {
	const step = "rights"
	var of struct{ Project redmineName }
	var account struct {
		User struct {
			Admin       bool
			Memberships []struct {
				Project redmineName
				Roles   []redmineName
			}
		}
	}
	if !i.ask(step, get(r.site.JoinPath("projects", r.Project+".json"), nil), &of, "check ticket.project") ||
		!i.ask(step, get(r.site.JoinPath("users/current.json"), url.Values{"include": {"memberships"}}), &account, checkAccount) {
		return
	}
	if account.User.Admin {
		i.add(step, finding.OK, "the account is that of an administrator, who has every permission", "")
		return
	}
	roles := map[string]bool{} // by id; one that is also a group's comes twice
	for _, m := range account.User.Memberships {
		for _, role := range m.Roles {
			if m.Project.ID == of.Project.ID {
				roles[role.id()] = true
			}
		}
	}
	if len(roles) == 0 {
		i.add(step, finding.Untried, "the account is not a member of the project, and what others may do is not shown", "make it a member with a role that may view, add and edit issues, and add notes")
		return
	}
	const most = 10
	has := map[string]bool{}
	for _, id := range slices.Sorted(maps.Keys(roles))[:min(len(roles), most)] {
		var reply struct {
			Role struct{ Permissions []string }
		}
		if !i.ask(step, get(r.site.JoinPath("roles", id+".json"), nil), &reply, checkAccount) {
			return
		}
		for _, permission := range reply.Role.Permissions {
			has[permission] = true
		}
	}
	keys := map[string]string{"View issues": "view_issues", "Add issues": "add_issues", "Edit issues": "edit_issues", "Add notes": "add_issue_notes"}
	has["edit_issues"] = has["edit_issues"] || has["edit_own_issues"] // those that the bridge opened
	i.rights(finding.Failed, map[string]bool{
		"View issues": true, "Add issues": true, "Edit issues": len(f.States)+len(f.People) > 0, "Add notes": len(f.Comment) > 0,
	}, func(right string) bool { return has[keys[right]] })
}

// inspectStatuses shows all statuses, and which of them the newest issue may get: a workflow may allow fewer.
func (r redmine) inspectStatuses(i *inspection, f *Follow) {
	var reply struct {
		Statuses []redmineName `json:"issue_statuses"`
	}
	if !i.ask("states", get(r.site.JoinPath("issue_statuses.json"), nil), &reply, checkAccount) {
		return
	}
	all := redmineNames(reply.Statuses)
	i.add("states", finding.OK, strings.Join(all, ", "), "")
	first := func(is func(redmineName) bool) string {
		if n := slices.IndexFunc(reply.Statuses, is); n >= 0 {
			return all[n]
		}
		return ""
	}
	i.names("moves", "follow.states", finding.Failed, f.moves(), func(to string) string {
		return first(func(s redmineName) bool { return s.is(to) })
	}, all)
	i.names("keep_closed", "follow.keep_closed", finding.Failed, f.kept(), func(status string) string {
		return first(func(s redmineName) bool { return s.Name == status })
	}, all)
	const step = "transitions"
	var newest struct{ Issues []redmineIssue }
	query := url.Values{"project_id": {r.Project}, "status_id": {"*"}, "sort": {"id:desc"}, "limit": {"1"}}
	if len(f.States) == 0 || !i.ask(step, get(r.site.JoinPath("issues.json"), query), &newest, "check ticket.project") || len(newest.Issues) == 0 {
		return
	}
	issue, err := r.get(i.ctx, i.c, r.ticket(newest.Issues[0]), "allowed_statuses")
	if err != nil {
		i.add(step, finding.Untried, err.Error(), checkAccount)
		return
	}
	i.add(step, finding.OK, fmt.Sprintf("issue %d is %s and may be %s", issue.ID, issue.Status.Name, strings.Join(redmineNames(issue.AllowedStatuses), ", ")), "")
}

// inspectPeople shows whose the configured ids are. An issue can be assigned to members of the project.
func (r redmine) inspectPeople(i *inspection, f *Follow) {
	const most, pages = 100, 10
	names, missing := map[string]string{}, finding.Warning
	var all []string
	for page := range pages {
		var reply struct {
			Memberships []struct{ User, Group redmineName }
		}
		query := url.Values{"limit": {strconv.Itoa(most)}, "offset": {strconv.Itoa(page * most)}}
		if !i.ask("people", get(r.site.JoinPath("projects", r.Project, "memberships.json"), query), &reply, checkAccount) {
			return
		}
		for _, m := range reply.Memberships {
			who := cmp.Or(m.User, m.Group)
			names[who.id()] = cmp.Or(who.Name, "?")
			all = append(all, who.String())
		}
		if len(reply.Memberships) < most {
			missing = finding.Failed
			break
		}
	}
	i.names("people", "follow.people", missing, f.People, func(id string) string { return names[id] }, all)
}
