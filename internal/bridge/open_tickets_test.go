package bridge_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"ndrbridge/checkpoint"
	"ndrbridge/internal/admin"
	"ndrbridge/internal/notes"
	standin "ndrbridge/test/appliance"
	"ndrbridge/test/assert"
	"ndrbridge/test/jira"
	"ndrbridge/test/require"
	"ndrbridge/test/servicenow"
	"ndrbridge/transform"
)

// ticketTool is a ticket system in which tickets for detections are opened.
type ticketTool struct {
	name    string
	sink    string // webhook of a sink, without its braces
	inbound string // the system under tickets.webhooks
	opened  func() []string
	// finish closes a ticket as a person or as an account.
	finish func(ctx context.Context, id, who string) error
	// say comments on a ticket as a person, and said counts the comments that there are.
	say  func(id, author, text string)
	said func(id string) int
	// before, if set, is called after a ticket was created and before the response.
	before atomic.Pointer[func()]
	// bridge is the URL that the tool sends its webhooks to.
	bridge atomic.Pointer[url.URL]
}

// serve serves a tool, and returns its address.
func (o *ticketTool) serve(t *testing.T, made func(url string) http.Handler) string {
	t.Helper()
	var handler http.Handler
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		before := o.before.Load()
		if before == nil || r.Method != http.MethodPost || strings.Contains(r.URL.Path, "search") {
			handler.ServeHTTP(w, r)
			return
		}
		handler.ServeHTTP(httptest.NewRecorder(), r)
		(*before)()
		<-r.Context().Done() // the answer never comes
	}))
	t.Cleanup(s.Close)
	handler = made(s.URL)
	return s.URL
}

// inboundURL returns the URL of the bridge for a tool's webhooks.
func (o *ticketTool) inboundURL(t *testing.T) string {
	t.Helper()
	s := httptest.NewServer(&httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(o.bridge.Load()) }})
	t.Cleanup(s.Close)
	return s.URL + "/api/v1/tickets/" + o.name
}

const ownAccount, indexDelay = "ndrbridge", 100 * time.Millisecond

func startJira(t *testing.T) *ticketTool {
	o := &ticketTool{name: "jira"}
	inbound := o.inboundURL(t)
	at := o.serve(t, func(at string) http.Handler {
		site := jira.New(jira.Options{
			URL: at, Email: "bridge@corp.example", Token: "token-1", Account: ownAccount, Project: "SEC",
			IndexDelay: indexDelay, Webhook: inbound, Secret: "hook-secret", Now: time.Now,
		})
		o.opened = func() (keys []string) {
			for _, i := range site.Issues() {
				keys = append(keys, i.Key)
			}
			return keys
		}
		o.finish = func(ctx context.Context, key, who string) error { return site.Move(ctx, key, "Done", "Won't Do", who) }
		o.say = func(key, author, text string) { site.Comment(key, text, author) }
		o.said = func(key string) int {
			all := site.Issues()
			return len(all[slices.IndexFunc(all, func(i jira.Issue) bool { return i.Key == key })].Comments)
		}
		return site
	})
	o.sink = fmt.Sprintf(`url: %q, auth: {username: bridge@corp.example, password: token-1}, ticket: {system: jira, project: SEC, search_delay: 500ms}`, at)
	o.inbound = `jira: {secret: hook-secret, accounts: [` + ownAccount + `]}`
	return o
}

func startServiceNow(t *testing.T) *ticketTool {
	o := &ticketTool{name: "servicenow"}
	inbound := o.inboundURL(t)
	at := o.serve(t, func(at string) http.Handler {
		instance := servicenow.New(servicenow.Options{
			URL: at, Username: ownAccount, Password: "a-password", Message: inbound, Secret: "hook-secret", Now: time.Now,
		})
		o.opened = func() (numbers []string) {
			for _, i := range instance.Incidents() {
				numbers = append(numbers, i["number"])
			}
			return numbers
		}
		o.finish = func(ctx context.Context, number, who string) error {
			return instance.Close(ctx, number, "No resolution provided", who)
		}
		o.say = func(number, author, text string) { instance.Comment(number, "work_notes", text, author) }
		o.said = instance.Notes
		return instance
	})
	o.sink = fmt.Sprintf(`url: %q, auth: {username: %s, password: a-password}, ticket: {system: servicenow, search_delay: 500ms, fields: {assignment_group: SOC}}`, at, ownAccount)
	o.inbound = `servicenow: {secret: hook-secret, header: X-Ndrbridge-Secret, accounts: [` + ownAccount + `]}`
	return o
}

