package bridge_test

import (
	"net/http"
	"strings"
	"testing"

	"ndrbridge/internal/admin"
	"ndrbridge/test/assert"
	"ndrbridge/test/require"
)

func TestAnEventReportsWhatASinkMissedWhileUnconfigured(t *testing.T) {
	a, url := startAppliance(t, 100)
	here, away := startInbox(t), startInbox(t)
	away.Answer(http.StatusServiceUnavailable)
	both := "journal: {retain: 0}\n" + configuration(t, url, webhookSink("here", here.URL)+webhookSink("away", away.URL))
	r := run(t, both)
	await(t, "the events", func() bool { return here.count("") == 100 })
	r.stop()
	without := strings.Replace(both, webhookSink("away", away.URL), "", 1)
	r = run(t, without)
	if changes := r.reload(t, without); len(changes) > 0 || strings.Count(r.log.String(), "a sink that is not configured") != 1 {
		t.Errorf("a reload that changes nothing (%v) logs again what the start did:\n%s", changes, r.log)
	}
	a.AddMany(1)
	await(t, "the new events, and the journal to be trimmed", func() bool {
		if here.count("") < 101 {
			return false
		}
		_, metrics := get(t, "http://"+r.AdminAddress()+"/metrics")
		return strings.Contains(metrics, "ndrbridge_journal_events 0")
	})
	if s := sinkStatus(t, r.control(t), "away"); s.Skipped != 101 {
		t.Errorf("%+v", s)
	}
	away.Answer(0)
	// It comes back by a reload, as it would by a restart.
	r.reload(t, both)
	await(t, "the event that reports it", func() bool {
		return away.count("io.ndrbridge.sink.skipped") == 1 && here.count("io.ndrbridge.sink.skipped") == 1
	})
	if data := string(away.of("")[0].Data()); !strings.Contains(data, `"sink":"away"`) || !strings.Contains(data, `"events":101`) {
		t.Errorf("the event reports %s", data)
	}
	r.stop()
	for _, want := range []string{"a sink that is not configured", "ndrbridge state rename NAME OTHER", "sink=away missed_events=101"} {
		if !strings.Contains(r.log.String(), want) {
			t.Errorf("the log lacks %q:\n%s", want, r.log)
		}
	}
	r = run(t, both)
	_, metrics := get(t, "http://"+r.AdminAddress()+"/metrics")
	assert.Contains(t, metrics, `ndrbridge_sink_skipped_total{sink="away"} 101`, "the missed events are not counted")
	r.stop()
	if strings.Contains(r.log.String(), "missed_events") {
		t.Errorf("it is reported twice:\n%s", r.log)
	}
}

func TestASinkThatSkipsDoesNotFillTheJournal(t *testing.T) {
	t.Parallel()
	a, url := startAppliance(t, 0)
	siem, chat := startInbox(t), startInbox(t)
	chat.Answer(http.StatusNotFound)
	skipping := strings.Replace(webhookSink("chat", chat.URL), "batch:", "lag: {max_bytes: 2MiB, policy: skip}, batch:", 1)
	yaml := "journal: {max_bytes: 16MiB, retain: 0}\n" + configuration(t, url, webhookSink("siem", siem.URL)+skipping)
	r := run(t, strings.Replace(yaml, "page_size: 200", "page_size: 4", 1))
	c := r.control(t)
	const large, kind = 12, "io.ndrbridge.sink.skipped"
	for round := range 2 { // together more than the journal holds
		for range large {
			a.AddHuge(1 << 20)
		}
		await(t, "what is new at the other sink", func() bool { return siem.count("")-siem.count(kind) == large*(round+1) })
		if status, err := c.Status(t.Context()); err != nil || status.State.Journal.Full {
			t.Fatalf("%+v, %v", status, err)
		}
		if round == 0 {
			await(t, "the excess to be skipped", func() bool { return sinkStatus(t, c, "chat").LagBytes < 3<<20 && siem.count(kind) > 0 })
		}
	}
	chat.Answer(0)
	require.NoError(t, admin.API.ResumeSink.Do(t.Context(), c, admin.OfSink{Sink: "chat"}))
	await(t, "the rest, and the event that reports the skipped ones", func() bool {
		s := sinkStatus(t, c, "chat")
		return s.LagEvents == 0 && chat.count(kind) > 0 && chat.count("")+int(s.Skipped) == 2*large+siem.count(kind)
	})
	chat.refuseDuplicates(t)
}
