//go:build e2e

package e2e

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"ndrbridge/internal/finding"
	"ndrbridge/internal/jsonscan"
	"ndrbridge/internal/notes"
	standin "ndrbridge/test/appliance"
	"ndrbridge/test/assert"
	"ndrbridge/test/require"
	"ndrbridge/transform"
)

// TestTickets lets tickets of Debian's Request Tracker and Redmine follow detections.
func TestTickets(t *testing.T) {
	program := buildBridge(t)
	for name, start := range map[string]func(testing.TB) *ticketSystem{"rt": startRT, "redmine": startRedmine} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := start(t)
			t.Run("a ticket follows its detection", func(t *testing.T) { s.follows(t, program) })
			t.Run("kills of the bridge double nothing and lose nothing", func(t *testing.T) { s.survivesKills(t, program) })
		})
	}
}

// ticketScene is an appliance, a bridge whose sinks are a ticket system and a file with all events,
// and the system.
type ticketScene struct {
	*ticketSystem
	appliance *standin.Appliance
	program   string
	config    string
	file      string
	before    []string // the tickets of earlier scenes
}

// searchDelay is longer than a system takes to create a ticket after the bridge that asked for it
// was killed.
const searchDelay = 5 * time.Second

func (s *ticketSystem) scene(t *testing.T, program string) *ticketScene {
	t.Helper()
	c := &ticketScene{ticketSystem: s, program: program, file: filepath.Join(t.TempDir(), "events"), before: s.all(t)}
	key := filepath.Join(t.TempDir(), "key")
	require.NoError(t, os.WriteFile(key, []byte(s.keys["ndrbridge"]+"\n"), 0o600))
	var address string
	c.appliance, address = startAppliance(t)
	c.config = writeConfig(t, address, 50*time.Millisecond, fmt.Sprintf(`
sinks:
  - name: tickets
    webhook:
      url: %s
      auth: {bearer_file: %s}
      ticket:
        %s
        search_delay: %s
        follow:
          comment: [status, assignee]
          states: {closed: {to: %s, fields: {%s}}, reopened: {to: %s}}
          people: {ana: %q}
    start: beginning
    retry: {initial: 50ms, max: 500ms}
    batch: {linger: 0}
  - {name: events, start: beginning, file: {path: %q}}
tickets: {enabled: true, notes: {out: true, interval: 300ms}}
`, s.url, key, strings.ReplaceAll(s.ticket, ", ", "\n        "), searchDelay, s.closed, s.fields, s.open, s.ana, c.file))
	return c
}

// add adds a detection without a ticket and returns its id.
func (c *ticketScene) add() int64 {
	d := c.appliance.Generate()
	d.TicketID, d.Status, d.Resolution, d.Assignee = standin.TicketID{}, "new", "", ""
	return c.appliance.Add(d)[0].ID
}

func (c *ticketScene) set(t *testing.T, id int64, change func(*standin.Detection)) {
	t.Helper()
	require.NoError(t, c.appliance.Update(change, id))
}

// status sets the status of a detection.
func (c *ticketScene) status(t *testing.T, id int64, status string) {
	t.Helper()
	c.set(t, id, func(d *standin.Detection) {
		d.Status, d.Resolution = standin.Text(status), ""
		if status == "closed" {
			d.Resolution = "action_taken"
		}
	})
}

// detection returns what the appliance shows of a detection.
func (c *ticketScene) detection(id int64) standin.Version {
	for _, v := range c.appliance.Latest() {
		if v.ID == id {
			return *v
		}
	}
	return standin.Version{}
}

// awaitNote waits until the note of a detection has comments, and nothing else.
func (c *ticketScene) awaitNote(t *testing.T, b *bridge, id int64, comments ...string) {
	t.Helper()
	eventually(t, time.Minute, func() error {
		r := httptest.NewRequest(http.MethodGet, fmt.Sprint("/api/v1/detections/", id, "/notes"), nil)
		r.Header.Set("Authorization", "Service apikey="+standin.DefaultAPIKey)
		answer := httptest.NewRecorder()
		c.appliance.ServeHTTP(answer, r)
		var n struct{ Note string }
		_ = json.Unmarshal(answer.Body.Bytes(), &n) // a 404 has none
		analysts, entries := notes.Split(n.Note)
		all := []string{}
		for _, e := range entries {
			all = append(all, e.Text)
		}
		slices.Sort(all)
		if analysts != "" || !slices.Equal(all, slices.Sorted(slices.Values(comments))) {
			return fmt.Errorf("the note is %q, not of %q\n%s", n.Note, comments, b.output.end())
		}
		return nil
	})
}

