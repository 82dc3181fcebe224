package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"ndrbridge/checkpoint"
	"ndrbridge/internal/admin"
	"ndrbridge/test/assert"
	"ndrbridge/test/require"
)

func TestTheStateIsShown(t *testing.T) {
	t.Parallel()
	i := install(t)
	offline := []string{"--config", i.config}
	i.expect(offline, []expected{{[]string{"state", "show"}, 1, []string{"there is no state at ", "no bridge answers at "}}})
	i.appliance.AddMany(3)
	stop := i.start()
	i.await("detections", 3)
	i.expect(offline, []expected{{[]string{"state", "show"}, 0, []string{"3 events", "Positions and cursors are shown only while", "log "}}})
	stop()
	i.expect(offline, []expected{
		{[]string{"state", "show"}, 0, []string{"3 events", "numbers 1 to 3", "hq", "records/all", `"mod_time"`, "log   3"}},
	})
	out, _ := i.run(0, append([]string{"state", "show", "--json"}, offline...)...)
	var shown struct {
		Running bool
		Path    string
		Journal struct{ Events int }
		Streams []struct {
			Stream   string
			Position json.RawMessage
		}
		Sinks []struct {
			Name       string
			Configured bool
			Cursor     int
		}
	}
	require.NoError(t, json.Unmarshal([]byte(out), &shown))
	if shown.Running || shown.Path == "" || shown.Journal.Events != 3 || len(shown.Streams) != 3 || shown.Streams[0].Position == nil ||
		len(shown.Sinks) != 1 || !shown.Sinks[0].Configured || shown.Sinks[0].Cursor != 3 {
		t.Errorf("state show --json prints %s", out)
	}
}

func TestStateShowsPendingCommands(t *testing.T) {
	t.Parallel()
	i := install(t)
	i.start()()
	store, err := checkpoint.Open(filepath.Join(filepath.Dir(i.config), "state.db"), checkpoint.Options{})
	require.NoError(t, err)
	body := []byte("{}")
	_, err = store.Accept(t.Context(), []checkpoint.Command{{Appliance: "hq", Body: body}, {Appliance: "hq", Body: body}, {Appliance: "hq", Body: body}})
	if err == nil {
		err = store.Finish(t.Context(), checkpoint.Outcome{ID: 1, State: checkpoint.CommandApplied, Done: time.Now()})
	}
	require.NoError(t, errors.Join(err, store.Close()))
	offline := []string{"--config", i.config}
	i.expect(offline, []expected{
		{[]string{"state", "show"}, 0, []string{"2 commands pending, 1 done"}},
		{[]string{"state", "show", "--json"}, 0, []string{`"commands":{"pending":2,"done":1}`}},
	})
	stop := i.start()
	defer stop()
	i.expect(offline, []expected{{[]string{"state", "show"}, 0, []string{"2 commands pending, 1 done"}}})
}

func TestTheStateIsBackedUp(t *testing.T) {
	t.Parallel()
	i := install(t)
	i.appliance.AddMany(3)
	stop := i.start()
	i.await("detections", 3)
	folder := t.TempDir()
	first, second := filepath.Join(folder, "first.db"), filepath.Join(folder, "second.db")
	i.expect(i.byAddress(), []expected{
		{[]string{"state", "backup", first}, 0, []string{first + ": ", "iB"}},
		{[]string{"state", "backup", first}, 1, []string{"exists already", "--force"}},
		{[]string{"state", "backup", first, "--force", "--json"}, 0, []string{`"bytes":`}},
		{[]string{"state", "backup", folder, "--force"}, 1, []string{"is not a regular file"}},
		{[]string{"state", "backup", filepath.Join(filepath.Dir(i.config), "state.db"), "--force"}, 1, []string{"is the state itself"}},
		{[]string{"state", "backup", filepath.Join(folder, "none", "x.db")}, 1, []string{"no such file"}},
		{[]string{"state", "backup", "-", "--json"}, 2, []string{"--json requires a file"}},
	})
	stop()
	i.expect([]string{"--config", i.config}, []expected{{[]string{"state", "backup", second}, 0, []string{second}}})
	third := filepath.Join(folder, "third.db")
	out, _ := i.run(0, "state", "backup", "-", "--config", i.config)
	require.NoError(t, os.WriteFile(third, []byte(out), 0o600))
	for _, path := range []string{first, second, third} {
		info, err := os.Stat(path)
		if err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("%v (%v)", info, err)
		}
		store := require.Value(checkpoint.Open(path, checkpoint.Options{}))(t)
		stats := require.Value(store.Stats(t.Context()))(t)
		assert.Equal(t, stats.Last, 3, path, "holds", "events")
		require.NoError(t, store.Close())
	}
	left := require.Value(filepath.Glob(filepath.Join(folder, ".*")))(t)
	assert.Empty(t, left, "are left behind")
}

