package ticketopener_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"ndrbridge/internal/failure"
	"ndrbridge/internal/finding"
	"ndrbridge/sinks"
	"ndrbridge/sinks/webhook"
	"ndrbridge/sinks/webhook/ticketopener"
	"ndrbridge/test/assert"
	"ndrbridge/test/jira"
	"ndrbridge/test/presettest"
	"ndrbridge/test/redmine"
	"ndrbridge/test/require"
	"ndrbridge/test/rt"
	"ndrbridge/test/servicenow"
	"ndrbridge/test/ticketserver"
	"ndrbridge/transform"
)

// bare opens tickets without looking for them, since it has no memory.
func bare(s ticketopener.System) *webhook.Preset {
	return ticketopener.New(ticketopener.Options{System: s, SearchDelay: time.Minute, Now: time.Now})
}

func TestEveryShapeOfADetectionIsAccepted(t *testing.T) {
	eachTool(t, func(t *testing.T, o *tool) {
		for _, kind := range presettest.Events(t) {
			if !kind.Event.MayOpen() {
				continue
			}
			t.Run(kind.Name, func(t *testing.T) {
				a := kind.Event.Attributes
				data := strings.NewReplacer(`"ticket_id": 3041`, `"ticket_id": null`, `"ticket_id":3041`, `"ticket_id":null`, `"ticket_id": "SEC-17"`, `"ticket_id": ""`).Replace(string(kind.Event.Data()))
				e := require.Value(transform.New(a, []byte(data)))(t)
				before := len(o.opened())
				assert.NoError(t, newTicketSink(t, o).send(t, e))
				if kind.Name == "detection-created" && len(o.opened()) != before+1 {
					t.Errorf("%d tickets, before %d", len(o.opened()), before)
				}
				request := require.Value(bare(o.system).Compose([]transform.Event{e}))(t)
				presettest.Golden(t, o.name+"-"+kind.Name, request.Body)
			})
		}
		t.Run("hostile and too long", func(t *testing.T) {
			e := version(t, 99, 0, "new")
			title := strings.Repeat(`{code}\"\n\u0000@all <b>🦊`, 400)
			e, err := transform.New(e.Attributes, []byte(`{"detection": {"id": 99, "mod_time": 1, "title": "`+title+`", "description": "`+title+`", "risk_score": 99}}`))
			require.NoError(t, err)
			assert.NoError(t, newTicketSink(t, o).send(t, e))
		})
	})
}

