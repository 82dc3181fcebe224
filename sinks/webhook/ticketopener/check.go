package ticketopener

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"ndrbridge/internal/finding"
	"ndrbridge/sinks/webhook"
)

// checks returns none: an unknown system has no known request to check it.
func (generic) checks() []webhook.CheckRequest { return nil }

const checkAccount = "check auth: the account, and its API token or password"

// checks checks the account, the project with its issue types, and the
// permission to create issues.
func (j jira) checks() []webhook.CheckRequest {
	permissions := j.site.JoinPath("rest/api/3/mypermissions")
	permissions.RawQuery = url.Values{"projectKey": {j.Project}, "permissions": {"CREATE_ISSUES"}}.Encode()
	return []webhook.CheckRequest{
		{Step: "account", URL: j.site.JoinPath("rest/api/3/myself"), Judge: judgeAccount},
		{Step: "project " + j.Project, URL: j.site.JoinPath("rest/api/3/project", j.Project), Judge: j.judgeProject},
		{Step: "permission", URL: permissions, Judge: judgePermission},
	}
}

func judgeAccount(a webhook.Answer) finding.Finding {
	var reply struct{ DisplayName string }
	if f := a.Finding("", checkAccount); f.Result != finding.OK {
		return f
	}
	if json.Unmarshal(a.Body, &reply) != nil || reply.DisplayName == "" {
		return finding.Finding{Result: finding.Failed, Detail: "the server is not Jira", Advice: "check url"}
	}
	return finding.Finding{Result: finding.OK, Detail: "the account is " + a.Quote(reply.DisplayName)}
}

func (j jira) judgeProject(a webhook.Answer) finding.Finding {
	f := a.Finding("", "check ticket.project, and that the account has access to the project")
	if f.Result != finding.OK {
		return f
	}
	var reply struct {
		Name       string
		IssueTypes []struct{ Name string }
	}
	if err := json.Unmarshal(a.Body, &reply); err != nil {
		return finding.Finding{Result: finding.Failed, Detail: "the project cannot be read: " + a.Quote(err.Error()), Advice: "check url"}
	}
	var types []string
	for _, t := range reply.IssueTypes {
		types = append(types, t.Name)
	}
	if !slices.Contains(types, j.Type) {
		return finding.Finding{Result: finding.Failed, Detail: fmt.Sprintf("the project has no issues of type %s", j.Type), Advice: "set ticket.type to one of " + a.Quote(strings.Join(types, ", "))}
	}
	return finding.Finding{Result: finding.OK, Detail: "it has issues of type " + j.Type}
}

func judgePermission(a webhook.Answer) finding.Finding {
	f := a.Finding("", checkAccount)
	if f.Result != finding.OK {
		return f
	}
	var reply struct {
		Permissions map[string]struct{ HavePermission bool }
	}
	if json.Unmarshal(a.Body, &reply) == nil && reply.Permissions["CREATE_ISSUES"].HavePermission {
		return finding.Finding{Result: finding.OK, Detail: "the account may open issues"}
	}
	return finding.Finding{Result: finding.Failed, Detail: "the account may not open issues in the project", Advice: "grant it the permission Create issues there"}
}

// checks reads one record of the table. The Table API does not reveal whether
// the account could insert one.
func (s serviceNow) checks() []webhook.CheckRequest {
	target := *s.table
	target.RawQuery = url.Values{"sysparm_fields": {ticketColumns}, "sysparm_limit": {"1"}}.Encode()
	return []webhook.CheckRequest{{Step: "table " + s.Table, URL: &target, Judge: func(a webhook.Answer) finding.Finding {
		advice := checkAccount
		switch a.Status {
		case http.StatusForbidden:
			advice = "give the account a role that reads and writes the table, such as itil"
		case http.StatusNotFound, http.StatusBadRequest:
			advice = "check url and ticket.type"
		}
		return a.Finding("the account may read the table; whether it may insert shows with the first ticket", advice)
	}}}
}

// checks checks that the account may create tickets in the queue.
func (r requestTracker) checks() []webhook.CheckRequest {
	return []webhook.CheckRequest{
		{Step: "account", URL: r.resource("rt"), Judge: func(a webhook.Answer) finding.Finding {
			var reply struct{ Version string }
			f := a.Finding("the token is accepted", checkAccount)
			if f.Result == finding.OK && (json.Unmarshal(a.Body, &reply) != nil || reply.Version == "") {
				return finding.Finding{Result: finding.Failed, Detail: "the server is not Request Tracker", Advice: "check url"}
			}
			return f
		}},
		{Step: "queue " + r.Queue, URL: r.resource("queue", r.Queue), Judge: func(a webhook.Answer) finding.Finding {
			const grant = "check ticket.project, and grant the account the rights SeeQueue, ShowTicket, ShowTicketComments, CreateTicket, CommentOnTicket, ModifyTicket and OwnTicket in the queue"
			f := a.Finding("the account may create tickets", grant)
			var reply struct {
				Hyperlinks []struct{ Ref string } `json:"_hyperlinks"`
			}
			if f.Result == finding.OK && (json.Unmarshal(a.Body, &reply) != nil || !slices.Contains(reply.Hyperlinks, struct{ Ref string }{"create"})) {
				return finding.Finding{Result: finding.Failed, Detail: "the account may not create tickets in the queue", Advice: grant}
			}
			return f
		}},
	}
}

// checks checks the account, and the project with its trackers.
func (r redmine) checks() []webhook.CheckRequest {
	project := r.site.JoinPath("projects", r.Project+".json")
	project.RawQuery = url.Values{"include": {"trackers"}}.Encode()
	return []webhook.CheckRequest{
		{Step: "account", URL: r.site.JoinPath("users/current.json"), Judge: func(a webhook.Answer) finding.Finding {
			var reply struct{ User struct{ Login string } }
			f := a.Finding("", checkAccount+"; an administrator enables the REST API in the settings")
			switch {
			case f.Result != finding.OK:
				return f
			case json.Unmarshal(a.Body, &reply) != nil || reply.User.Login == "":
				return finding.Finding{Result: finding.Failed, Detail: "the server is not Redmine", Advice: "check url"}
			}
			return finding.Finding{Result: finding.OK, Detail: "the account is " + a.Quote(reply.User.Login)}
		}},
		{Step: "project " + r.Project, URL: project, Judge: r.judgeProject},
	}
}

func (r redmine) judgeProject(a webhook.Answer) finding.Finding {
	f := a.Finding("", "check ticket.project, and that the account is a member of the project")
	if f.Result != finding.OK {
		return f
	}
	var reply struct {
		Project struct {
			Trackers []struct {
				ID   int64
				Name string
			}
		}
	}
	if err := json.Unmarshal(a.Body, &reply); err != nil {
		return finding.Finding{Result: finding.Failed, Detail: "the project cannot be read: " + a.Quote(err.Error()), Advice: "check url"}
	}
	var trackers []string
	found := r.Tracker == ""
	for _, t := range reply.Project.Trackers {
		found = found || strconv.FormatInt(t.ID, 10) == r.Tracker
		trackers = append(trackers, fmt.Sprintf("%d (%s)", t.ID, t.Name))
	}
	if !found {
		return finding.Finding{Result: finding.Failed, Detail: "the project has no tracker " + r.Tracker, Advice: "set ticket.type to one of " + a.Quote(strings.Join(trackers, ", "))}
	}
	return finding.Finding{Result: finding.OK, Detail: "its trackers are " + a.Quote(strings.Join(trackers, ", "))}
}
