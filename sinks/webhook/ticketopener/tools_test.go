package ticketopener_test

import (
	"cmp"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"pgregory.net/rapid"

	"ndrbridge/sinks/webhook/render"
	"ndrbridge/sinks/webhook/ticketopener"
	"ndrbridge/test/jira"
	"ndrbridge/test/redmine"
	"ndrbridge/test/require"
	"ndrbridge/test/rt"
	"ndrbridge/test/servicenow"
	"ndrbridge/test/ticketserver"
)

// fault is what goes wrong with a request.
type fault int

const (
	none    fault = iota
	unread        // the connection breaks before the tool reads the request
	unsaid        // it breaks behind what the tool has done
	busy          // the tool answers 503
	refused       // the tool answers 422
)

// tool is a ticket system with what goes wrong in front of it. Its clock is a test's.
type tool struct {
	name   string
	url    string
	system ticketopener.System
	auth   [2]string // or a token, which is sent as a bearer token
	token  string
	opened func() []string // the ids of its tickets

	// Of a tool whose tickets follow their detections: the moves that are configured, the status of
	// a new ticket, another open one, and a closed one that is kept; two people; and what a person
	// does to a ticket and sees of it.
	states                 map[string]stateMove
	initial, working, kept string
	people                 [2]string
	noted                  []string // fields of a move that become comments
	change                 func(id string, change func(*ticket))
	see                    func(id string) ticket
	rename                 func(id string) string // gives a ticket another id, and the second time its old one; nil: that cannot change
	say                    func(id, author, text string)
	site                   *jira.Server          // of Jira
	tickets                *ticketserver.Tickets // of Request Tracker, Redmine and the unknown one

	mu     sync.Mutex
	now    time.Time
	faults []fault // of the next requests
	asked  int
	status int // of every answer, with body; 0: the tool answers itself
	body   string
	passed int // how many requests it answers itself before
}

// ticket is a ticket as a person sees and changes it.
type ticket struct {
	Status, Assignee string
	Comments         int
	Deleted          bool
	Archived         bool // the system refuses changes
}

// stateMove is a configured move, and the status that it leads to.
type stateMove struct {
	ticketopener.Move
	Status string
}

// last returns the id of the newest ticket.
func (o *tool) last() string {
	all := o.opened()
	return all[len(all)-1]
}

// look returns what a person sees of a ticket.
func (o *tool) look(id string) string {
	i := o.see(id)
	if i.Deleted {
		return "lost"
	}
	text := i.Status
	if i.Assignee != "" {
		text += ", " + i.Assignee
	}
	text += fmt.Sprintf(", %d comment", i.Comments)
	if i.Comments != 1 {
		text += "s"
	}
	return text
}

// answer lets every request be answered with a status and a body; 0 ends that.
func (o *tool) answer(status int, body string) { o.answerAfter(0, status, body) }

// answerAfter is answer, after some requests.
func (o *tool) answerAfter(passed, status int, body string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.passed, o.status, o.body = passed, status, body
}

func (o *tool) canned() (status int, body string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.passed > 0 {
		o.passed--
		return 0, ""
	}
	return o.status, o.body
}

func (o *tool) clock() time.Time {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.now
}

func (o *tool) pass(d time.Duration) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.now = o.now.Add(d)
}

func (o *tool) fail(faults ...fault) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.faults = faults
}

func (o *tool) requests() int {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.asked
}

func (o *tool) next() fault {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.asked++
	if len(o.faults) == 0 {
		return none
	}
	f := o.faults[0]
	o.faults = o.faults[1:]
	return f
}

