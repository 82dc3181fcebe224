package ticket

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"ndrbridge/preflight"
	"ndrbridge/sinks/webhook"
)

var _ webhook.Asking = (*Preset)(nil)

// Questions are those of the ticket system.
func (p *Preset) Questions() []webhook.Question { return p.o.System.questions() }

// questions is none: a system of a template has no words for them.
func (*Generic) questions() []webhook.Question { return nil }

const checkAccount = "check auth: the account, and its API token or password"

// questions ask who the account is, for the project with its types of issues, and
// whether the account may make one.
func (j *Jira) questions() []webhook.Question {
	permissions := j.site.JoinPath("rest/api/3/mypermissions")
	permissions.RawQuery = url.Values{"projectKey": {j.o.Project}, "permissions": {"CREATE_ISSUES"}}.Encode()
	return []webhook.Question{
		{Step: "account", URL: j.site.JoinPath("rest/api/3/myself"), Judge: judgeAccount},
		{Step: "project " + j.o.Project, URL: j.site.JoinPath("rest/api/3/project", j.o.Project), Judge: j.judgeProject},
		{Step: "permission", URL: permissions, Judge: judgePermission},
	}
}

func judgeAccount(a webhook.Answer) preflight.Finding {
	var said struct{ DisplayName string }
	if f := a.Finding("", checkAccount); f.Result != preflight.OK {
		return f
	}
	if json.Unmarshal(a.Body, &said) != nil || said.DisplayName == "" {
		return preflight.Finding{Result: preflight.Failed, Detail: "what answers is no Jira", Advice: "check url"}
	}
	return preflight.Finding{Result: preflight.OK, Detail: "the account is " + said.DisplayName}
}

func (j *Jira) judgeProject(a webhook.Answer) preflight.Finding {
	f := a.Finding("", "see ticket.project, and whether the account may see that project")
	if f.Result != preflight.OK {
		return f
	}
	var said struct {
		Name       string
		IssueTypes []struct{ Name string }
	}
	if err := json.Unmarshal(a.Body, &said); err != nil {
		return preflight.Finding{Result: preflight.Failed, Detail: "the project cannot be read: " + err.Error(), Advice: "check url"}
	}
	var types []string
	for _, t := range said.IssueTypes {
		types = append(types, t.Name)
	}
	if !slices.Contains(types, j.o.Type) {
		return preflight.Finding{Result: preflight.Failed, Detail: fmt.Sprintf("the project has no issues of type %s", j.o.Type), Advice: "set ticket.type to one of " + strings.Join(types, ", ")}
	}
	return preflight.Finding{Result: preflight.OK, Detail: "it has issues of type " + j.o.Type}
}

func judgePermission(a webhook.Answer) preflight.Finding {
	f := a.Finding("", checkAccount)
	if f.Result != preflight.OK {
		return f
	}
	var said struct {
		Permissions map[string]struct{ HavePermission bool }
	}
	if json.Unmarshal(a.Body, &said) == nil && said.Permissions["CREATE_ISSUES"].HavePermission {
		return preflight.Finding{Result: preflight.OK, Detail: "the account may open issues"}
	}
	return preflight.Finding{Result: preflight.Failed, Detail: "the account may not open issues in the project", Advice: "give it the permission Create issues there"}
}

// questions ask for one record of the table. The Table API does not tell whether one
// could be inserted.
func (s *ServiceNow) questions() []webhook.Question {
	to := *s.table
	to.RawQuery = url.Values{"sysparm_fields": {shown}, "sysparm_limit": {"1"}}.Encode()
	return []webhook.Question{{Step: "table " + s.o.Table, URL: &to, Judge: func(a webhook.Answer) preflight.Finding {
		advice := checkAccount
		switch a.Status {
		case http.StatusForbidden:
			advice = "give the account a role that reads and writes the table, such as itil"
		case http.StatusNotFound, http.StatusBadRequest:
			advice = "see url and ticket.type"
		}
		return a.Finding("the account may read it; whether it may insert is known at the first ticket", advice)
	}}}
}
