package bridge_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"ndrbridge/internal/admin"
	"ndrbridge/internal/commands"
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
	yaml = strings.Replace(yaml, "rate_limit: 1000", "rate_limit: 1000\n    rules: {write: true}\n    notes: {out: true}", 1)
	full.Answer(http.StatusNotFound)
	r := run(t, yaml)
	c := r.control(t)
	require.NoError(t, admin.API.PauseSink.Do(t.Context(), c, admin.OfSink{Sink: "off"}))
	await(t, "the backlog", func() bool { return soc.count("") == 30 })
	d := a.Generate()
	a.Add(d)
	id := d.ID
	await(t, "the detection", func() bool { return soc.count("") == 31 })
	status, body := r.send(t, "", fmt.Sprintf(`{"ticket_id": "SEC-7", "detection_id": %d, "status": "closed"}`, id))
	require.Equal(t, status, http.StatusAccepted, body)
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
		found, err = admin.API.GetDetection.Call(t.Context(), c, admin.DetectionRequest{Appliance: "hq", ID: id})
		require.NoError(t, err)
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
	assert.True(t, found.WholeJournal && found.WholeDeadLetters && time.Since(found.SearchedSince) <= time.Minute && found.Versions[0].Journalled && !found.Seen.ModTime.IsZero(), found)
	for i, v := range found.Versions[1:] {
		assert.True(t, v.Seq < found.Versions[i].Seq && strings.Contains(string(v.Event), fmt.Sprintf(`"subject":"%d"`, id)), "version", i, v.Seq, string(v.Event))
	}
	for _, command := range []commands.Command{
		{DetectionID: id, Note: "the inventory scan", By: "ana"},
		{Hide: &commands.Hide{DetectionID: id, Types: commands.OneType, Offender: commands.Any, Victim: commands.Any, Expiration: "1h"}, By: "ana"},
	} {
		require.Value(c.SendCommand(t.Context(), command))(t)
	}
	await(t, "the commands on its note and on a rule", func() bool {
		var err error
		found, err = admin.API.GetDetection.Call(t.Context(), c, admin.DetectionRequest{Appliance: "hq", ID: id})
		require.NoError(t, err)
		return len(found.Commands) == 3 && strings.Contains(string(found.Commands[0].Command), `"hide"`) && strings.Contains(string(found.Commands[1].Command), `"note"`)
	})
	for name, what := range map[string]struct {
		appliance string
		id        int64
	}{"an appliance that is not configured": {"nowhere", id}, "a detection that was not seen": {"hq", 1 << 60}, "no detection": {"hq", 0}} {
		_, err := admin.API.GetDetection.Call(t.Context(), c, admin.DetectionRequest{Appliance: what.appliance, ID: what.id})
		assert.ErrorIs(t, err, admin.ErrUnknown, name)
	}
	r.stop()
	stopped, err := admin.API.GetDetection.Call(t.Context(), openOffline(t, yaml).Client, admin.DetectionRequest{Appliance: "hq", ID: id})
	assert.True(t, err == nil && len(stopped.Versions) == len(found.Versions), "while the bridge is stopped", stopped, err)
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
	require.True(t, err == nil && len(d.Versions) == 1 && !d.Versions[0].Journalled, d, err)
	of := d.Versions[0].Sinks[0]
	assert.True(t, of.Result == admin.ResultDeadLetter && strings.Contains(of.Reason, "422") && of.Class == "rejected", of)
	_, err = admin.API.GetDeadLetter.Call(t.Context(), c, admin.OfDeadLetter{OfDead: admin.OfDead{Sink: "soc"}, Key: d.Versions[0].Sinks[0].Key})
	assert.NoError(t, err)
	n, err := admin.API.DropDeadLetters.Call(t.Context(), c, admin.Selection{OfDead: admin.OfDead{Sink: "soc"}, All: true})
	require.True(t, n.N == 3 && err == nil, n, err)
	d, err = admin.API.GetDetection.Call(t.Context(), c, admin.DetectionRequest{Appliance: "hq", ID: id})
	assert.True(t, err == nil && len(d.Versions) == 0 && d.Seen != nil, "without dead letters", d, err)
}