// run starts a bridge.
func (c *ticketScene) run(t *testing.T) *bridge {
	t.Helper()
	return runBridge(t, c.program, c.config)
}

// rest waits until the bridge has read everything, and both sinks have completed it.
func (c *ticketScene) rest(t *testing.T, b *bridge) {
	t.Helper()
	const poll, enough = "POST /detections/search", 10
	var events uint64
	since := c.appliance.Requests()[poll]
	eventually(t, 10*time.Minute, func() error {
		polls := c.appliance.Requests()[poll]
		status, err := b.statusOf(2)
		if err != nil {
			return err
		}
		for _, sink := range status.Sinks {
			if sink.LagEvents > 0 {
				since = polls
				return fmt.Errorf("the sink %s is %s, with %d events to go: %s", sink.Name, sink.State, sink.LagEvents, sink.Error)
			}
		}
		if now := status.State.Journal.Events; now != events || status.State.Commands.Pending > 0 {
			events, since = now, polls
		}
		if polls < since+enough {
			return errors.New("events still arrive")
		}
		return nil
	})
}

// events returns the events in the file, each once.
func (c *ticketScene) events(t *testing.T) (all []transform.Event) {
	t.Helper()
	text, err := os.ReadFile(c.file)
	require.NoError(t, err)
	seen := map[string]bool{}
	for line := range bytes.Lines(text) {
		e, err := transform.Parse(bytes.TrimSpace(line))
		require.NoError(t, err, string(line))
		if !seen[e.Source+e.ID] {
			seen[e.Source+e.ID] = true
			all = append(all, e)
		}
	}
	return all
}

// reported returns how often the bridge reported something of tickets, such as ticket.lost.
func (c *ticketScene) reported(t *testing.T, kind string) (n int) {
	t.Helper()
	for _, e := range c.events(t) {
		if e.Type == transform.TypePrefix+kind {
			n++
		}
	}
	return n
}

// follows takes one detection and its ticket through their lives.
func (s *ticketSystem) follows(t *testing.T, program string) {
	c := s.scene(t, program)
	d := c.add()
	b := c.run(t)
	ticket := ""
	is := func(what string, check func(shown) bool) {
		t.Helper()
		c.rest(t, b)
		now, err := c.look(t, ticket)
		require.NoError(t, err, what)
		require.True(t, check(now), what, fmt.Sprintf("%+v", now), b.output.end())
	}
	c.rest(t, b)
	require.Equal(t, len(c.all(t)), len(c.before)+1, "tickets")
	ticket = c.detection(d).TicketID
	require.Equal(t, ticket, c.all(t)[len(c.before)], "the detection's ticket")
	is("it is new", func(now shown) bool { return !now.closed && len(now.comments) == 0 })

	c.set(t, d, func(d *standin.Detection) { d.Assignee = "ana" })
	is("an assignee is assigned, with a comment", func(now shown) bool { return now.assignee == s.ana && len(now.comments) == 1 })
	c.status(t, d, "closed")
	is("a closed detection closes it", func(now shown) bool { return now.status == s.closed && len(now.comments) == 2 })
	c.status(t, d, "in_progress")
	is("a reopened one reopens it", func(now shown) bool { return now.status == s.open && len(now.comments) == 3 })
	c.comment(t, ticket, "a scanner")
	c.comment(t, ticket, "ours & known,\nso <fine>")
	c.awaitNote(t, b, d, "a scanner", "ours & known,\nso <fine>")

	b.terminate(t)
	c.checks(t)
	c.status(t, d, "closed")
	awaitNextSecond() // the systems record seconds
	c.setStatus(t, ticket, s.working)
	b = c.run(t)
	is("a person's later move wins", func(now shown) bool { return now.status == s.working && len(now.comments) == 4 })
	require.Equal(t, c.reported(t, "ticket.conflict"), 1, "conflicts")
	c.comment(t, ticket, "thanks")
	c.awaitNote(t, b, d, "a scanner", "ours & known,\nso <fine>", "thanks")

	c.status(t, d, "in_progress")
	c.rest(t, b)
	c.remove(t, ticket)
	c.status(t, d, "closed")
	c.rest(t, b)
	_, err := c.look(t, ticket)
	require.Equal(t, err, errNoTicket)
	require.Equal(t, c.reported(t, "ticket.lost"), 1, "lost tickets")
	require.Equal(t, len(c.all(t)), len(c.before), "tickets")
	b.terminate(t)
}

