package bridge_test

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"ndrbridge/internal/admin"
	"ndrbridge/test/assert"
	"ndrbridge/test/require"
)

func TestADetectionIsFoundWithItsDeliveries(t *testing.T) {
	t.Parallel() // the lag policy is applied every few seconds
	a, url := startAppliance(t, 30)
	soc, full := startInbox(t), startInbox(t)
	yaml := configuration(t, url, webhookSink("soc", soc.URL)+
		strings.Replace(webhookSink("few", startInbox(t).URL), "batch:", "match: 'detection.ticket_id == \"SEC-7\"', batch:", 1)+
		webhookSink("off", startInbox(t).URL)+
		strings.Replace(webhookSink("chat", full.URL), "batch:", "lag: {max_bytes: 1, policy: skip}, batch:", 1)) +
		"\ntickets: {enabled: true}\n"
	full.Answer(http.StatusNotFound)
	r := run(t, yaml)
	c := r.control(t)
	require.NoError(t, admin.API.PauseSink.Do(t.Context(), c, admin.OfSink{Sink: "off"}))
	await(t, "the backlog", func() bool { return soc.count("") == 30 })
	d := a.Generate()
	a.Add(d)
	id := d.ID
	await(t, "the detection", func() bool { return soc.count("") == 31 })
	if status, body := r.send(t, "", fmt.Sprintf(`{"ticket_id": "SEC-7", "detection_id": %d, "status": "closed"}`, id)); status != http.StatusAccepted {
		t.Fatal(status, body)
	}
	var found admin.Detection
	result := func(version int, sink string) string {
		for _, of := range found.Versions[version].Sinks {
			if of.Sink == sink {
				return of.Result
			}
		}
		return ""
	}
	await(t, "the version with the ticket", func() bool {
		var err error
		if found, err = admin.API.GetDetection.Call(t.Context(), c, admin.DetectionRequest{Appliance: "hq", ID: id}); err != nil {
			t.Fatal(err)
		}
		n := len(found.Versions)
		return n >= 2 && len(found.Commands) == 1 && found.Commands[0].Status == "applied" &&
			result(0, "soc") == admin.ResultDelivered && result(0, "few") == admin.ResultDelivered &&
			strings.Contains(string(found.Seen.Fields), `"status":"closed"`) && strings.Contains(string(found.Seen.Fields), "SEC-7") &&
			result(n-1, "chat") == admin.ResultSkipped
	})
	oldest := len(found.Versions) - 1
	for sink, want := range map[string]string{
		"soc": admin.ResultDelivered, "few": admin.ResultFiltered, "off": admin.ResultPending, "chat": admin.ResultSkipped,
	} {
		assert.Equal(t, result(oldest, sink), want, "the first version at", sink)
	}
	if !found.WholeJournal || !found.WholeDeadLetters || time.Since(found.SearchedSince) > time.Minute || !found.Versions[0].Journalled || found.Seen.ModTime.IsZero() {
		t.Errorf("%+v", found)
	}
	for i, v := range found.Versions[1:] {
		if v.Seq >= found.Versions[i].Seq || !strings.Contains(string(v.Event), fmt.Sprintf(`"subject":"%d"`, id)) {
			t.Errorf("version %d: %d %s", i, v.Seq, v.Event)
		}
	}
	for name, what := range map[string]struct {
		appliance string
		id        int64
	}{"an appliance that is not configured": {"nowhere", id}, "a detection that was not seen": {"hq", 1 << 60}, "no detection": {"hq", 0}} {
		if _, err := admin.API.GetDetection.Call(t.Context(), c, admin.DetectionRequest{Appliance: what.appliance, ID: what.id}); !errors.Is(err, admin.ErrUnknown) {
			t.Errorf("%s: %v", name, err)
		}
	}
	r.stop()
	stopped, err := admin.API.GetDetection.Call(t.Context(), openOffline(t, yaml).Client, admin.DetectionRequest{Appliance: "hq", ID: id})
	if err != nil || len(stopped.Versions) != len(found.Versions) {
		t.Errorf("while the bridge is stopped: %+v (%v)", stopped, err)
	}
}

func TestADetectionIsFoundInDeadLettersAfterTheJournalWasTrimmed(t *testing.T) {
	a, url := startAppliance(t, 0)
	soc := startInbox(t)
	soc.Answer(http.StatusUnprocessableEntity)
	r := run(t, "journal: {retain: 0}\n"+configuration(t, url, webhookSink("soc", soc.URL)))
	a.AddMany(3)
	id := history(a)[1].ID
	c := r.control(t)
	await(t, "the dead letters, and the journal to be trimmed", func() bool {
		s, err := c.Status(t.Context())
		return err == nil && s.Sinks[0].DeadLetters == 3 && s.State.Journal.Events == 0
	})
	d, err := admin.API.GetDetection.Call(t.Context(), c, admin.DetectionRequest{Appliance: "hq", ID: id})
	if err != nil || len(d.Versions) != 1 || d.Versions[0].Journalled {
		t.Fatalf("%+v, %v", d, err)
	}
	if of := d.Versions[0].Sinks[0]; of.Result != admin.ResultDeadLetter || !strings.Contains(of.Reason, "422") || of.Class != "rejected" {
		t.Errorf("%+v", of)
	}
	if _, err := admin.API.GetDeadLetter.Call(t.Context(), c, admin.OfDeadLetter{OfDead: admin.OfDead{Sink: "soc"}, Key: d.Versions[0].Sinks[0].Key}); err != nil {
		t.Error(err)
	}
	if n, err := admin.API.DropDeadLetters.Call(t.Context(), c, admin.Selection{OfDead: admin.OfDead{Sink: "soc"}, All: true}); n.N != 3 || err != nil {
		t.Fatal(n, err)
	}
	if d, err = admin.API.GetDetection.Call(t.Context(), c, admin.DetectionRequest{Appliance: "hq", ID: id}); err != nil || len(d.Versions) != 0 || d.Seen == nil {
		t.Errorf("without dead letters: %+v, %v", d, err)
	}
}