// serve puts the faults in front of a tool.
func (o *tool) serve(t testing.TB, made func(url string) http.Handler) {
	var handler http.Handler
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if status, body := o.canned(); status != 0 {
			w.WriteHeader(status)
			fmt.Fprint(w, body)
			return
		}
		switch o.next() {
		case unread:
			panic(http.ErrAbortHandler)
		case busy:
			w.WriteHeader(http.StatusServiceUnavailable)
		case refused:
			w.WriteHeader(http.StatusUnprocessableEntity)
		case unsaid:
			handler.ServeHTTP(httptest.NewRecorder(), r)
			panic(http.ErrAbortHandler)
		default:
			handler.ServeHTTP(w, r)
		}
	}))
	t.Cleanup(s.Close)
	o.url = s.URL
	handler = made(s.URL)
}

// searchDelay is how long it takes until Jira finds a new issue.
const searchDelay = 20 * time.Second

func startJira(t testing.TB) *tool {
	o := &tool{
		name: "jira", now: time.Date(2026, 3, 15, 9, 0, 0, 0, time.UTC), auth: [2]string{"bridge@corp.example", "token-1"},
		states: map[string]stateMove{
			"closed":   {ticketopener.Move{To: "31", Fields: map[string]string{"resolution": "Done"}}, "Done"},
			"reopened": {ticketopener.Move{To: "to do"}, "To Do"},
		},
		initial: "To Do", working: "In Progress", kept: "Won't Do", people: [2]string{"a-1", "a-2"},
	}
	o.serve(t, func(url string) http.Handler {
		site := jira.New(jira.Options{URL: url, Email: o.auth[0], Token: o.auth[1], Project: "SEC", IndexDelay: searchDelay, Now: o.clock})
		o.opened = func() (ids []string) {
			for _, i := range site.Issues() {
				ids = append(ids, i.Key)
			}
			return ids
		}
		o.see = func(id string) ticket {
			for _, i := range site.Issues() {
				if i.Key == id {
					return ticket{Status: i.Status.Name, Assignee: i.Assignee, Comments: len(i.Comments), Archived: i.Archived}
				}
			}
			return ticket{Deleted: true}
		}
		o.change = func(id string, change func(*ticket)) {
			t := o.see(id)
			change(&t)
			site.Change(id, func(i *jira.Issue) {
				i.Status = jira.StatusNamed(t.Status)
				i.Assignee, i.Archived = t.Assignee, t.Archived
			})
			if t.Deleted {
				site.Delete(id)
			}
		}
		o.rename = func(id string) string {
			if strings.HasPrefix(id, "OPS") {
				return site.MoveTo(id, "SEC")
			}
			return site.MoveTo(id, "OPS")
		}
		o.site = site
		o.say = func(id, author, text string) { site.Comment(id, text, author) }
		return site
	})
	var err error
	o.system, err = ticketopener.NewJira(ticketopener.JiraOptions{
		URL: o.url, Project: "SEC", Type: "Task", Labels: []string{"ndr"}, Priorities: map[string]string{"critical": "Highest", "medium": "Medium"},
	})
	require.NoError(t, err)
	return o
}

