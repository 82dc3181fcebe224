package ticketopener_test

import (
	"testing"
	"time"

	"ndrbridge/internal/finding"
	"ndrbridge/sinks/webhook"
	"ndrbridge/sinks/webhook/ticketopener"
	"ndrbridge/test/jira"
	"ndrbridge/test/presettest"
	"ndrbridge/test/servicenow"
)

func TestChecks(t *testing.T) {
	toJira := func(project, kind string) func(string) (*webhook.Preset, error) {
		return func(url string) (*webhook.Preset, error) {
			system, err := ticketopener.NewJira(ticketopener.JiraOptions{URL: url, Project: project, Type: kind})
			return ticketopener.New(ticketopener.Options{System: system, Now: time.Now}), err
		}
	}
	toServiceNow := func(table string) func(string) (*webhook.Preset, error) {
		return func(url string) (*webhook.Preset, error) {
			system, err := ticketopener.NewServiceNow(ticketopener.ServiceNowOptions{URL: url, Table: table})
			return ticketopener.New(ticketopener.Options{System: system, Now: time.Now}), err
		}
	}
	acceptor := jira.New(jira.Options{Email: "ana", Token: presettest.CheckKey, Project: "SEC", Now: time.Now})
	readOnly := jira.New(jira.Options{Email: "ana", Token: presettest.CheckKey, Project: "SEC", ReadOnly: true, Now: time.Now})
	now := servicenow.New(servicenow.Options{Username: "ana", Password: presettest.CheckKey, Now: time.Now})
	presettest.Checks(t, []presettest.CheckTest{
		{Name: "jira, an account that may open issues", Server: acceptor, Open: toJira("SEC", "Task"), Password: presettest.CheckKey, Want: presettest.Row("permission", finding.OK, "may open", "")},
		{Name: "jira, a wrong token", Server: acceptor, Open: toJira("SEC", "Task"), Password: "wrong-token", Want: presettest.Row("account", finding.Failed, "401", "check auth")},
		{Name: "jira, another project", Server: acceptor, Open: toJira("OPS", "Task"), Password: presettest.CheckKey, Want: presettest.Row("project OPS", finding.Failed, "404", "ticket.project")},
		{Name: "jira, a type that the project lacks", Server: acceptor, Open: toJira("SEC", "Epic"), Password: presettest.CheckKey, Want: presettest.Row("project SEC", finding.Failed, "type Epic", "Task, Bug")},
		{Name: "jira, an account that only reads", Server: readOnly, Open: toJira("SEC", "Task"), Password: presettest.CheckKey, Want: presettest.Row("permission", finding.Failed, "may not open", "Create issues")},
		{Name: "servicenow, an account that may read", Server: now, Open: toServiceNow("incident"), Password: presettest.CheckKey, Want: presettest.Row("table incident", finding.OK, "may read", "")},
		{Name: "servicenow, a wrong password", Server: now, Open: toServiceNow("incident"), Password: "wrong-password", Want: presettest.Row("table incident", finding.Failed, "401", "check auth")},
		{Name: "servicenow, a table that is not there", Server: now, Open: toServiceNow("nothing"), Password: presettest.CheckKey, Want: presettest.Row("table nothing", finding.Failed, "404", "ticket.type")},
	})
}
