//go:build e2e

package e2e

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"html"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"ndrbridge/test/loopback"
	"ndrbridge/test/require"
)

// ticketSystem is a ticket system in a process of its own, with one project or queue.
type ticketSystem struct {
	url                   string
	header                string            // of the account's secret
	keys                  map[string]string // the secrets of the accounts ndrbridge and ana
	ticket                string            // the sink's key ticket, without its braces and follow
	closed, open, working string            // statuses: of the two moves, and of a person's
	fields                string            // that are set with the first move
	ana                   string            // as an assignee
	found                 map[string]string // by ndrbridge check, if the status Nonsense and the person 999 are configured, too
	all                   func(t testing.TB) (ids []string)
	look                  func(t testing.TB, id string) (shown, error)
	setStatus             func(t testing.TB, id, status string) // as ana
	comment               func(t testing.TB, id, text string)   // as ana
	remove                func(t testing.TB, id string)
}

// shown is what a person sees of a ticket.
type shown struct {
	status, assignee string
	closed           bool
	comments         []string // the last lines of those on events
}

// isOnEvent reports whether the last line of a comment is that of the bridge's on an event.
func isOnEvent(line string) bool { return strings.HasPrefix(line, "ndrbridge event hq/") }

// errNoTicket means that a ticket was deleted.
var errNoTicket = errors.New("there is no such ticket")

// ask sends a request as an account, and decodes the answer into reply, unless that is nil.
func (s *ticketSystem) ask(t testing.TB, account, method, path string, body, reply any) error {
	t.Helper()
	encoded, err := json.Marshal(body)
	require.NoError(t, err)
	if body == nil {
		encoded = nil
	}
	r, err := http.NewRequestWithContext(t.Context(), method, s.url+path, bytes.NewReader(encoded))
	require.NoError(t, err)
	name, scheme, _ := strings.Cut(s.header, ": ")
	r.Header.Set(name, scheme+s.keys[account])
	r.Header.Set("Content-Type", "application/json")
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	require.NoError(t, err)
	switch {
	case answer.StatusCode == http.StatusNotFound:
		return errNoTicket
	case answer.StatusCode/100 != 2:
		return fmt.Errorf("%s %s: %s: %s", method, path, answer.Status, text)
	case reply != nil:
		return json.Unmarshal(text, reply)
	}
	return nil
}

// do is ask, and must succeed.
func (s *ticketSystem) do(t testing.TB, account, method, path string, body, reply any) {
	t.Helper()
	require.NoError(t, s.ask(t, account, method, path, body, reply))
}

// installed returns the path of a file of a Debian package.
func installed(t testing.TB, path string) string {
	t.Helper()
	if _, err := os.Stat(path); err != nil {
		t.Fatalf("%v: run .ci/tickets", err)
	}
	return path
}

// prepare runs a command of the system to its end, and returns its output without warnings.
func prepare(t testing.TB, folder string, environment []string, program string, arguments ...string) string {
	t.Helper()
	c := exec.CommandContext(t.Context(), program, arguments...)
	contain(c)
	var said, warned bytes.Buffer
	c.Dir, c.Env, c.Stdout, c.Stderr = folder, append(os.Environ(), environment...), &said, &warned
	require.NoError(t, c.Run(), program, arguments, said.String(), warned.String())
	return said.String()
}

// serve starts the system's server, and waits until it accepts connections.
func (s *ticketSystem) serve(t testing.TB, folder, address string, environment []string, program string, arguments ...string) {
	t.Helper()
	c := exec.Command(program, arguments...)
	c.Dir, c.Env = folder, append(os.Environ(), environment...)
	p := start(t, c)
	s.url = "http://" + address
	eventually(t, 2*time.Minute, func() error {
		if !p.running() {
			t.Fatalf("the server ended at once\n%s", p.output.end())
		}
		c, err := net.Dial("tcp", address)
		if err == nil {
			c.Close()
		}
		return err
	})
}

// accounts parses the lines that a script prints: a name, a secret, and perhaps an id.
func (s *ticketSystem) accounts(t testing.TB, printed string) (ids map[string]string) {
	t.Helper()
	s.keys, ids = map[string]string{}, map[string]string{}
	for line := range strings.Lines(printed) {
		if f := strings.Fields(line); len(f) >= 2 {
			s.keys[f[0]], ids[f[0]] = f[1], f[len(f)-1]
		}
	}
	require.Equal(t, len(s.keys), 2, printed)
	return ids
}