func startServiceNow(t testing.TB) *tool {
	o := &tool{
		name: "servicenow", now: time.Date(2026, 3, 15, 9, 0, 0, 0, time.UTC), auth: [2]string{"ndrbridge", "a-password"},
		states: map[string]stateMove{
			"closed":   {ticketopener.Move{To: "6", Fields: map[string]string{"close_code": "Resolved by caller", "close_notes": "closed at the appliance"}}, "6"},
			"reopened": {ticketopener.Move{To: "2"}, "2"},
		},
		initial: "1", working: "3", kept: "8", people: [2]string{"u-1", "u-2"}, noted: []string{"comments", "work_notes"},
	}
	o.serve(t, func(url string) http.Handler {
		instance := servicenow.New(servicenow.Options{URL: url, Username: o.auth[0], Password: o.auth[1], Now: o.clock})
		o.opened = func() (ids []string) {
			for _, i := range instance.Incidents() {
				ids = append(ids, i["number"])
			}
			return ids
		}
		o.see = func(id string) ticket {
			for _, i := range instance.Incidents() {
				if i["number"] == id {
					return ticket{Status: i["state"], Assignee: i["assigned_to"], Comments: instance.Notes(id), Archived: i["locked"] == "true"}
				}
			}
			return ticket{Deleted: true}
		}
		o.change = func(id string, change func(*ticket)) {
			t := o.see(id)
			change(&t)
			instance.Change(id, servicenow.Incident{"state": t.Status, "assigned_to": t.Assignee, "locked": strconv.FormatBool(t.Archived)})
			if t.Deleted {
				instance.Delete(id)
			}
		}
		o.rename = func(id string) string {
			other, renamed := strings.CutPrefix(id, "SIR")
			if !renamed {
				other = "SIR" + id
			}
			instance.Change(id, servicenow.Incident{"number": other})
			return other
		}
		o.say = func(id, author, text string) { instance.Comment(id, "comments", text, author) }
		return instance
	})
	var err error
	o.system, err = ticketopener.NewServiceNow(ticketopener.ServiceNowOptions{
		URL: o.url, Table: "incident", Priorities: map[string]string{"critical": "1", "medium": "2"}, Fields: map[string]string{"assignment_group": "SOC"},
	})
	require.NoError(t, err)
	return o
}

// startRT starts Request Tracker.
func startRT(t testing.TB) *tool {
	o := &tool{
		name: "rt", now: time.Date(2026, 3, 15, 9, 0, 0, 0, time.UTC), token: "1-31-abcdef",
		states: map[string]stateMove{
			"closed":   {ticketopener.Move{To: "resolved"}, "resolved"},
			"reopened": {ticketopener.Move{To: "open"}, "open"},
		},
		initial: "new", working: "stalled", kept: "rejected", people: [2]string{"ana", "ben"},
	}
	o.serve(t, func(string) http.Handler {
		s := rt.New(rt.Options{Token: o.token, Queue: "SOC", Now: o.clock})
		o.withTickets(s.Tickets)
		return s
	})
	var err error
	o.system, err = ticketopener.NewRT(ticketopener.RTOptions{
		URL: o.url, Queue: "SOC", Priorities: map[string]string{"critical": "High"}, Fields: map[string]string{"AdminCc": "soc@corp.example"},
	})
	require.NoError(t, err)
	return o
}

func startRedmine(t testing.TB) *tool {
	o := &tool{
		name: "redmine", now: time.Date(2026, 3, 15, 9, 0, 0, 0, time.UTC), token: "0123456789abcdef",
		states: map[string]stateMove{
			"closed":   {ticketopener.Move{To: "closed", Fields: map[string]string{"done_ratio": "100"}}, "Closed"},
			"reopened": {ticketopener.Move{To: "2"}, "In Progress"},
		},
		initial: "New", working: "Feedback", kept: "Rejected", people: [2]string{"6", "7"}, noted: []string{"notes"},
	}
	o.serve(t, func(string) http.Handler {
		s := redmine.New(redmine.Options{Key: o.token, Project: "soc", Now: o.clock})
		o.withTickets(s.Tickets)
		return s
	})
	var err error
	o.system, err = ticketopener.NewRedmine(ticketopener.RedmineOptions{
		URL: o.url, Project: "soc", Tracker: "3", Priorities: map[string]string{"critical": "5"}, Fields: map[string]string{"category_id": "2"},
	})
	require.NoError(t, err)
	return o
}

// withTickets lets a person see and change tickets.
func (o *tool) withTickets(d *ticketserver.Tickets) {
	o.opened = func() (ids []string) {
		for _, t := range d.All() {
			ids = append(ids, strconv.Itoa(t.ID))
		}
		return ids
	}
	find := func(id string) (ticketserver.Ticket, bool) {
		n, _ := strconv.Atoi(id)
		return d.Find(n)
	}
	o.say = func(id, author, text string) {
		n, _ := strconv.Atoi(id)
		d.Comment(n, ticketserver.Comment{Author: author, Text: text})
	}
	o.tickets = d
	o.see = func(id string) ticket {
		t, found := find(id)
		return ticket{Status: t.Status, Assignee: t.Assignee, Comments: len(t.Comments), Archived: t.Archived, Deleted: !found}
	}
	o.change = func(id string, change func(*ticket)) {
		seen := o.see(id)
		change(&seen)
		n, _ := strconv.Atoi(id)
		d.Change(n, func(t *ticketserver.Ticket) {
			t.Status, t.Assignee, t.Archived, t.Deleted = seen.Status, seen.Assignee, seen.Archived, seen.Deleted
		})
	}
}

