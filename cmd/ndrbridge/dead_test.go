package main

import (
	"context"
	"encoding/json"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"ndrbridge/checkpoint"
	"ndrbridge/internal/admin"
	"ndrbridge/test/assert"
	"ndrbridge/test/require"
)

// addDeadLetters creates the state of an installation whose bridge has not run, with so many
// dead letters of its stream of detections.
func (i *installation) addDeadLetters(deadLetters int) {
	i.t.Helper()
	store, err := checkpoint.Open(filepath.Join(filepath.Dir(i.config), "state.db"), checkpoint.Options{})
	require.NoError(i.t, err)
	c := checkpoint.Commit{Source: checkpoint.Source{Appliance: "hq", Stream: "detections"}, Position: []byte(`{}`)}
	for n := range deadLetters {
		c.Dead = append(c.Dead, checkpoint.DeadLetter{
			Key: fmt.Sprintf("%03d", n), Class: "invalid", Reason: "id: no number", Time: time.Unix(int64(n), 0), Body: []byte("\xff\x1b not JSON"),
		})
	}
	require.NoError(i.t, store.Commit(i.t.Context(), c))
	require.NoError(i.t, store.Close())
}

func TestDeadLettersOfAStreamAreListed(t *testing.T) {
	t.Parallel()
	i := install(t)
	i.addDeadLetters(70)
	config := []string{"--config", i.config}
	for _, c := range []struct {
		name  string
		flags []string
		first string
		n     int
		more  string
	}{
		{"all of them, over several pages", []string{"--limit", "0"}, "000", 70, ""},
		{"a hundred at most where nothing is said", nil, "000", 70, ""},
		{"as many as were asked for", []string{"--limit", "40"}, "000", 40, "--after 039"},
		{"those behind a key", []string{"--after", "039"}, "040", 30, ""},
		{"no more than there are, when that is the limit", []string{"--limit", "70"}, "000", 70, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			out, errs := i.run(0, append(append([]string{"dead", "list", "hq/detections", "--json"}, c.flags...), config...)...)
			lines := strings.Split(strings.TrimSpace(out), "\n")
			var first struct {
				Key        string
				EventID    string          `json:"event_id"`
				Body       json.RawMessage `json:"body"`
				BodyBase64 []byte          `json:"body_base64"`
			}
			require.NoError(t, json.Unmarshal([]byte(lines[0]), &first))
			if len(lines) != c.n || first.Key != c.first || first.Body != nil || first.EventID != "" || string(first.BodyBase64) != "\xff\x1b not JSON" {
				t.Errorf("%d lines, the first of them %s", len(lines), lines[0])
			}
			assert.Equal(t, c.more != "", errs != "")
			assert.Contains(t, errs, c.more, "it says")
		})
	}
	i.expect(config, []expected{
		{[]string{"dead", "show", "hq/detections", "007"}, 0, []string{"event   -", `"\xff\x1b not JSON"`}},
		{[]string{"status"}, 0, []string{"ndrbridge dead list hq/detections"}},
		{[]string{"dead", "list"}, 0, []string{"hq/detections  invalid  70     1970-01-01T00:00:00Z  1970-01-01T00:01:09Z  069  id: no number"}},
		{[]string{"dead", "list", "hq/detections", "--group", "--json"}, 0, []string{
			`{"appliance":"hq","stream":"detections","class":"invalid","reason":"id: no number","count":70,"first":"1970-01-01T00:00:00Z","last":"1970-01-01T00:01:09Z","example_key":"069"}`}},
		{[]string{"dead", "list", "log", "--group"}, 0, []string{"log has no dead letters"}},
		{[]string{"dead", "list", "none", "--group"}, 1, []string{"unknown sink", "log"}},
		{[]string{"replay", "log", "--since", "-1h", "--dry-run"}, 1, []string{`unknown sink "log": the state has none, because no bridge has run with it yet`}},
		{[]string{"dead", "list", "--after", "039"}, 2, []string{"--after continues the list of one sink or stream"}},
		{[]string{"dead", "list", "log", "hq/detections"}, 2, []string{"at most SINK|APPLIANCE/STREAM, got 2 arguments"}},
		{[]string{"dead", "drop", "hq/detections", "--all", "--yes"}, 0, []string{"70 dead letters of hq/detections dropped"}},
		{[]string{"dead", "list", "hq/detections"}, 0, []string{"hq/detections has no dead letters"}},
	})
}

func TestReasonsOfGroupsAreNotTruncated(t *testing.T) {
	var out strings.Builder
	c := &command{stdout: &out, terminal: true, environ: []string{"NO_COLOR=1", "COLUMNS=80"}}
	url := "POST to https://collector.example:8088/services/collector/event: "
	all := make(admin.Operations)
	admin.API.GroupDeadLetters.By(all, func(context.Context, admin.GroupsRequest) (admin.DeadGroups, error) {
		return admin.DeadGroups{Total: 2, Groups: []admin.DeadGroup{
			{Sink: "lake", Class: "rejected", Reason: url + "no such index", Count: 1}, {Sink: "lake", Class: "rejected", Reason: url + "too large", Count: 1},
		}}, nil
	})
	if err := c.listDeadGroups(t.Context(), admin.NewLocal(all), "", admin.OfDead{}, 0); err != nil || !strings.Contains(out.String(), "no such index") || !strings.Contains(out.String(), "too large") {
		t.Errorf("%v\n%s", err, out.String())
	}
}
