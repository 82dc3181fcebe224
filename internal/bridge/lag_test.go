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
	changes := r.reload(t, without)
	assert.True(t, len(changes) == 0 && strings.Count(r.log.String(), "a sink that is not configured") == 1, changes, r.log)
	a.AddMany(1)
	await(t, "the new events, and the journal to be trimmed", func() bool {
		if here.count("") < 101 {
			return false
		}
		_, metrics := get(t, "http://"+r.AdminAddress()+"/metrics")
		return strings.Contains(metrics, "ndrbridge_journal_events 0")
	})
	s := sinkStatus(t, r.control(t), "away")
	assert.Equal(t, s.Skipped, 101, s)
	away.Answer(0)
	// It comes back by a reload, as it would by a restart.
	r.reload(t, both)
	await(t, "the event that reports it", func() bool {
		return away.count("io.ndrbridge.sink.skipped") == 1 && here.count("io.ndrbridge.sink.skipped") == 1
	})
	data := string(away.of("")[0].Data())
	assert.True(t, strings.Contains(data, `"sink":"away"`) && strings.Contains(data, `"events":101`), "the event reports", data)
	r.stop()
	for _, want := range []string{"a sink that is not configured", "ndrbridge state rename NAME OTHER", "sink=away missed_events=101"} {
		assert.Contains(t, r.log.String(), want, "the log lacks", r.log)
	}
	r = run(t, both)
	_, metrics := get(t, "http://"+r.AdminAddress()+"/metrics")
	assert.Contains(t, metrics, `ndrbridge_sink_skipped_total{sink="away"} 101`, "the missed events are not counted")
	r.stop()
	assert.NotContains(t, r.log.String(), "missed_events", "it is reported twice", r.log)
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
	own := func(of *inbox) int {
		return of.count(kind) + of.count("io.ndrbridge.sink.halted") + of.count("io.ndrbridge.sink.resumed")
	}
	for round := range 2 { // together more than the journal holds
		for range large {
			a.AddHuge(1 << 20)
		}
		await(t, "what is new at the other sink", func() bool { return siem.count("")-own(siem) == large*(round+1) })
		status, err := c.Status(t.Context())
		require.True(t, err == nil && !status.State.Journal.Full, status, err)
		if round == 0 {
			await(t, "the excess to be skipped", func() bool { return sinkStatus(t, c, "chat").LagBytes < 3<<20 && siem.count(kind) > 0 })
		}
	}
	chat.Answer(0)
	require.NoError(t, admin.API.ResumeSink.Do(t.Context(), c, admin.OfSink{Sink: "chat"}))
	await(t, "the rest, and the event that reports the skipped ones", func() bool {
		s := sinkStatus(t, c, "chat")
		return s.LagEvents == 0 && chat.count(kind) > 0 && chat.count("")+int(s.Skipped) == 2*large+own(siem)
	})
	chat.refuseDuplicates(t)
}