// startRT starts Debian's Request Tracker with a new database.
func startRT(t testing.TB) *ticketSystem {
	s := &ticketSystem{
		header: "Authorization: token ", ticket: "system: rt, project: SOC",
		closed: "resolved", open: "open", working: "stalled", fields: "Priority: \"7\", Comment: by the bridge, Content: by the bridge", ana: "ana",
		found: map[string]string{
			"rights": "ok: the account has the permission CommentOnTicket, ModifyTicket", "states": "ok: open (to rejected, resolved, stalled)",
			"moves": `warning: there may be no "Nonsense" (acknowledged)`, "people": `failed: there is no "999" (eve)`,
		},
	}
	server := installed(t, "/usr/share/request-tracker5/libexec/rt-server")
	folder, address := t.TempDir(), loopback.Free(t)
	_, port, _ := net.SplitHostPort(address)
	for _, name := range []string{"conf.d", "mason", "session"} {
		require.NoError(t, os.Mkdir(filepath.Join(folder, name), 0o700))
	}
	config := filepath.Join(folder, "RT_SiteConfig.pm")
	require.NoError(t, os.WriteFile(config, []byte(fmt.Sprintf(`
Set($rtname, 'test');
Set($Organization, 'test');
Set($WebDomain, '127.0.0.1');
Set($WebPort, %[2]s);
Set($DatabaseType, 'SQLite');
Set($DatabaseName, '%[1]s/rt.db');
Set($MasonDataDir, '%[1]s/mason');
Set($MasonSessionDir, '%[1]s/session');
Set($LogToSyslog, undef);
Set($LogToSTDERR, 'warning');
Set($MailCommand, 'testfile');
1;
`, folder, port)), 0o600))
	environment := []string{"RT_SITE_CONFIG=" + config, "RT_SITE_CONFIG_DIR=" + filepath.Join(folder, "conf.d")}
	script, err := filepath.Abs("rt_setup.pl")
	require.NoError(t, err)
	prepare(t, folder, environment, installed(t, "/usr/sbin/rt-setup-database-5"), "--action", "init", "--skip-create")
	s.accounts(t, prepare(t, folder, environment, "perl", script))
	s.serve(t, folder, address, environment, server, "--server", "Standalone", "--host", "127.0.0.1", "--port", port)

	const api = "/REST/2.0"
	type item struct {
		ID, Type, Data string
		Of             string `json:"type"` // which differs from Type by case alone
	}
	s.all = func(t testing.TB) (ids []string) {
		var reply struct{ Items []item }
		s.do(t, "ndrbridge", http.MethodGet, api+"/tickets?per_page=100&orderby=id&query="+url.QueryEscape("id > 0"), nil, &reply)
		for _, i := range reply.Items {
			ids = append(ids, i.ID)
		}
		return ids
	}
	s.look = func(t testing.TB, id string) (now shown, err error) {
		var ticket struct {
			Status string
			Owner  struct{ ID string }
		}
		if err := s.ask(t, "ndrbridge", http.MethodGet, api+"/ticket/"+id, nil, &ticket); err != nil {
			return now, err
		}
		var history struct{ Items []item }
		s.do(t, "ndrbridge", http.MethodGet, api+"/ticket/"+id+"/history?fields=Type,Data&per_page=100", nil, &history)
		now.status, now.assignee, now.closed = ticket.Status, ticket.Owner.ID, ticket.Status == "resolved" || ticket.Status == "rejected"
		for _, i := range history.Items {
			if key := strings.TrimSpace(i.Data); i.Type == "Comment" && isOnEvent(key) {
				now.comments = append(now.comments, key)
			}
		}
		if now.status == "deleted" {
			err = errNoTicket
		}
		return now, err
	}
	s.setStatus = func(t testing.TB, id, status string) {
		s.do(t, "ana", http.MethodPut, api+"/ticket/"+id, map[string]string{"Status": status}, nil)
	}
	s.remove = func(t testing.TB, id string) { s.setStatus(t, id, "deleted") }
	s.comment = func(t testing.TB, id, text string) {
		kind, message := "/comment", map[string]any{"Content": text, "ContentType": "text/plain"}
		if strings.Contains(text, "\n") { // it is a reply from an editor, with a file
			kind = "/correspond"
			message["Content"], message["ContentType"] = "<p>"+strings.ReplaceAll(html.EscapeString(text), "\n", "<br>")+"</p>", "text/html"
			message["Attachments"] = []map[string]string{{"FileName": "a.txt", "FileType": "text/plain", "FileContent": "Zg=="}}
		}
		s.do(t, "ana", http.MethodPost, api+"/ticket/"+id+kind, message, nil)
	}
	return s
}

