package slack

import (
	"bytes"
	"testing"
	"time"

	"ndrbridge/checkpoint"
	"ndrbridge/internal/failure"
	"ndrbridge/sinks/webhook"
	"ndrbridge/test/assert"
	"ndrbridge/test/presettest"
	"ndrbridge/test/require"
	"ndrbridge/transform"
)

// batch holds the events of one Send, a change made before it, and the expected calls
// of the bot.
type batch struct {
	before func(*workspace, *webhook.PresetSettings)
	events []transform.Event
	want   string
}

// seenAt is a version that was seen when another one was.
func seenAt(version, other transform.Event) transform.Event {
	version.RecordedTime = other.RecordedTime
	return version
}

func TestLaterVersionsFollowTheirMessage(t *testing.T) {
	v := func(id, minute int, status string) transform.Event { return presettest.Version(t, id, minute, status) }
	f := func(id, minute int, kind string) transform.Event { return presettest.FollowUp(t, id, minute, kind) }
	of := func(events ...transform.Event) []transform.Event { return events }
	named := map[string]transform.Event{}
	for _, kind := range presettest.Events(t) {
		named[kind.Name] = kind.Event
	}
	var burst []transform.Event
	for id := range 6 {
		burst = append(burst, v(id, 0, "new"))
	}
	for _, test := range []struct {
		name    string
		updates string
		batches []batch
	}{
		{"a later version edits the message", edit, []batch{
			{nil, of(v(1, 0, "new")), "post 1"}, {nil, of(v(1, 1, "in_progress")), "edit 1"}, {nil, of(v(1, 2, "closed")), "edit 1"},
		}},
		{"that is what a bot does where nothing is said", "", []batch{{nil, of(v(1, 0, "new"), v(1, 1, "new")), "post 1, edit 1"}}},
		{"a later version replies in the thread", thread, []batch{
			{nil, of(v(1, 0, "new")), "post 1"}, {nil, of(v(1, 1, "new"), v(1, 2, "in_progress")), "reply 1 as 2, reply 1 as 3"},
		}},
		{"a thread's message shows that the detection is closed, and that it is no longer", thread, []batch{
			{nil, of(v(1, 0, "new"), v(1, 1, "closed"), v(1, 2, "new"), v(1, 3, "new")),
				"post 1, edit 1, reply 1 as 2, edit 1, reply 1 as 3, reply 1 as 4"},
		}},
		{"a later version is another message where that is asked for", post, []batch{
			{nil, of(v(1, 0, "new")), "post 1"}, {nil, of(v(1, 1, "new")), "post 2"}, {nil, of(v(1, 2, "new"), v(2, 0, "new")), "post 3"},
		}},
		{"each detection has a message of its own", edit, []batch{
			{nil, of(v(1, 0, "new"), v(2, 0, "new"), v(1, 1, "new"), v(2, 1, "new")), "post 1, post 2, edit 1, edit 2"},
		}},
		{"the same version again changes nothing", edit, []batch{
			{nil, of(v(1, 0, "new"), v(1, 1, "new")), "post 1, edit 1"}, {nil, of(v(1, 1, "new").Redeliver(1)), "edit 1"},
		}},
		{"an older version does not replace a newer one", edit, []batch{
			{nil, of(v(1, 0, "new"), v(1, 2, "closed")), "post 1, edit 1"},
			{nil, of(v(1, 0, "new").Redeliver(1), v(1, 1, "new").Redeliver(2)), "reply 1 as 2, reply 1 as 3"},
			{nil, of(v(1, 3, "new")), "edit 1"},
		}},
		{"a version whose mod_time went back replaces the one before it", edit, []batch{
			{nil, of(v(1, 5, "new"), seenAt(v(1, 2, "closed"), v(1, 6, ""))), "post 1, edit 1"},
			{nil, of(v(1, 5, "new").Redeliver(1)), "reply 1 as 2"},
			{nil, of(seenAt(v(1, 3, "new"), v(1, 7, ""))), "edit 1"},
		}},
		{"nor does it in a thread", thread, []batch{
			{nil, of(v(1, 0, "new"), v(1, 2, "closed")), "post 1, edit 1, reply 1 as 2"},
			{nil, of(v(1, 1, "new").Redeliver(1)), "reply 1 as 3"},
		}},
		{"a message that was deleted is posted again, and edited from then on", edit, []batch{
			{nil, of(v(1, 0, "new")), "post 1"},
			{func(w *workspace, _ *webhook.PresetSettings) { w.messages[0].deleted = true }, of(v(1, 1, "new")), "post 2"},
			{nil, of(v(1, 2, "new")), "edit 2"},
		}},
		{"so is one that is another bot's", edit, []batch{
			{nil, of(v(1, 0, "new")), "post 1"},
			{func(_ *workspace, o *webhook.PresetSettings) { o.Key = "another" }, of(v(1, 1, "new"), v(1, 2, "new")), "post 2, edit 2"},
		}},
		{"so is one that can be edited no more", edit, []batch{
			{nil, of(v(1, 0, "new")), "post 1"},
			{func(w *workspace, _ *webhook.PresetSettings) { w.fixed = true }, of(v(1, 1, "new")), "post 2"},
		}},
		{"so is one whose thread is not there", thread, []batch{
			{nil, of(v(1, 0, "new")), "post 1"},
			{func(w *workspace, _ *webhook.PresetSettings) { w.fault = "thread_not_found" }, of(v(1, 1, "new")), "post 2"},
			{nil, of(v(1, 2, "new")), "reply 2 as 3"},
		}},
		{"so is one in a channel that is another by now", edit, []batch{
			{nil, of(v(1, 0, "new")), "post 1"},
			{func(w *workspace, _ *webhook.PresetSettings) { w.channels["#soc"] = "C7"; delete(w.channels, "C1") }, of(v(1, 1, "new")), "post 2"},
		}},
		{"a reply that has lost its thread is the message from then on", thread, []batch{
			{nil, of(v(1, 0, "new")), "post 1"},
			{func(w *workspace, _ *webhook.PresetSettings) { w.messages[0].deleted = true }, of(v(1, 1, "new")), "post 2"},
			{nil, of(v(1, 2, "new")), "reply 2 as 3"},
		}},
		{"another channel has messages of its own", edit, []batch{
			{nil, of(v(1, 0, "new")), "post 1"},
			{func(_ *workspace, o *webhook.PresetSettings) { o.Channel = "#noc" }, of(v(1, 1, "new"), v(1, 2, "new")), "post 2, edit 2"},
		}},
		{"a burst is one summary, and the next version of what was in it is posted", edit, []batch{
			{nil, burst, "post 1"}, {nil, of(v(1, 1, "new")), "post 2"}, {nil, of(v(1, 2, "new")), "edit 2"},
		}},
		{"what has a message is edited in a burst, too", edit, []batch{
			{nil, of(v(9, 0, "new")), "post 1"}, {nil, append(of(v(9, 1, "new")), burst...), "edit 1, post 2"},
		}},
		{"many versions of one detection are no burst", edit, []batch{
			{nil, of(v(1, 0, "new"), v(1, 1, "new"), v(1, 2, "new"), v(1, 3, "new"), v(1, 4, "new"), v(1, 5, "new")),
				"post 1, edit 1, edit 1, edit 1, edit 1, edit 1"},
		}},
		{"a follow-up replies in the thread, and the next version edits the message", edit, []batch{
			{nil, of(v(1, 0, "new"), f(1, 1, "noted")), "post 1, reply 1 as 2"},
			{nil, of(f(1, 2, "hidden"), v(1, 3, "new"), f(1, 2, "hidden").Redeliver(1)), "reply 1 as 3, edit 1, reply 1 as 4"},
		}},
		{"a follow-up in a thread changes no message, even of a closed detection", thread, []batch{
			{nil, of(v(1, 0, "new"), v(1, 1, "closed"), f(1, 2, "gone"), v(1, 3, "closed")), "post 1, edit 1, reply 1 as 2, reply 1 as 3, edit 1, reply 1 as 4"},
		}},
		{"a follow-up without a message is posted, and the next version has a message of its own", edit, []batch{
			{nil, of(f(1, 0, "noted"), f(1, 1, "hidden")), "post 1, post 2"}, {nil, of(v(1, 2, "new"), v(1, 3, "new")), "post 3, edit 3"},
		}},
		{"a follow-up whose thread is deleted is posted, and the next version has a message of its own", thread, []batch{
			{nil, of(v(1, 0, "new")), "post 1"},
			{func(w *workspace, _ *webhook.PresetSettings) { w.messages[0].deleted = true }, of(f(1, 1, "noted")), "post 2"},
			{nil, of(v(1, 2, "new"), f(1, 3, "noted")), "post 3, reply 3 as 4"},
		}},
		{"a few events that are no detections are one message, which nothing follows", edit, []batch{
			{nil, of(named["audit"], named["unreachable"], v(1, 0, "new"), named["reachable"]), "post 1, post 2, post 3"},
			{nil, of(named["audit"], v(1, 1, "new")), "post 4, edit 2"},
		}},
	} {
		t.Run(test.name, func(t *testing.T) {
			w := newWorkspace()
			server, memory := presettest.Serve(t, w.answer), presettest.Memory(t)
			o := webhook.PresetSettings{URL: server.URL + "/api", Key: "xoxb-1", Channel: "#soc", Updates: test.updates}
			for i, b := range test.batches {
				if b.before != nil {
					b.before(w, &o)
				}
				err := presettest.SendWithMemory(t, server.URL, opened(t, o), memory, b.events...)
				if got := w.took(); err != nil || got != b.want {
					t.Fatalf("batch %d: %s, %v, want %s", i, got, err, b.want)
				}
			}
		})
	}
}