// checks checks the connection of a bridge that is configured with a status and a person who do not exist.
// The system must have a ticket.
func (c *ticketScene) checks(t *testing.T) {
	t.Helper()
	text, err := os.ReadFile(c.config)
	require.NoError(t, err)
	wrong := strings.NewReplacer("{closed: {to: ", "{acknowledged: {to: Nonsense}, closed: {to: ", "people: {", "people: {eve: \"999\", ").Replace(string(text))
	config := filepath.Join(t.TempDir(), "ndrbridge.yaml")
	require.NoError(t, os.WriteFile(config, []byte(wrong), 0o600))
	output, _ := exec.Command(c.program, "check", "--connect", "--config", config, "--json").Output() // fails
	found := map[string]string{}
	for line := range bytes.Lines(output) {
		var f finding.Finding
		require.NoError(t, json.Unmarshal(line, &f), string(line))
		if f.Target == "sink tickets" {
			found[f.Step] = string(f.Result) + ": " + f.Detail + "; " + f.Advice
		}
	}
	for step, says := range c.found {
		assert.Contains(t, found[step], says, step)
	}
}

// awaitNextSecond waits until the next second begins.
func awaitNextSecond() {
	now := time.Now()
	time.Sleep(now.Truncate(time.Second).Add(1100 * time.Millisecond).Sub(now))
}

// survivesKills kills the bridge KILLS times (20) while detections are added and changed and a person
// moves and comments one of the tickets.
func (s *ticketSystem) survivesKills(t *testing.T, program string) {
	kills, err := strconv.Atoi(cmp.Or(os.Getenv("KILLS"), "20"))
	require.NoError(t, err, "KILLS")
	c := s.scene(t, program)
	random := rand.New(rand.NewPCG(1, uint64(len(s.url))))
	detections, said := []int64{c.add()}, []string{}
	for n := range kills {
		b := c.run(t)
		if n%5 == 1 {
			detections = append(detections, c.add())
		}
		for range random.IntN(3) {
			time.Sleep(time.Duration(random.IntN(300)) * time.Millisecond)
			d := detections[random.IntN(len(detections))]
			status := "closed"
			if c.detection(d).Status == "closed" {
				status = "in_progress"
			}
			c.status(t, d, status)
		}
		if ticket := c.detection(detections[0]).TicketID; ticket != "" && n%5 == 3 {
			c.setStatus(t, ticket, []string{s.working, s.closed}[random.IntN(2)])
			said = append(said, fmt.Sprint("comment ", n))
			c.comment(t, ticket, said[len(said)-1])
		}
		time.Sleep(time.Duration(random.IntN(900)) * time.Millisecond)
		b.kill()
	}
	b := c.run(t)
	c.rest(t, b)
	awaitNextSecond() // the first detection changes after the person's last move
	for range 2 {
		status := "closed"
		if c.detection(detections[0]).Status == "closed" {
			status = "in_progress"
		}
		c.status(t, detections[0], status)
		c.rest(t, b)
	}
	c.awaitNote(t, b, detections[0], said...)
	b.terminate(t)

	require.Equal(t, len(c.all(t)), len(c.before)+len(detections), "tickets")
	want := map[int64]map[string]bool{} // the keys of the comments, by detection
	for _, d := range detections {
		want[d] = map[string]bool{}
	}
	for _, e := range c.events(t) {
		if strings.HasPrefix(e.Type, transform.TypePrefix+"detection.") && e.CausedBy == "" && jsonscan.At(e.Data(), "changes.status") != nil {
			var id int64
			_, err := fmt.Sscan(e.Subject, &id)
			require.NoError(t, err)
			want[id]["ndrbridge event hq/"+e.ID] = true
		}
	}
	total := 0
	for _, d := range detections {
		now := c.detection(d)
		ticket, err := c.look(t, now.TicketID)
		require.NoError(t, err, "ticket", now.TicketID)
		assert.Equal(t, ticket.closed, now.Status == "closed", "detection", d, "is", now.Status, "and its ticket", ticket.status)
		slices.Sort(ticket.comments)
		assert.EqualSlices(t, ticket.comments, slices.Sorted(maps.Keys(want[d])), "the comments of ticket", now.TicketID)
		total += len(ticket.comments)
	}
	t.Logf("%d kills, %d tickets, %d comments, %d conflicts", kills, len(detections), total, c.reported(t, "ticket.conflict"))
}
