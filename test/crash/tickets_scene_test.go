package crash

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"ndrbridge/internal/notes"
	standin "ndrbridge/test/appliance"
	"ndrbridge/test/fault"
	"ndrbridge/test/jira"
	"ndrbridge/test/loopback"
	"ndrbridge/test/require"
	"ndrbridge/transform"
)

// ticketScene is an appliance and a ticket system, in both of which people work. It outlives every
// bridge.
type ticketScene struct {
	seed      uint64
	appliance *standin.Appliance
	jira      *jira.Server
	proxies   []*fault.Proxy
	address   string // of the bridge's admin interface

	program             []string // the bridge's command line
	config, state, file string

	mu    sync.Mutex
	moved map[string]personMove  // by the issue's id
	notes map[string]*ticketNote // by the detection's id
	said  int                    // comments and lines of people
}

// ticketNote is the note of a detection, as people and the bridge see it.
type ticketNote struct {
	lines   []string  // of analysts
	reading time.Time // when the bridge last read it and did not write it since
}

// personMove is the last move of an issue by a person.
type personMove struct {
	status string
	at     time.Time
}

// indexDelay is for how long a new issue is not found.
const indexDelay = 300 * time.Millisecond

func newTicketScene(t *testing.T, program []string, seed uint64) *ticketScene {
	t.Helper()
	folder := t.TempDir()
	s := &ticketScene{
		seed: seed, appliance: standin.New(standin.Options{Seed: seed, Size: 1000}), address: loopback.Free(t), program: program,
		config: filepath.Join(folder, "ndrbridge.yaml"), state: filepath.Join(folder, "state.db"), file: filepath.Join(folder, "events.jsonl"),
		moved: make(map[string]personMove), notes: make(map[string]*ticketNote),
	}
	s.jira = jira.New(jira.Options{
		URL: "http://jira.example", Email: "bridge", Token: "stand-in", Account: "bridge", Project: "SEC", IndexDelay: indexDelay, Now: time.Now,
	})
	s.appliance.AddBacklog(40, time.Minute)
	s.appliance.SetHazards(standin.Hazards{Only: isByBridge, Reset: 0.02, ServerError: 0.02, CutBody: 0.02, HTML: 0.01})
	for n, server := range []*httptest.Server{httptest.NewServer(http.HandlerFunc(s.serve)), httptest.NewServer(s.jira)} {
		t.Cleanup(server.Close)
		p := newProxy(t, server.Listener.Addr().String())
		p.Follow(fault.Plan{Seed: seed + uint64(n), Likely: 0.3, Within: 20_000})
		s.proxies = append(s.proxies, p)
	}
	return s
}

// serve serves the appliance, and watches what the bridge does with notes.
func (s *ticketScene) serve(w http.ResponseWriter, r *http.Request) {
	path, found := strings.CutSuffix(r.URL.Path, "/notes")
	if !found {
		s.appliance.ServeHTTP(w, r)
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	n := s.note(filepath.Base(path))
	n.reading = time.Now()
	s.appliance.ServeHTTP(w, r)
	if r.Method == http.MethodPut {
		n.reading = time.Time{}
	}
}

// note returns the note of a detection. The lock must be held.
func (s *ticketScene) note(id string) *ticketNote {
	if s.notes[id] == nil {
		s.notes[id] = &ticketNote{}
	}
	return s.notes[id]
}

// text returns the note of a detection.
func (s *ticketScene) text(id string) string {
	var n struct{ Note string }
	_ = json.Unmarshal(ask(s.appliance, http.MethodGet, "/detections/"+id+"/notes", "").Body.Bytes(), &n) // a 404 has none
	return n.Note
}

// writeLine writes a line into the note of a detection, before or after what is there, unless the
// bridge may be about to write the note: the interface has no guard against that.
func (s *ticketScene) writeLine(random *rand.Rand) {
	all := s.appliance.Latest()
	id := fmt.Sprint(all[random.IntN(len(all))].ID)
	s.mu.Lock()
	defer s.mu.Unlock()
	n := s.note(id)
	const writing = 3 * time.Second // longer than any fault
	if time.Since(n.reading) < writing {
		return
	}
	s.said++
	line := fmt.Sprintf("line %d of an analyst\n", s.said)
	text := line + s.text(id)
	if random.IntN(2) == 0 {
		text = strings.TrimSuffix(s.text(id), "\n") + "\n" + line
	}
	body, _ := json.Marshal(map[string]string{"note": text}) // strings cannot fail
	if ask(s.appliance, http.MethodPut, "/detections/"+id+"/notes", string(body)).Code == http.StatusNoContent {
		n.lines = append(n.lines, line)
	}
}

// configure writes a configuration, in which what becomes a comment, and who a person is, differs.
func (s *ticketScene) configure(t *testing.T, random *rand.Rand) {
	t.Helper()
	comments := []string{"status, assignee, noted", "status, assignee, risk_score", "assignee, noted"}
	yaml := fmt.Sprintf(`
state: %s
log: {level: warn}
admin: {listen: %q}
appliances:
  - name: hq
    notes: {in: true, interval: 10s}
    url: http://%s
    api_key: %s
    rate_limit: 1000
    timeout: 1s
    retry: {initial: 10ms, max: 50ms}
    detections: {start: beginning, interval: 20ms}
    audit: {enabled: false}
sinks:
  - {name: log, file: {path: %q}}
  - name: tickets
    retry: {initial: 10ms, max: 50ms}
    webhook:
      url: http://%s
      timeout: 1s
      auth: {username: bridge, password: stand-in}
      ticket:
        system: jira
        project: SEC
        search_delay: 1s
        follow:
          comment: [%s]
          states: {closed: {to: Done, fields: {resolution: Done}}, reopened: {to: To Do}}
          keep_closed: ["Won't Do"]
          people: {ana: a-%d}
          open_again: true
tickets: {enabled: true, notes: {out: true, interval: 300ms}}
`, s.state, s.address, s.proxies[0].Addr(), standin.DefaultAPIKey, s.file, s.proxies[1].Addr(), comments[random.IntN(len(comments))], 1+random.IntN(2))
	require.NoError(t, os.WriteFile(s.config, []byte(yaml), 0o600))
}

// change changes detections and tickets until stop is called.
func (s *ticketScene) change(t *testing.T) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	var changing sync.WaitGroup
	changing.Go(func() {
		random := rand.New(rand.NewPCG(s.seed, 1))
		each(ctx, 100*time.Millisecond, func() { s.changeDetection(t, random) })
	})
	changing.Go(func() {
		random := rand.New(rand.NewPCG(s.seed, 2))
		each(ctx, 150*time.Millisecond, func() { s.changeTicket(random) })
	})
	changing.Go(func() {
		random := rand.New(rand.NewPCG(s.seed, 4))
		each(ctx, 150*time.Millisecond, func() { s.writeLine(random) })
	})
	stop = func() { cancel(); changing.Wait() }
	t.Cleanup(stop)
	return stop
}