func TestStateMaintenance(t *testing.T) {
	t.Parallel()
	r := receive(t)
	r.refusing.Store(true)
	i := install(t, r.sink())
	i.appliance.AddMany(3)
	i.appliance.AddAudit(2)
	offline := []string{"--config", i.config}
	i.expect(offline, []expected{{[]string{"state", "compact"}, 1, []string{"there is no state at "}}})
	stop := i.start()
	i.awaitSink("one with two dead letters", func(s admin.SinkStatus) bool { return s.DeadLetters == 2 })
	i.expect(offline, []expected{{[]string{"state", "compact"}, 1, []string{"stop the bridge"}}})
	stop()
	i.expect(offline, []expected{
		{[]string{"state", "compact"}, 0, []string{"before", "now"}},
		{[]string{"state", "compact", "--json"}, 0, []string{`{"before_bytes":`, `"after_bytes":`}},
		{[]string{"state", "forget", "soc"}, 1, []string{"the configuration has the sink soc"}},
		{[]string{"state", "rename", "soc", "chat"}, 1, []string{"the configuration has the sink soc"}},
	})
	text := require.Value(os.ReadFile(i.config))(t)
	require.NoError(t, os.WriteFile(i.config, bytes.Replace(text, []byte("name: soc"), []byte("name: chat"), 1), 0o600))
	i.expect(offline, []expected{
		{[]string{"status"}, 0, []string{"soc is not configured: delete its state with ndrbridge state forget soc"}},
		{[]string{"state", "rename", "none", "chat"}, 1, []string{"none"}},
		{[]string{"state", "rename", "soc", "chat"}, 0, []string{"the state of sink soc now belongs to chat"}},
		{[]string{"dead", "list", "chat"}, 0, []string{"rejected"}},
	})
	stop = i.start()
	i.expect(offline, []expected{
		{[]string{"state", "forget", "chat", "--yes"}, 1, []string{"the configuration has the sink chat"}},
		{[]string{"state", "rename", "chat", "other"}, 1, []string{"the configuration has the sink chat"}},
		{[]string{"state", "rename", "none", "other"}, 1, []string{"none"}},
	})
	stop()
	assert.Equal(t, r.taken.Load(), 3, "events of the renamed sink")
	require.NoError(t, os.WriteFile(i.config, []byte(strings.Replace(string(text), r.sink(), "", 1)), 0o600))
	forget := func(sink string) []expected {
		return []expected{
			{[]string{"state", "forget", "none"}, 1, []string{"none"}},
			{[]string{"state", "forget", sink}, 2, []string{"2 dead letters", "--yes is required"}},
			{[]string{"state", "forget", sink, "--yes", "--json"}, 0, []string{`{"forgotten":"` + sink + `"}`}},
			{[]string{"state", "forget", sink, "--yes"}, 1, []string{sink}},
		}
	}
	backup := filepath.Join(t.TempDir(), "state.db")
	i.expect(offline, []expected{{[]string{"state", "backup", backup}, 0, nil}})
	i.expect(offline, forget("chat"))
	// The same, while a bridge without the sink runs.
	require.NoError(t, os.Rename(backup, filepath.Join(filepath.Dir(i.config), "state.db")))
	defer i.start()()
	i.expect(offline, []expected{
		{[]string{"state", "rename", "none", "talk"}, 1, []string{"none"}},
		{[]string{"state", "rename", "chat", "log"}, 1, []string{"sink log is configured"}},
		{[]string{"state", "rename", "chat", "talk"}, 0, []string{"the state of sink chat now belongs to talk"}},
	})
	i.expect(offline, forget("talk"))
}

func TestAnApplianceIsForgotten(t *testing.T) {
	t.Parallel()
	r := receive(t)
	i := install(t, r.sink())
	i.appliance.AddMany(3)
	offline := []string{"--config", i.config}
	stop := i.start()
	i.awaitSink("three events", func(admin.SinkStatus) bool { return r.taken.Load() == 3 })
	i.expect(offline, []expected{{[]string{"state", "forget", "--appliance", "hq", "--yes"}, 1, []string{"the configuration has the appliance hq"}}})
	stop()
	i.expect(offline, []expected{
		{[]string{"state", "forget", "--identity", "hq"}, 2, []string{"--identity requires --appliance"}},
		{[]string{"state", "forget", "--appliance", "none", "--yes"}, 1, []string{`appliance "none"`}},
		{[]string{"state", "forget", "--appliance", "none", "--identity"}, 1, []string{`appliance "none"`}},
		{[]string{"state", "forget", "--appliance", "hq"}, 2, []string{"the known detections of", "--yes is required"}},
		{[]string{"state", "forget", "--appliance", "hq", "--yes"}, 0, []string{"the state of appliance hq is deleted"}},
		{[]string{"state", "forget", "--appliance", "hq", "--yes"}, 1, []string{"the state keeps nothing of it"}},
	})
	defer i.start()()
	i.awaitSink("the same three from the start", func(admin.SinkStatus) bool { return r.taken.Load() == 6 })
}

func TestAStateIsNotWrittenToATerminal(t *testing.T) {
	i := install(t)
	i.start()()
	exit, out, errs := (&command{terminal: true}).try(t, "", "state", "backup", "-", "--config", i.config)
	if exit != 2 || out != "" || !strings.Contains(errs, "redirect") {
		t.Errorf("exit %d: %s", exit, errs)
	}
}