// ticketSink is a sink that opens tickets in the tool for all detections.
func (o *ticketTool) ticketSink() string {
	return "  - {name: tickets, webhook: {" + o.sink + "}, retry: {initial: 10ms, max: 50ms}, batch: {linger: 0}}\n"
}

func (o *ticketTool) tickets() string {
	return "\ntickets: {enabled: true, webhooks: {" + o.inbound + "}}\n"
}

// follow directs the tool's webhooks to a bridge.
func (o *ticketTool) follow(r *running) {
	o.bridge.Store(&url.URL{Scheme: "http", Host: r.AdminAddress()})
}

// withoutTicket starts an appliance with one detection, which is new and has no ticket.
func withoutTicket(t *testing.T) (a *standin.Appliance, address string) {
	t.Helper()
	a, address = startAppliance(t, 1)
	if err := a.Update(func(d *standin.Detection) {
		d.TicketID, d.Status, d.Resolution, d.Assignee = standin.TicketID{}, "new", "", ""
	}, a.Latest()[0].ID); err != nil {
		t.Fatal(err)
	}
	return a, address
}

// ours counts the versions in which only the bridge changed a field.
func (i *inbox) ours(field string) int {
	n := 0
	for _, e := range i.of("io.ndrbridge.detection.updated") {
		if e.CausedBy == transform.CausedByWriteback && strings.Contains(string(e.Data()), `"changes":{"`+field) {
			n++
		}
	}
	return n
}

func eachTicketTool(t *testing.T, test func(t *testing.T, o *ticketTool)) {
	for _, start := range []func(*testing.T) *ticketTool{startJira, startServiceNow} {
		o := start(t)
		t.Run(o.name, func(t *testing.T) { test(t, o) })
	}
}

func TestATicketComesFullCircle(t *testing.T) {
	eachTicketTool(t, func(t *testing.T, o *ticketTool) {
		a, address := withoutTicket(t)
		soc := startInbox(t)
		r := run(t, configuration(t, address, o.ticketSink()+webhookSink("soc", soc.URL))+o.tickets())
		o.follow(r)
		await(t, "the ticket", func() bool { return len(o.opened()) == 1 })
		id := o.opened()[0]
		await(t, "the link", func() bool { return a.Latest()[0].TicketID == id })
		await(t, "the version that the link made, marked", func() bool { return soc.ours("ticket_id") == 1 })

		require.NoError(t, o.finish(t.Context(), id, ownAccount))
		commands, err := admin.API.ListTicketCommands.Call(t.Context(), r.control(t), admin.CommandsRequest{Limit: 10})
		assert.True(t, err == nil && len(commands.Commands) == 1, "a change by the bridge's own account became a command", commands, err)
		require.NoError(t, o.finish(t.Context(), id, "ana"))
		await(t, "the detection to be closed", func() bool { return a.Latest()[0].Status == "closed" })
		await(t, "the version that closing it made, marked", func() bool { return soc.ours("status") == 1 })

		require.NoError(t, a.Update(func(d *standin.Detection) { d.Assignee = "bert" }, a.Latest()[0].ID))
		await(t, "an analyst's edit, not marked", func() bool {
			return soc.find("detection.updated", func(e transform.Event) bool {
				return e.CausedBy == "" && strings.Contains(string(e.Data()), `"to":"bert"`)
			})
		})
		await(t, "the sink that opens tickets", func() bool { return sinkStatus(t, r.control(t), "tickets").LagEvents == 0 })
		r.stop()
		got := o.opened()
		assert.Equal(t, len(got), 1, "the tickets", got)
		link, closing := soc.ours("ticket_id"), soc.ours("status")
		assert.True(t, link == 1 && closing == 1, link, "versions of our link are marked, and", closing, "of our closing")
		if got := a.Latest()[0]; got.Resolution != "no_action_taken" {
			t.Errorf("closed with %q", got.Resolution)
		}
	})
}