// startOther starts a ticket system of an unknown kind.
func startOther(t testing.TB) *tool {
	o := &tool{
		name: "generic", now: time.Date(2026, 3, 15, 9, 0, 0, 0, time.UTC), auth: [2]string{"u", "p"},
		states: map[string]stateMove{
			"closed":   {ticketopener.Move{To: "done", Fields: map[string]string{"reason": "closed"}}, "done"},
			"reopened": {ticketopener.Move{To: "open"}, "open"},
		},
		initial: "new", working: "working", kept: "rejected", people: [2]string{"a", "b"},
	}
	o.serve(t, func(string) http.Handler {
		d := &ticketserver.Tickets{Initial: o.initial, Now: o.clock}
		o.withTickets(d)
		return otherSystem(d)
	})
	o.url += "/tickets"
	o.system = newGeneric(t, o.url, `{"ref": {{json (print .event.appliance "-" .event.subject)}}}`, o.url+"?ref={{.event.appliance}}-{{.event.subject}}")
	return o
}

// otherSystem serves tickets as docs/tickets.md describes it.
func otherSystem(d *ticketserver.Tickets) http.Handler {
	mux := http.NewServeMux()
	type shown struct {
		Number int    `json:"number"`
		Page   string `json:"page"`
	}
	show := func(t ticketserver.Ticket) shown { return shown{t.ID, fmt.Sprint("https://tickets.example/", t.ID)} }
	mux.HandleFunc("POST /tickets", func(w http.ResponseWriter, r *http.Request) {
		var body struct{ Ref string }
		if err := ticketserver.Decoder(w, r).Decode(&body); err != nil {
			w.WriteHeader(http.StatusBadRequest)
			return
		}
		ticketserver.Answer(w, http.StatusCreated, map[string]shown{"ticket": show(d.Open(ticketserver.Ticket{Reference: body.Ref}))})
	})
	mux.HandleFunc("GET /tickets", func(w http.ResponseWriter, r *http.Request) {
		found := []shown{}
		for _, t := range d.All() {
			if t.Reference == r.URL.Query().Get("ref") {
				found = append(found, show(t))
			}
		}
		ticketserver.Answer(w, http.StatusOK, map[string][]shown{"tickets": found})
	})
	of := func(serve func(http.ResponseWriter, *http.Request, ticketserver.Ticket)) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			id, _ := strconv.Atoi(r.PathValue("id"))
			t, ok := d.Find(id)
			switch {
			case !ok:
				w.WriteHeader(http.StatusNotFound)
			case t.Archived && r.Method != http.MethodGet:
				w.WriteHeader(http.StatusForbidden)
			default:
				serve(w, r, t)
			}
		}
	}
	mux.HandleFunc("GET /tickets/{id}", of(func(w http.ResponseWriter, r *http.Request, t ticketserver.Ticket) {
		now := map[string]any{"status": t.Status, "closed": t.Status == "done" || t.Status == "rejected", "assignee": t.Assignee}
		if n := len(t.Moves); n > 0 {
			now["moved"] = t.Moves[n-1].Format(time.RFC3339)
		}
		ticketserver.Answer(w, http.StatusOK, now)
	}))
	mux.HandleFunc("PATCH /tickets/{id}", of(func(w http.ResponseWriter, r *http.Request, t ticketserver.Ticket) {
		var body struct{ Status, Assignee, Reason string }
		err := ticketserver.Decoder(w, r).Decode(&body)
		known := slices.Contains([]string{"", "open", "done"}, body.Status) && slices.Contains([]string{"", "a", "b"}, body.Assignee)
		if err != nil || !known || body.Status == "done" && body.Reason == "" {
			w.WriteHeader(http.StatusUnprocessableEntity)
			return
		}
		d.Change(t.ID, func(t *ticketserver.Ticket) {
			t.Status, t.Assignee = cmp.Or(body.Status, t.Status), cmp.Or(body.Assignee, t.Assignee)
		})
		w.WriteHeader(http.StatusNoContent)
	}))
	mux.HandleFunc("POST /tickets/{id}/comments", of(func(w http.ResponseWriter, r *http.Request, t ticketserver.Ticket) {
		var body struct{ Text string }
		if err := ticketserver.Decoder(w, r).Decode(&body); err != nil || body.Text == "" {
			w.WriteHeader(http.StatusUnprocessableEntity)
			return
		}
		d.Comment(t.ID, ticketserver.Comment{Author: "bridge", Text: body.Text})
		w.WriteHeader(http.StatusNoContent)
	}))
	mux.HandleFunc("GET /tickets/{id}/comments", of(func(w http.ResponseWriter, r *http.Request, t ticketserver.Ticket) {
		skip, err := strconv.Atoi(r.URL.Query().Get("skip"))
		if err != nil || skip < 0 {
			w.WriteHeader(http.StatusBadRequest)
			return
		}
		shown := []map[string]any{}
		for n, c := range slices.Backward(t.Comments) {
			if age := len(t.Comments) - 1 - n; age >= skip && len(shown) < 100 {
				shown = append(shown, map[string]any{"id": c.ID, "author": c.Author, "text": c.Text, "time": c.At.Format(time.RFC3339)})
			}
		}
		ticketserver.Answer(w, http.StatusOK, map[string]any{"comments": shown})
	}))
	return mux
}