func (s *ticketScene) changeDetection(t *testing.T, random *rand.Rand) {
	all := s.appliance.Latest()
	if len(all) < 200 && random.IntN(20) == 0 {
		s.appliance.AddMany(1)
		return
	}
	id := all[random.IntN(len(all))].ID
	what, choice := random.IntN(4), random.IntN(4)
	require.NoError(t, s.appliance.UpdateAs("ana", func(d *standin.Detection) {
		switch {
		case what == 0:
			d.Assignee = []standin.Text{"ana", "ben", "", "ana"}[choice]
		case what == 1:
			score := choice * 20
			d.RiskScore = &score
		default:
			d.Status = []standin.Text{"new", "in_progress", "closed", "closed"}[choice]
		}
	}, id))
}

// changeTicket moves, comments or deletes a ticket, as people do.
func (s *ticketScene) changeTicket(random *rand.Rand) {
	issues := s.jira.Issues()
	if len(issues) == 0 {
		return
	}
	id := issues[random.IntN(len(issues))].ID
	switch what := random.IntN(100); {
	case what == 0:
		s.jira.Delete(id)
	case what < 40:
		s.mu.Lock()
		s.said++
		text := fmt.Sprintf("comment %d of a person", s.said)
		s.mu.Unlock()
		s.jira.Comment(id, text, "a-1")
	default:
		status := []string{"To Do", "In Progress", "Done", "Won't Do"}[random.IntN(4)]
		s.mu.Lock()
		defer s.mu.Unlock()
		s.jira.Change(id, func(i *jira.Issue) {
			i.Status = jira.StatusNamed(status)
			s.moved[id] = personMove{status, time.Now()}
		})
	}
}

// progress waits until there is another comment by the bridge.
func (s *ticketScene) progress(t *testing.T, b *bridge) {
	t.Helper()
	before := s.commented()
	for deadline := time.Now().Add(patience); s.commented() == before; time.Sleep(20 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("no comment follows\n%s", b.output.end())
		}
	}
}

// commented counts the comments by the bridge.
func (s *ticketScene) commented() (n int) {
	for _, i := range s.jira.Issues() {
		for _, c := range i.Comments {
			if c.Author == "bridge" {
				n++
			}
		}
	}
	return n
}

// calm ends all disturbances.
func (s *ticketScene) calm() {
	s.appliance.SetHazards(standin.Hazards{})
	for _, p := range s.proxies {
		p.Calm()
	}
}

// await waits until there are no faults. It fails if there is no progress.
func (s *ticketScene) await(t *testing.T, b *bridge) {
	t.Helper()
	since, last := time.Now(), ""
	for {
		faults := s.faults(t)
		if len(faults) == 0 {
			return
		}
		if text := fmt.Sprint(faults, s.commented()); text != last {
			since, last = time.Now(), text
		}
		if time.Since(since) > patience/5 {
			t.Fatalf("no progress: %s\nthe last bridge wrote:\n%s", strings.Join(faults, "\n"), b.output.end())
		}
		time.Sleep(500 * time.Millisecond)
	}
}