func TestFinalContentOfAMessage(t *testing.T) {
	for _, updates := range []string{edit, thread} {
		w := newWorkspace()
		server := presettest.Serve(t, w.answer)
		p := opened(t, webhook.PresetSettings{URL: server.URL + "/api", Key: "xoxb-1", Channel: "#soc", Updates: updates})
		err := presettest.SendWithMemory(t, server.URL, p, presettest.Memory(t),
			presettest.Version(t, 1, 0, "new"), presettest.Version(t, 1, 9, "closed"), presettest.Version(t, 1, 1, "in_progress").Redeliver(1))
		require.NoError(t, err)
		if !bytes.Contains(w.messages[0].body, []byte("closed")) {
			t.Errorf("%s: it does not show that the detection is closed: %s", updates, w.messages[0].body)
		}
		for i, m := range w.messages {
			presettest.Golden(t, "followed-by-"+string(updates)+"-"+string(rune('1'+i)), m.body)
		}
	}
}

func TestAfterATransientFailureTheMessageIsEdited(t *testing.T) {
	for _, test := range []struct {
		fault string
		class failure.Class
	}{
		{"fatal_error", failure.Transient}, {"ratelimited", failure.Throttled}, {"invalid_auth", failure.Halted}, {"msg_too_long", failure.Rejected},
	} {
		t.Run(test.fault, func(t *testing.T) {
			w := newWorkspace()
			server, memory := presettest.Serve(t, w.answer), presettest.Memory(t)
			p := opened(t, webhook.PresetSettings{URL: server.URL + "/api", Key: "xoxb-1", Channel: "#soc"})
			require.NoError(t, presettest.SendWithMemory(t, server.URL, p, memory, presettest.Version(t, 1, 0, "new")))
			w.fault = test.fault
			err := presettest.SendWithMemory(t, server.URL, p, memory, presettest.Version(t, 1, 1, "new"))
			if class, _ := presettest.Result(err); class != test.class {
				t.Errorf("%v, want %s", err, test.class)
			}
			err = presettest.SendWithMemory(t, server.URL, p, memory, presettest.Version(t, 1, 2, "new"))
			if got := w.took(); err != nil || got != "post 1, edit 1" {
				t.Errorf("%s, %v", got, err)
			}
		})
	}
}

func TestAnInvalidMemoryIsIgnored(t *testing.T) {
	for _, known := range []string{"{", "[]", `{"channel":"C1","in":"#soc"}`} {
		w := newWorkspace()
		server, memory := presettest.Serve(t, w.answer), presettest.Memory(t)
		e := presettest.Version(t, 1, 0, "new")
		entry := checkpoint.Entry{Key: webhook.DetectionKey(e), Value: []byte(known), At: time.Now().UnixMilli()}
		require.NoError(t, memory.Store.RememberSink(t.Context(), memory.Sink, []checkpoint.Entry{entry}, 0))
		p := opened(t, webhook.PresetSettings{URL: server.URL + "/api", Key: "xoxb-1", Channel: "#soc"})
		require.NoError(t, presettest.SendWithMemory(t, server.URL, p, memory, e))
		assert.Equal(t, w.took(), "post 1", known)
	}
}