// A comment on a ticket arrives in the detection's note, once, over restarts. Nothing of that comes
// back into the ticket, and nothing of what the note says comes back from there.
func TestCommentsArriveInTheNote(t *testing.T) {
	eachTicketTool(t, func(t *testing.T, o *ticketTool) {
		a, address := withoutTicket(t)
		sink := strings.Replace(o.ticketSink(), "search_delay: 500ms", "search_delay: 500ms, follow: {comment: [noted, status]}", 1)
		yaml := strings.Replace(configuration(t, address, sink), "rate_limit: 1000", "rate_limit: 1000\n    notes: {in: true, interval: 20ms}", 1) +
			strings.Replace(o.tickets(), "enabled: true", "enabled: true, notes: {out: true, interval: 100ms}", 1)
		url := fmt.Sprintf("%s/api/v1/detections/%d/notes", address, a.Latest()[0].ID)
		note := func() (analysts, entries string) {
			text := callAppliance(t, http.MethodGet, url, "")
			analysts, all := notes.Split(text)
			for _, e := range all {
				entries += e.Author + ": " + e.Text + "\n"
			}
			return analysts, entries
		}
		id, want, comments := "", "", 0
		for n := range 3 {
			r := run(t, yaml)
			if n == 0 {
				await(t, "the link", func() bool { return a.Latest()[0].TicketID != "" })
				id = o.opened()[0]
			}
			o.say(id, "ana", fmt.Sprint("comment ", n))
			want += fmt.Sprintf("ana (%s): comment %d\n", id, n)
			await(t, "the comment in the note", func() bool { _, entries := note(); return entries == want })
			// What follows is read after what came before.
			analysts := fmt.Sprint("text ", n)
			_, section, _ := strings.Cut(callAppliance(t, http.MethodGet, url, ""), "---")
			callAppliance(t, http.MethodPut, url, analysts+"\n\n---"+section)
			comments += 2
			await(t, "the note in the ticket", func() bool { return o.said(id) == comments })
			r.stop()
			got, entries := note()
			assert.Equal(t, got, analysts, "the text of analysts")
			assert.Equal(t, entries, want, "what came from the ticket")
			assert.Equal(t, o.said(id), comments, "comments")
		}
	})
}

// callAppliance reads or writes a note as an analyst, and returns its text.
func callAppliance(t *testing.T, method, url, text string) string {
	t.Helper()
	body := require.Value(json.Marshal(map[string]string{"note": text}))(t)
	r := require.Value(http.NewRequestWithContext(t.Context(), method, url, bytes.NewReader(body)))(t)
	r.Header.Set("Authorization", "Service apikey="+standin.DefaultAPIKey)
	r.Header.Set("Content-Type", "application/json")
	answer := require.Value(http.DefaultClient.Do(r))(t)
	defer answer.Body.Close()
	var n struct{ Note string }
	_ = json.NewDecoder(answer.Body).Decode(&n) // there may be none
	return n.Note
}

func TestACrashOpensNoSecondTicket(t *testing.T) {
	for _, c := range []struct {
		name       string
		remembered bool // the ticket, but not that the detection is linked with it
	}{
		{"between opening it and remembering it", false},
		{"between remembering it and linking the detection", true},
	} {
		t.Run(c.name, func(t *testing.T) {
			eachTicketTool(t, func(t *testing.T, o *ticketTool) {
				a, address := withoutTicket(t)
				yaml := "shutdown_timeout: 1s\n" + configuration(t, address, o.ticketSink()) + o.tickets()
				var crashing atomic.Pointer[running]
				left := make(chan []byte, 1)
				once := func() {
					r := crashing.Load()
					for ; r == nil; r = crashing.Load() {
						time.Sleep(time.Millisecond)
					}
					var state bytes.Buffer
					assert.NoError(t, r.control(t).Backup(context.Background(), &state))
					o.before.Store(nil)
					left <- state.Bytes()
				}
				o.before.Store(&once)
				r := run(t, yaml)
				crashing.Store(r)
				state := <-left
				r.stop()

				path := filepath.Join(t.TempDir(), "left.db")
				require.NoError(t, os.WriteFile(path, state, 0o600))
				if c.remembered {
					remember(t, path, fmt.Sprint(a.Latest()[0].ID), o.opened()[0])
				}
				r = run(t, strings.Replace(yaml, statePath(t, yaml), path, 1))
				await(t, "the link", func() bool { return a.Latest()[0].TicketID == o.opened()[0] })
				await(t, "the sink's cursor", func() bool { return sinkStatus(t, r.control(t), "tickets").LagEvents == 0 })
				r.stop()
				got := o.opened()
				assert.Equal(t, len(got), 1, "the tickets", got)
			})
		})
	}
}

// remember stores a detection's ticket in the memory of a sink.
func remember(t *testing.T, path, detection, ticket string) {
	t.Helper()
	store := require.Value(checkpoint.Open(path, checkpoint.Options{}))(t)
	defer store.Close()
	if err := store.RememberSink(t.Context(), "tickets", []checkpoint.Entry{{
		Key: "ndrbridge://hq/detections/" + detection, Value: []byte(`{"id": "` + ticket + `"}`), At: time.Now().UnixMilli(),
	}}, 0); err != nil {
		t.Fatal(err)
	}
}