func TestAnswers(t *testing.T) {
	event := version(t, 7, 0, "new")
	jira := func(url string) ticketopener.System {
		s := require.Value(ticketopener.NewJira(ticketopener.JiraOptions{URL: url, Project: "SEC", Type: "Task"}))(t)
		return s
	}
	servicenow := func(url string) ticketopener.System {
		s := require.Value(ticketopener.NewServiceNow(ticketopener.ServiceNowOptions{URL: url, Table: "incident"}))(t)
		return s
	}
	rt := func(url string) ticketopener.System {
		s := require.Value(ticketopener.NewRT(ticketopener.RTOptions{URL: url, Queue: "SOC"}))(t)
		return s
	}
	redmine := func(url string) ticketopener.System {
		s := require.Value(ticketopener.NewRedmine(ticketopener.RedmineOptions{URL: url, Project: "soc"}))(t)
		return s
	}
	generic := func(url string) ticketopener.System { return newGeneric(t, url, `{}`, url+"/tickets") }
	const ok = http.StatusOK
	for _, c := range []struct {
		name           string
		system         func(string) ticketopener.System
		search, answer presettest.Reply // the answer is that to what opens a ticket
		class          failure.Class
		wait           time.Duration
		says           string
	}{
		{"jira: the token is wrong", jira, presettest.Reply{Status: 401}, presettest.Reply{}, failure.Halted, 0, "check the credentials"},
		{"jira: the account may not search", jira, presettest.Reply{Status: 403}, presettest.Reply{}, failure.Halted, 0, "check the credentials"},
		{"jira: the site does not exist", jira, presettest.Reply{Status: 404}, presettest.Reply{}, failure.Halted, 0, "check url"},
		{"jira: the project cannot be seen", jira, presettest.Reply{Status: 400, Body: `{"errorMessages": ["The value 'SEC' does not exist for the field 'project'."]}`}, presettest.Reply{}, failure.Halted, 0, "does not exist"},
		{"jira: a search is answered by a login page", jira, presettest.Reply{Status: ok, Body: "<html>"}, presettest.Reply{}, failure.Halted, 0, "HTML page"},
		{"jira: a search is answered by something else", jira, presettest.Reply{Status: ok, Body: `{}`}, presettest.Reply{}, failure.Halted, 0, "no issues"},
		{"jira: it throttles", jira, presettest.Reply{Status: 429, Header: map[string]string{"Retry-After": "7"}}, presettest.Reply{}, failure.Throttled, 7 * time.Second, ""},
		{"jira: it is down", jira, presettest.Reply{Status: 502}, presettest.Reply{}, failure.Transient, 0, ""},
		{"jira: it refuses the text", jira, presettest.Reply{Status: ok, Body: `{"issues": []}`}, presettest.Reply{Status: 400, Body: `{"errors": {"summary": "it is too long"}}`}, failure.Rejected, 0, "summary"},
		{"jira: a field is required that is not set", jira, presettest.Reply{Status: ok, Body: `{"issues": []}`}, presettest.Reply{Status: 400, Body: `{"errors": {"customfield_10041": "Team is required."}}`}, failure.Rejected, 0, "customfield_10041"},
		{"jira: the type does not exist", jira, presettest.Reply{Status: ok, Body: `{"issues": []}`}, presettest.Reply{Status: 400, Body: `{"errors": {"issuetype": "Specify a valid issue type"}}`}, failure.Halted, 0, "issuetype"},
		{"jira: the account may not create", jira, presettest.Reply{Status: ok, Body: `{"issues": []}`}, presettest.Reply{Status: 403}, failure.Halted, 0, ""},
		{"jira: an issue without a key", jira, presettest.Reply{Status: ok, Body: `{"issues": []}`}, presettest.Reply{Status: 201, Body: `{}`}, failure.Transient, 0, "contains no ticket id"},
		{"servicenow: the password is wrong", servicenow, presettest.Reply{Status: 401}, presettest.Reply{}, failure.Halted, 0, ""},
		{"servicenow: the table does not exist", servicenow, presettest.Reply{Status: 400, Body: `{"error": {"message": "Invalid table incidents"}}`}, presettest.Reply{}, failure.Halted, 0, "Invalid table"},
		{"servicenow: the query is not understood, and shows all", servicenow, presettest.Reply{Status: ok, Body: `{"result": [{"number": "INC1", "correlation_id": ""}]}`}, presettest.Reply{}, failure.Halted, 0, "correlation_id"},
		{"servicenow: a data policy refuses the record", servicenow, presettest.Reply{Status: ok, Body: `{"result": []}`}, presettest.Reply{Status: 403, Body: `{"error": {"detail": "Data Policy Exception"}}`}, failure.Halted, 0, "Data Policy"},
		{"servicenow: it refuses the record", servicenow, presettest.Reply{Status: ok, Body: `{"result": []}`}, presettest.Reply{Status: 400}, failure.Rejected, 0, ""},
		{"servicenow: it sleeps", servicenow, presettest.Reply{Status: ok, Body: "<html>Your instance is hibernating</html>"}, presettest.Reply{}, failure.Halted, 0, "hibernating"},
		{"rt: the token is wrong", rt, presettest.Reply{Status: 401}, presettest.Reply{}, failure.Halted, 0, "check the credentials"},
		{"rt: a search is answered by something else", rt, presettest.Reply{Status: ok, Body: `{"tickets": []}`}, presettest.Reply{}, failure.Halted, 0, "no items"},
		{"rt: it does not understand the search", rt, presettest.Reply{Status: 400, Body: `{"message": "Unknown field: RefersTo"}`}, presettest.Reply{}, failure.Halted, 0, "Unknown field"},
		{"rt: the queue does not exist", rt, presettest.Reply{Status: ok, Body: `{"items": []}`}, presettest.Reply{Status: 403, Body: `{"message": "No permission to create tickets in the queue 'SOC'"}`}, failure.Halted, 0, "queue 'SOC'"},
		{"rt: it creates a ticket without an id", rt, presettest.Reply{Status: ok, Body: `{"items": []}`}, presettest.Reply{Status: 201, Body: `{}`}, failure.Transient, 0, "no ticket id"},
		{"redmine: the key is wrong, or the REST API disabled", redmine, presettest.Reply{Status: 401}, presettest.Reply{}, failure.Halted, 0, "check the credentials"},
		{"redmine: the project does not exist", redmine, presettest.Reply{Status: 404}, presettest.Reply{}, failure.Halted, 0, "check url"},
		{"redmine: it does not know the filter", redmine, presettest.Reply{Status: ok, Body: `{"issues": [{"id": 1, "description": "another"}]}`}, presettest.Reply{}, failure.Halted, 0, "description"},
		{"redmine: a field is required that is not set", redmine, presettest.Reply{Status: ok, Body: `{"issues": []}`}, presettest.Reply{Status: 422, Body: `{"errors": ["Team cannot be blank"]}`}, failure.Rejected, 0, "Team"},
		{"redmine: it creates an issue without an id", redmine, presettest.Reply{Status: ok, Body: `{"issues": []}`}, presettest.Reply{Status: 201, Body: `{}`}, failure.Transient, 0, "no ticket id"},
		{"generic: 404 says that there is none", generic, presettest.Reply{Status: 404}, presettest.Reply{Status: 201, Body: `{"ticket": {"number": "A-1"}}`}, "", 0, ""},
		{"generic: no id says that there is none", generic, presettest.Reply{Status: ok, Body: `{"tickets": []}`}, presettest.Reply{Status: 201, Body: `{"ticket": {"number": 12}}`}, "", 0, ""},
		{"generic: it opens a ticket without an id", generic, presettest.Reply{Status: 404}, presettest.Reply{Status: 201, Body: `{"ticket": {}}`}, failure.Transient, 0, "ticket.number"},
		{"generic: it refuses the body", generic, presettest.Reply{Status: 404}, presettest.Reply{Status: 422, Body: `"no"`}, failure.Rejected, 0, ""},
		{"generic: the address of the search is elsewhere", func(url string) ticketopener.System {
			return newGeneric(t, url, `{}`, "https://elsewhere.example/tickets")
		}, presettest.Reply{}, presettest.Reply{}, failure.Halted, 0, "scheme and host of url"},
		{"generic: the address of the search is none for this event", func(url string) ticketopener.System {
			return newGeneric(t, url, `{}`, url+`/tickets/%{{.detection.title}}`)
		}, presettest.Reply{}, presettest.Reply{}, failure.Rejected, 0, "urlquery"},
	} {
		t.Run(c.name, func(t *testing.T) {
			asked := 0
			s := presettest.Serve(t, func(presettest.Request) presettest.Reply {
				if asked++; asked == 1 {
					return c.search
				}
				return c.answer
			})
			p := ticketopener.New(ticketopener.Options{System: c.system(s.URL), SearchDelay: time.Minute, Now: time.Now})
			err := presettest.SendWithMemory(t, s.URL, p, presettest.Memory(t), event)
			class, wait := presettest.Result(err)
			assert.True(t, class == c.class && wait == c.wait, class, "wait", wait, err)
			assert.True(t, err == nil || strings.Contains(err.Error(), c.says), err, "does not say", c.says)
		})
	}
}

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
	toRT := func(queue string) func(string) (*webhook.Preset, error) {
		return func(url string) (*webhook.Preset, error) {
			system, err := ticketopener.NewRT(ticketopener.RTOptions{URL: url, Queue: queue})
			return ticketopener.New(ticketopener.Options{System: system, Now: time.Now}), err
		}
	}
	toRedmine := func(project, tracker string) func(string) (*webhook.Preset, error) {
		return func(url string) (*webhook.Preset, error) {
			system, err := ticketopener.NewRedmine(ticketopener.RedmineOptions{URL: url, Project: project, Tracker: tracker})
			return ticketopener.New(ticketopener.Options{System: system, Now: time.Now}), err
		}
	}
	tracker := rt.New(rt.Options{Token: presettest.CheckKey, Queue: "SOC", Now: time.Now})
	readsOnly := rt.New(rt.Options{Token: presettest.CheckKey, Queue: "SOC", ReadOnly: true, Now: time.Now})
	mine := redmine.New(redmine.Options{Key: presettest.CheckKey, Project: "soc", Now: time.Now})
	another := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { presettest.JSON(w, http.StatusOK, `{}`) })
	presettest.Checks(t, []presettest.CheckTest{
		{Name: "rt, an account that may create tickets", Server: tracker, Open: toRT("SOC"), Password: presettest.CheckKey, Want: presettest.Row("queue SOC", finding.OK, "may create", "")},
		{Name: "rt, a wrong token", Server: tracker, Open: toRT("SOC"), Password: "wrong-token", Want: presettest.Row("account", finding.Failed, "401", "check auth")},
		{Name: "rt, another server", Server: another, Open: toRT("SOC"), Password: presettest.CheckKey, Want: presettest.Row("account", finding.Failed, "not Request Tracker", "check url")},
		{Name: "rt, a queue that the account may not see", Server: tracker, Open: toRT("NOC"), Password: presettest.CheckKey, Want: presettest.Row("queue NOC", finding.Failed, "403", "SeeQueue")},
		{Name: "rt, an account that only reads", Server: readsOnly, Open: toRT("SOC"), Password: presettest.CheckKey, Want: presettest.Row("queue SOC", finding.Failed, "may not create", "CreateTicket")},
		{Name: "redmine, a member of the project", Server: mine, Open: toRedmine("soc", "3"), Password: presettest.CheckKey, Want: presettest.Row("project soc", finding.OK, "1 (Bug), 3 (Support)", "")},
		{Name: "redmine, another server", Server: another, Open: toRedmine("soc", ""), Password: presettest.CheckKey, Want: presettest.Row("account", finding.Failed, "not Redmine", "check url")},
		{Name: "redmine, a wrong key", Server: mine, Open: toRedmine("soc", ""), Password: "wrong-key", Want: presettest.Row("account", finding.Failed, "401", "REST API")},
		{Name: "redmine, another project", Server: mine, Open: toRedmine("noc", ""), Password: presettest.CheckKey, Want: presettest.Row("project noc", finding.Failed, "404", "ticket.project")},
		{Name: "redmine, a tracker that the project lacks", Server: mine, Open: toRedmine("soc", "2"), Password: presettest.CheckKey, Want: presettest.Row("project soc", finding.Failed, "no tracker 2", "1 (Bug)")},
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

// A check shows what following needs, by the names that people know, and what is configured but
// missing.
func TestChecksOfWhatFollows(t *testing.T) {
	follow := func(change func(f *ticketopener.Follow)) *ticketopener.Follow {
		f := &ticketopener.Follow{Comment: []string{"status"}, People: map[string]string{"ana": "a-1"}, KeepClosed: []string{"Won't Do"}, States: map[string]ticketopener.Move{
			"closed": {To: "31"}, "reopened": {To: "to do"},
		}}
		change(f)
		return f
	}
	toJira := func(change func(f *ticketopener.Follow)) func(string) (*webhook.Preset, error) {
		return func(url string) (*webhook.Preset, error) {
			system, err := ticketopener.NewJira(ticketopener.JiraOptions{URL: url, Project: "SEC", Type: "Task"})
			return ticketopener.New(ticketopener.Options{System: system, Follow: follow(change), Now: time.Now}), err
		}
	}
	toServiceNow := func(change func(f *ticketopener.Follow)) func(string) (*webhook.Preset, error) {
		return func(url string) (*webhook.Preset, error) {
			system, err := ticketopener.NewServiceNow(ticketopener.ServiceNowOptions{URL: url, Table: "incident"})
			return ticketopener.New(ticketopener.Options{System: system, Now: time.Now, Follow: follow(func(f *ticketopener.Follow) {
				f.States = map[string]ticketopener.Move{"closed": {To: "6"}, "reopened": {To: "2"}}
				f.KeepClosed, f.People = []string{"8"}, map[string]string{"ana": "u-1"}
				change(f)
			})}), err
		}
	}
	toRT := func(change func(f *ticketopener.Follow)) func(string) (*webhook.Preset, error) {
		return func(url string) (*webhook.Preset, error) {
			system, err := ticketopener.NewRT(ticketopener.RTOptions{URL: url, Queue: `Bob's \SOC`})
			return ticketopener.New(ticketopener.Options{System: system, Now: time.Now, Follow: follow(func(f *ticketopener.Follow) {
				f.States = map[string]ticketopener.Move{"closed": {To: "resolved"}, "reopened": {To: "open"}}
				f.KeepClosed, f.People = []string{"rejected"}, map[string]string{"ana": "ana", "ben": "ben"}
				change(f)
			})}), err
		}
	}
	queue := func(o rt.Options, statuses ...string) http.Handler {
		o.Token, o.Queue, o.Now = presettest.CheckKey, `Bob's \SOC`, time.Now
		s := rt.New(o)
		for _, status := range statuses {
			s.Change(s.Open(ticketserver.Ticket{}).ID, func(t *ticketserver.Ticket) { t.Status = status })
		}
		return s
	}
	toRedmine := func(change func(f *ticketopener.Follow)) func(string) (*webhook.Preset, error) {
		return func(url string) (*webhook.Preset, error) {
			system, err := ticketopener.NewRedmine(ticketopener.RedmineOptions{URL: url, Project: "soc"})
			return ticketopener.New(ticketopener.Options{System: system, Now: time.Now, Follow: follow(func(f *ticketopener.Follow) {
				f.States = map[string]ticketopener.Move{"closed": {To: "closed"}, "reopened": {To: "2"}}
				f.KeepClosed, f.People = []string{"Rejected"}, map[string]string{"ana": "6", "all": "10"}
				change(f)
			})}), err
		}
	}
	project := func(o redmine.Options) http.Handler {
		o.Key, o.Project, o.Now = presettest.CheckKey, "soc", time.Now
		s := redmine.New(o)
		s.Change(s.Open(ticketserver.Ticket{}).ID, func(t *ticketserver.Ticket) { t.Status = "Feedback" })
		return s
	}
	asIs := func(*ticketopener.Follow) {}
	server := func(change func(o *jira.Options)) http.Handler {
		o := jira.Options{Email: "ana", Token: presettest.CheckKey, Project: "SEC", Now: time.Now}
		change(&o)
		return jira.New(o)
	}
	site := server(func(*jira.Options) {})
	instance := servicenow.New(servicenow.Options{Username: "ana", Password: presettest.CheckKey, Roles: []string{"itil", "snc_internal"}, Now: time.Now})
	silent := servicenow.New(servicenow.Options{Username: "ana", Password: presettest.CheckKey, Now: time.Now})
	var tests []presettest.CheckTest
	add := func(name string, server http.Handler, open func(string) (*webhook.Preset, error), step string, result finding.Result, detail, advice string) {
		tests = append(tests, presettest.CheckTest{Name: name, Server: server, Open: open, Password: presettest.CheckKey, Want: presettest.Row(step, result, detail, advice)})
	}
	add("jira, the rights", site, toJira(asIs), "rights", finding.OK, "Add comments, Assign issues, Transition issues", "")
	add("jira, a right that the account lacks", server(func(o *jira.Options) { o.Lacks = []string{"TRANSITION_ISSUES"} }), toJira(asIs),
		"rights", finding.Failed, "lacks the permission Transition issues", "grant it")
	add("jira, the statuses", site, toJira(asIs), "states", finding.OK, "To Do (1), In Progress (2), Done (3), Won't Do (4)", "")
	add("jira, the statuses that are kept", site, toJira(asIs), "keep_closed", finding.OK, "Won't Do (4)", "")
	add("jira, a status that is kept but not there", site, toJira(func(f *ticketopener.Follow) { f.KeepClosed = []string{"Rejected"} }),
		"keep_closed", finding.Failed, `there is no "Rejected" (keep_closed[0])`, "correct follow.keep_closed; there are To Do (1)")
	add("jira, the transitions, by an id and by a status", site, toJira(asIs), "transitions", finding.OK, "closed: Close (31, to Done), reopened: Reopen (11, to To Do)", "")
	add("jira, a transition that is not there", site, toJira(func(f *ticketopener.Follow) { f.States["closed"] = ticketopener.Move{To: "41"} }),
		"transitions", finding.Failed, `there is no "41" (closed)`, "there are Reopen (11, to To Do), Start (21, to In Progress), Close (31, to Done)")
	add("jira, the people", site, toJira(asIs), "people", finding.OK, "ana: Ana Ops", "")
	add("jira, a person who is not there", site, toJira(func(f *ticketopener.Follow) { f.People["ben"] = "nobody" }), "people", finding.Failed, `there is no "nobody" (ben)`, "correct follow.people")
	add("servicenow, the rights", instance, toServiceNow(asIs), "rights", finding.OK, "the roles itil, snc_internal", "")
	add("servicenow, roles that are not shown", silent, toServiceNow(asIs), "rights", finding.Untried, "may not see its roles", "itil")
	add("servicenow, the states", instance, toServiceNow(asIs), "states", finding.OK, "Canceled (8), Closed (7), In Progress (2), New (1), On Hold (3), Resolved (6)", "")
	add("servicenow, the moves", instance, toServiceNow(asIs), "moves", finding.OK, "closed: Resolved (6), reopened: In Progress (2)", "")
	add("servicenow, a state that is not there", instance, toServiceNow(func(f *ticketopener.Follow) { f.States["closed"] = ticketopener.Move{To: "9"} }),
		"moves", finding.Failed, `there is no "9" (closed)`, "correct follow.states; there are Canceled (8)")
	add("servicenow, a person who is not there", instance, toServiceNow(func(f *ticketopener.Follow) { f.People["ben"] = "u-9" }), "people", finding.Failed, `there is no "u-9" (ben)`, "correct follow.people")
	soc := queue(rt.Options{}, "resolved", "new", "new")
	add("rt, the rights", soc, toRT(asIs), "rights", finding.OK, "the permission CommentOnTicket, ModifyTicket", "")
	add("rt, a right that the account lacks", queue(rt.Options{Lacks: []string{"CommentOnTicket"}}, "new"), toRT(asIs),
		"rights", finding.Warning, "may lack the permission CommentOnTicket", "grant it")
	add("rt, a right to change tickets that the account lacks", queue(rt.Options{Lacks: []string{"ModifyTicket"}}, "new"), toRT(asIs),
		"rights", finding.Warning, "may lack the permission ModifyTicket", "grant it")
	add("rt, rights that are not needed", queue(rt.Options{Lacks: []string{"CommentOnTicket"}}, "new"), toRT(func(f *ticketopener.Follow) { f.Comment = nil }),
		"rights", finding.OK, "the permission ModifyTicket", "")
	add("rt, the statuses", soc, toRT(asIs), "states", finding.OK, "deleted, new (to deleted, open, rejected, resolved), open, rejected, resolved (to open)", "")
	add("rt, a queue without a ticket", queue(rt.Options{}), toRT(asIs), "states", finding.Untried, "sees no ticket in the queue", "after the first ticket")
	add("rt, the moves", soc, toRT(asIs), "moves", finding.OK, "closed: resolved, reopened: open", "")
	add("rt, a status that no ticket has or may get", soc, toRT(func(f *ticketopener.Follow) { f.States["closed"] = ticketopener.Move{To: "done"} }),
		"moves", finding.Warning, `there may be no "done" (closed)`, "check follow.states; there are deleted, new, open, rejected, resolved")
	add("rt, a status in the case that Request Tracker does not show", soc, toRT(func(f *ticketopener.Follow) { f.States["closed"] = ticketopener.Move{To: "Resolved"} }),
		"moves", finding.Warning, `there may be no "Resolved" (closed)`, "check follow.states")
	add("rt, a status that is kept but not there", soc, toRT(func(f *ticketopener.Follow) { f.KeepClosed = []string{"archived"} }),
		"keep_closed", finding.Warning, `there may be no "archived" (keep_closed[0])`, "check follow.keep_closed")
	add("rt, the people", soc, toRT(asIs), "people", finding.OK, "ana: Ana Ops, ben: ben", "")
	add("rt, a person who is not there", soc, toRT(func(f *ticketopener.Follow) { f.People["eve"] = "ANA" }), "people", finding.Failed, `there is no "ANA" (eve)`, "correct follow.people")
	add("rt, one of more people than one request asks for", soc, toRT(func(f *ticketopener.Follow) {
		for n := range 100 {
			f.People[fmt.Sprint("p", n)] = []string{"ana", "ben"}[n%2]
		}
		f.People["zoe"] = "zoe"
	}), "people", finding.Failed, `there is no "zoe" (zoe)`, "correct follow.people")
	add("rt, people who are hidden", queue(rt.Options{HidesNames: true}, "new"), toRT(asIs), "people", finding.Untried, "may not search users by their names", "UserSummaryExtraInfo")
	mine := project(redmine.Options{})
	add("redmine, the rights", mine, toRedmine(asIs), "rights", finding.OK, "the permission Add issues, Add notes, Edit issues, View issues", "")
	add("redmine, a right that the account lacks", project(redmine.Options{Lacks: []string{"add_issue_notes"}}), toRedmine(asIs),
		"rights", finding.Failed, "lacks the permission Add notes", "grant it")
	add("redmine, an account that edits its own issues", project(redmine.Options{Lacks: []string{"edit_issues"}}), toRedmine(asIs), "rights", finding.OK, "Edit issues", "")
	add("redmine, an account that edits no issues", project(redmine.Options{Lacks: []string{"edit_issues", "edit_own_issues"}}), toRedmine(asIs),
		"rights", finding.Failed, "lacks the permission Edit issues", "grant it")
	add("redmine, an account that is not a member", project(redmine.Options{Outside: true}), toRedmine(asIs), "rights", finding.Untried, "not a member of the project", "make it a member")
	add("redmine, an administrator", project(redmine.Options{Outside: true, Admin: true}), toRedmine(asIs), "rights", finding.OK, "administrator", "")
	const all = "New (1), In Progress (2), Resolved (3), Feedback (4), Closed (5), Rejected (6)"
	add("redmine, the statuses", mine, toRedmine(asIs), "states", finding.OK, all, "")
	add("redmine, the moves, by an id and by a name", mine, toRedmine(asIs), "moves", finding.OK, "closed: Closed (5), reopened: In Progress (2)", "")
	add("redmine, a status that is not there", mine, toRedmine(func(f *ticketopener.Follow) { f.States["closed"] = ticketopener.Move{To: "Done"} }),
		"moves", finding.Failed, `there is no "Done" (closed)`, "correct follow.states; there are "+all)
	add("redmine, a status that is kept but not there", mine, toRedmine(func(f *ticketopener.Follow) { f.KeepClosed = []string{"rejected"} }),
		"keep_closed", finding.Failed, `there is no "rejected" (keep_closed[0])`, "correct follow.keep_closed")
	add("redmine, the statuses that the newest issue may have", mine, toRedmine(asIs), "transitions", finding.OK, "issue 1 is Feedback and may be "+all, "")
	add("redmine, the people", mine, toRedmine(asIs), "people", finding.OK, "all: Analysts, ana: User 6", "")
	stranger := toRedmine(func(f *ticketopener.Follow) { f.People["ben"] = "99" })
	add("redmine, a person who is not a member", project(redmine.Options{Crowd: 150}), stranger, "people", finding.Failed, `there is no "99" (ben)`, "correct follow.people; there are The Bridge (5), Analysts (10)")
	add("redmine, more members than are read", project(redmine.Options{Crowd: 1000}), stranger, "people", finding.Warning, `"99" (ben)`, "check follow.people")
	presettest.Checks(t, tests, "/workflows")
}

// Whatever a system answers to the requests of an inspection, a check ends, and every finding that is not
// good has advice.
func FuzzInspections(f *testing.F) {
	for _, body := range []string{
		`{}`, `null`, `[]`, `[null]`, `<html>`, ``, `{"items": [null, {"Status": "\u0000", "_hyperlinks": [null, {"ref": "lifecycle", "to": "\u202e"}]}]}`,
		`{"items": [{"id": "nobody"}], "user": {"memberships": [null, {"roles": [{"id": -1}, null]}]}, "issue_statuses": [null], "issues": [null], "memberships": [null]}`,
		`{"user": {"memberships": [{"roles": [{"id": 1e400}]}]}, "result": [null], "permissions": {"ADD_COMMENTS": null}, "values": [null], "workflows": [{"transitions": [null]}]}`,
	} {
		f.Add(200, body)
		f.Add(404, body)
	}
	type site struct {
		*tool
		checks int // that come before
	}
	systems := []site{{startJira(f), 3}, {startServiceNow(f), 1}, {startRT(f), 2}, {startRedmine(f), 2}}
	f.Fuzz(func(t *testing.T, status int, body string) {
		if status < 200 || status > 599 {
			t.Skip("not a final status of HTTP")
		}
		for _, o := range systems {
			o.answerAfter(o.checks, status, body)
			found := newFollowing(t, o.tool).open(t).Check(t.Context(), sinks.Trial{Now: time.Now})
			o.answer(0, "")
			assert.Equal(t, found[len(found)-1].Step, "people", o.name)
			for _, row := range found {
				assert.True(t, row.Result == finding.OK || row.Advice != "", o.name, row)
			}
		}
	})
}