// followedVersion is what the bridge delivered of a detection.
type followedVersion struct {
	status  string
	closing time.Time // when it was last closed, or reopened
	read    time.Time // of the last version
}

// delivered returns the last states of the detections in the file.
func (s *ticketScene) delivered(t *testing.T) map[string]followedVersion {
	t.Helper()
	file, err := os.ReadFile(s.file)
	require.NoError(t, err)
	all := make(map[string]followedVersion)
	for line := range bytes.Lines(file) {
		e, err := transform.Parse(bytes.TrimSuffix(line, []byte("\n")))
		if err != nil { // it is being written
			break
		}
		if e.Stream() != "detections" || e.IsFollowUp() {
			continue
		}
		v, found := all[e.Subject]
		if found && !e.RecordedTime.After(v.read) {
			continue // it was delivered again
		}
		var data struct{ Detection struct{ Status string } }
		require.NoError(t, json.Unmarshal(e.Data(), &data))
		if !found || (data.Detection.Status == "closed") != (v.status == "closed") {
			v.closing = e.When()
		}
		v.status, v.read = data.Detection.Status, e.RecordedTime
		all[e.Subject] = v
	}
	return all
}

var commentKey = regexp.MustCompile(`ndrbridge event hq/[^"\s]+`)

// faults returns what is wrong with the tickets at rest.
func (s *ticketScene) faults(t *testing.T) (faults []string) {
	t.Helper()
	byDetection := make(map[string][]jira.Issue)
	for _, i := range s.jira.Issues() {
		for _, label := range i.Labels {
			if id, found := strings.CutPrefix(label, "ndrbridge-hq-"); found {
				byDetection[id] = append(byDetection[id], i)
			}
		}
	}
	delivered := s.delivered(t)
	for _, v := range s.appliance.Latest() {
		id := fmt.Sprint(v.ID)
		d := delivered[id]
		if d.status != v.Status {
			faults = append(faults, fmt.Sprintf("detection %s is %s and was delivered as %q", id, v.Status, d.status))
			continue
		}
		switch issues := byDetection[id]; len(issues) {
		case 0:
			if v.TicketID == "" {
				faults = append(faults, "detection "+id+" has no ticket")
			}
		case 1:
			faults = append(slices.Concat(faults, s.faultsOf(issues[0], d)), s.faultsInNote(issues[0], id)...)
		default:
			faults = append(faults, fmt.Sprintf("detection %s has %d tickets", id, len(issues)))
		}
	}
	return faults
}

// faultsOf returns what is wrong with the ticket of a detection.
func (s *ticketScene) faultsOf(i jira.Issue, d followedVersion) (faults []string) {
	seen := make(map[string]bool)
	for _, c := range i.Comments {
		if key := commentKey.FindString(string(c.Body)); key != "" && seen[key] {
			faults = append(faults, fmt.Sprintf("%s has two comments on %s", i.Key, key))
		} else {
			seen[key] = true
		}
	}
	s.mu.Lock()
	person := s.moved[i.ID]
	s.mu.Unlock()
	byPerson := person.status == i.Status.Name && !person.at.Before(d.closing)
	if closed := i.Status.Category == "done"; closed != (d.status == "closed") && !byPerson && i.Status.Name != "Won't Do" {
		faults = append(faults, fmt.Sprintf("%s is %s, its detection is %s since %v, and a person moved it to %q at %v", i.Key, i.Status.Name, d.status, d.closing, person.status, person.at))
	}
	return faults
}

var saidByPerson = regexp.MustCompile(`comment \d+ of a person`)

// faultsInNote returns what is wrong with the note of a detection, which has a ticket.
func (s *ticketScene) faultsInNote(i jira.Issue, id string) (faults []string) {
	analysts, entries := notes.Split(s.text(id))
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, line := range s.note(id).lines {
		if n := strings.Count("\n"+analysts+"\n", "\n"+line); n != 1 {
			faults = append(faults, fmt.Sprintf("the note of detection %s has %q %d times", id, line, n))
		}
	}
	added := map[string]int{}
	for _, e := range entries {
		added[e.Text]++
	}
	for _, c := range i.Comments {
		text := saidByPerson.FindString(string(c.Body))
		if c.Author == "bridge" {
			if text != "" {
				faults = append(faults, fmt.Sprintf("%s has %q from its own note", i.Key, text))
			}
		} else if added[text] != 1 {
			faults = append(faults, fmt.Sprintf("the note of detection %s has %q %d times", id, text, added[text]))
		}
	}
	return faults
}

// log reports what happened.
func (s *ticketScene) log(t *testing.T) {
	t.Helper()
	t.Logf("%d detections, %d tickets, of which people moved %d, %d comments by the bridge; %d faults at the appliance, %d at the ticket system",
		s.appliance.Len(), len(s.jira.Issues()), len(s.moved), s.commented(), total(s.proxies[0].Injected()), total(s.proxies[1].Injected()))
}