func newGeneric(t testing.TB, address, body, lookup string) ticketopener.System {
	t.Helper()
	compile := func(text string, asJSON bool) *render.Template {
		template := require.Value(render.Compile(text, asJSON))(t)
		return template
	}
	o := ticketopener.GenericOptions{URL: address, Body: compile(body, true), MaxBodyBytes: 1 << 10, Location: ticketopener.Location{ID: "ticket.number", Page: "ticket.page"}}
	if lookup != "" {
		o.Lookup = &ticketopener.Lookup{URL: compile(lookup, false), Location: ticketopener.Location{ID: "tickets.0.number", Page: "tickets.0.page"}}
	}
	system := require.Value(ticketopener.NewGeneric(o))(t)
	return system
}

// eachTool runs a test with each of the tools.
func eachTool(t *testing.T, test func(t *testing.T, o *tool)) {
	for _, start := range []func(testing.TB) *tool{startJira, startServiceNow, startRT, startRedmine, startOther} {
		o := start(t)
		t.Run(o.name, func(t *testing.T) { test(t, o) })
	}
}

// eachFollower runs a test with each of the tools whose tickets follow their detections.
func eachFollower(t *testing.T, test func(t *testing.T, o *tool)) {
	for _, o := range followers(t) {
		t.Run(o.name, func(t *testing.T) {
			t.Parallel() // they wait for the disk
			test(t, o)
		})
	}
}

// checkFollowers checks a property of them, each time at one of them.
func checkFollowers(t *testing.T, property func(r *rapid.T, o *tool)) {
	all := followers(t)
	rapid.Check(t, func(r *rapid.T) { property(r, all[rapid.IntRange(0, len(all)-1).Draw(r, "system")]) })
}

func followers(t *testing.T) (all []*tool) {
	for _, start := range []func(testing.TB) *tool{startJira, startServiceNow, startRT, startRedmine, startOther} {
		all = append(all, start(t))
	}
	return all
}