// startRedmine starts Debian's Redmine with a new database.
func startRedmine(t testing.TB) *ticketSystem {
	s := &ticketSystem{
		header: "X-Redmine-API-Key: ", ticket: "system: redmine, project: soc",
		closed: "Closed", open: "In Progress", working: "Feedback", fields: "notes: by the bridge",
		found: map[string]string{
			"rights": "ok: the account has the permission Add issues, Add notes, Edit issues, View issues", "states": "ok: New (1), In Progress (2)",
			"moves": `failed: there is no "Nonsense" (acknowledged)`, "transitions": "is In Progress and may be New (1), In Progress (2)",
			"people": `failed: there is no "999" (eve); correct follow.people; there are ndrbridge Test`,
		},
	}
	root := installed(t, "/usr/share/redmine")
	folder, address := t.TempDir(), loopback.Free(t)
	_, port, _ := net.SplitHostPort(address)
	for _, name := range []string{"config", "files", "log", "tmp", "public"} {
		require.NoError(t, os.Mkdir(filepath.Join(folder, name), 0o700))
	}
	for name, text := range map[string]string{
		"database.yml":   fmt.Sprintf("production: {adapter: sqlite3, database: %q, encoding: utf8, timeout: 20000}\n", filepath.Join(folder, "redmine.db")),
		"secret_key.txt": strings.Repeat("0123456789abcdef", 4) + "\n",
	} {
		require.NoError(t, os.WriteFile(filepath.Join(folder, "config", name), []byte(text), 0o600))
	}
	environment := []string{
		"RAILS_ENV=production", "SCHEMA=" + filepath.Join(folder, "schema.rb"), "RUBYOPT=-rwebrick",
		"REDMINE_INSTANCE=" + strings.Repeat("../", 8) + strings.TrimPrefix(folder, "/"), // below a folder of the package otherwise
	}
	script, err := filepath.Abs("redmine_setup.rb")
	require.NoError(t, err)
	prepare(t, root, environment, "bin/rake", "db:migrate")
	s.ana = s.accounts(t, prepare(t, root, environment, "bin/rails", "runner", script))["ana"]
	s.serve(t, root, address, environment, "rackup", "-s", "webrick", "-E", "production", "-o", "127.0.0.1", "-p", port)

	type named struct {
		ID       int
		Name     string
		IsClosed bool `json:"is_closed"`
	}
	s.all = func(t testing.TB) (all []string) {
		var reply struct{ Issues []named }
		s.do(t, "ndrbridge", http.MethodGet, "/issues.json?project_id=soc&status_id=*&sort=id&limit=100", nil, &reply)
		for _, i := range reply.Issues {
			all = append(all, strconv.Itoa(i.ID))
		}
		return all
	}
	s.look = func(t testing.TB, id string) (now shown, err error) {
		var reply struct {
			Issue struct {
				Status     named
				AssignedTo named `json:"assigned_to"`
				Journals   []struct{ Notes string }
			}
		}
		if err := s.ask(t, "ndrbridge", http.MethodGet, "/issues/"+id+".json?include=journals", nil, &reply); err != nil {
			return now, err
		}
		now.status, now.closed, now.assignee = reply.Issue.Status.Name, reply.Issue.Status.IsClosed, strconv.Itoa(reply.Issue.AssignedTo.ID)
		for _, j := range reply.Issue.Journals {
			lines := strings.Split(strings.TrimSpace(j.Notes), "\n")
			if key := lines[len(lines)-1]; isOnEvent(key) {
				now.comments = append(now.comments, key)
			}
		}
		return now, nil
	}
	s.setStatus = func(t testing.TB, id, name string) {
		var reply struct {
			Statuses []named `json:"issue_statuses"`
		}
		s.do(t, "ana", http.MethodGet, "/issue_statuses.json", nil, &reply)
		for _, status := range reply.Statuses {
			if status.Name == name {
				s.do(t, "ana", http.MethodPut, "/issues/"+id+".json", map[string]any{"issue": map[string]int{"status_id": status.ID}}, nil)
			}
		}
	}
	s.comment = func(t testing.TB, id, text string) {
		for _, issue := range []map[string]any{{"notes": text}, {"notes": "for some", "private_notes": true}} {
			s.do(t, "ana", http.MethodPut, "/issues/"+id+".json", map[string]any{"issue": issue}, nil)
		}
	}
	s.remove = func(t testing.TB, id string) {
		s.do(t, "ana", http.MethodDelete, "/issues/"+id+".json", nil, nil)
	}
	return s
}
