package bridge_test

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"ndrbridge/internal/admin"
	"ndrbridge/poller"
	"ndrbridge/test/assert"
	"ndrbridge/test/require"
	"ndrbridge/transform"
)

// sinkStatus returns the status of a sink.
func sinkStatus(t *testing.T, c *admin.Client, name string) admin.SinkStatus {
	t.Helper()
	status := require.Value(c.Status(t.Context()))(t)
	for _, s := range append(status.Sinks, status.Unconfigured...) {
		if s.Name == name {
			return s
		}
	}
	t.Fatalf("there is no sink %s in %+v", name, status)
	return admin.SinkStatus{}
}

func TestAPausedSinkStaysPausedOverARestart(t *testing.T) {
	a, url := startAppliance(t, 10)
	soc, other := startInbox(t), startInbox(t)
	yaml := configuration(t, url, webhookSink("soc", soc.URL)+webhookSink("other", other.URL))
	r := run(t, yaml)
	await(t, "the backlog", func() bool { return soc.count("") == 10 && other.count("") == 10 })
	require.NoError(t, admin.API.PauseSink.Do(t.Context(), r.control(t), admin.OfSink{Sink: "soc"}))
	for range 2 {
		a.AddMany(5)
		await(t, "what is new at the other sink", func() bool { return other.count("")%10 == 5 || other.count("") == 20 })
		s := sinkStatus(t, r.control(t), "soc")
		assert.True(t, s.State == "paused" && !s.Since.IsZero(), s)
		r.stop()
		r = run(t, yaml)
	}
	await(t, "everything at the other sink", func() bool { return other.count("") == 20 })
	n := soc.count("")
	assert.Equal(t, n, 10, "a sink that is paused", n-10, "events")
	// A reload does not resume it, either.
	yaml = strings.Replace(yaml, "max_events: 50", "max_events: 10", 1)
	r.reload(t, yaml)
	s := sinkStatus(t, r.control(t), "soc")
	assert.True(t, s.State == "paused" && s.LagEvents == 10, s)
	require.NoError(t, admin.API.ResumeSink.Do(t.Context(), r.control(t), admin.OfSink{Sink: "soc"}))
	await(t, "the new events", func() bool { return soc.count("") == 20 })
	soc.refuseDuplicates(t)
}

func TestEventsAreDeliveredAgainOnRequest(t *testing.T) {
	a, url := startAppliance(t, 0)
	soc := startInbox(t)
	soc.Answer(http.StatusUnprocessableEntity)
	r := run(t, configuration(t, url, webhookSink("soc", soc.URL)))
	a.AddMany(5) // so few rejections may lie in the data
	c, owner := r.control(t), admin.OfDead{Sink: "soc"}
	await(t, "the rejected events", func() bool { return sinkStatus(t, c, "soc").DeadLetters == 5 })
	soc.Answer(0)
	a.AddMany(10)
	await(t, "the accepted events", func() bool { return soc.count("") == 10 })

	page, err := admin.API.ListDeadLetters.Call(t.Context(), c, admin.DeadRequest{OfDead: owner, Limit: 100})
	deadLetters := page.DeadLetters
	require.True(t, err == nil && len(deadLetters) == 5, len(deadLetters), "dead letters", err)
	groups, err := admin.API.GroupDeadLetters.Call(t.Context(), c, admin.GroupsRequest{})
	require.True(t, err == nil && groups.Total == 5 && len(groups.Groups) == 1, groups, err)
	g := groups.Groups[0]
	assert.True(t, g.Sink == "soc" && g.Class == "rejected" && strings.Contains(g.Reason, ": 422 ") && g.Count == 5 && g.Key == deadLetters[4].Key && !g.Last.Before(g.First), g)
	deadLetter, err := admin.API.GetDeadLetter.Call(t.Context(), c, admin.OfDeadLetter{OfDead: owner, Key: deadLetters[0].Key})
	assert.True(t, err == nil && strings.Contains(deadLetter.Reason, "422"), deadLetter, err)
	n, err := admin.API.DropDeadLetters.Call(t.Context(), c, admin.Selection{OfDead: owner, Keys: []string{deadLetters[0].Key}})
	assert.True(t, n.N == 1 && err == nil, n, "dropped", err)
	if n, err := admin.API.RequeueDeadLetters.Call(t.Context(), c, admin.Selection{OfDead: owner, All: true}); n.N != 4 || err != nil {
		t.Errorf("%d requeued, %v", n, err)
	}
	await(t, "the requeued events", func() bool { return soc.redelivered() == 4 })
	if n, err := admin.API.ReplayEvents.Call(t.Context(), c, admin.ReplayRequest{OfSink: admin.OfSink{Sink: "soc"}, Replay: admin.Replay{Since: time.Now().Add(-time.Hour)}}); n.Events != 15 || err != nil {
		t.Errorf("%d replayed, %v", n, err)
	}
	await(t, "the replayed events", func() bool { return soc.redelivered() == 19 })
	await(t, "an empty queue", func() bool {
		s := sinkStatus(t, c, "soc")
		return s.Redeliveries == 0 && s.DeadLetters == 0
	})
	if n, err := admin.API.ReplayEvents.Call(t.Context(), c, admin.ReplayRequest{OfSink: admin.OfSink{Sink: "soc"}, Replay: admin.Replay{Since: time.Now().Add(time.Hour)}}); n.Events != 0 || err != nil {
		t.Errorf("%d events of the future replayed, %v", n, err)
	}
}

// errorOf returns a function that returns the error of an operation.
func errorOf[Request, Answer any](t *testing.T, o admin.Operation[Request, Answer], r Request) func(*admin.Client) error {
	return func(c *admin.Client) error {
		_, err := o.Call(t.Context(), c, r)
		return err
	}
}

func TestUnknownNames(t *testing.T) {
	_, url := startAppliance(t, 1)
	yaml := configuration(t, url, webhookSink("soc", startInbox(t).URL)) + "\ntickets: {enabled: true}\n"
	r := run(t, yaml)
	sco, api := admin.OfSink{Sink: "sco"}, admin.API
	calls := map[string]func(*admin.Client) error{
		"the dead letters of a sink":                errorOf(t, api.ListDeadLetters, admin.DeadRequest{OfDead: admin.OfDead{Sink: "sco"}, Limit: 1}),
		"the dead letters of a stream":              errorOf(t, api.DropDeadLetters, admin.Selection{OfDead: admin.OfDead{Appliance: "hq", Stream: "records/x"}, All: true}),
		"the reasons of the dead letters of a sink": errorOf(t, api.GroupDeadLetters, admin.GroupsRequest{OfDead: admin.OfDead{Sink: "sco"}}),
		"a dead letter":                             errorOf(t, api.GetDeadLetter, admin.OfDeadLetter{OfDead: admin.OfDead{Sink: "soc"}, Key: "1"}),
		"a sink to requeue to":                      errorOf(t, api.RequeueDeadLetters, admin.Selection{OfDead: admin.OfDead{Sink: "sco"}, All: true}),
		"a sink to replay to":                       errorOf(t, api.ReplayEvents, admin.ReplayRequest{OfSink: sco, Replay: admin.Replay{Since: time.Now()}}),
		"a sink to pause":                           errorOf(t, api.PauseSink.Operation, sco),
		"a sink to resume":                          errorOf(t, api.ResumeSink.Operation, sco),
		"a stream to rewind":                        errorOf(t, api.Rewind.Operation, admin.RewindRequest{Appliance: "hq", Stream: "records/x", To: time.Now()}),
		"a stream without positions in time":        errorOf(t, api.Rewind.Operation, admin.RewindRequest{Appliance: "hq", Stream: poller.StreamTracking, To: time.Now()}),
	}
	check := func(t *testing.T, c *admin.Client) {
		for name, call := range calls {
			t.Run(name, func(t *testing.T) {
				assert.ErrorIs(t, call(c), admin.ErrUnknown)
			})
		}
	}
	t.Run("while the bridge runs", func(t *testing.T) { check(t, r.control(t)) })
	r.stop()
	t.Run("while it does not", func(t *testing.T) { check(t, openOffline(t, yaml).Client) })
}

func TestDeadLettersThatFillTheirShareHaltTheSinkUntilThereIsSpace(t *testing.T) {
	t.Parallel()
	a, url := startAppliance(t, 0)
	soc := startInbox(t)
	soc.Answer(http.StatusUnprocessableEntity)
	yaml := "dead_letters: {max_bytes: 12KiB}\n" + configuration(t, url, webhookSink("soc", soc.URL)+webhookSink("other", startInbox(t).URL))
	r := run(t, yaml)
	a.AddMany(6) // some 12 KB
	c := r.control(t)
	await(t, "the sink to halt", func() bool { return sinkStatus(t, c, "soc").State == "halted" })
	s := sinkStatus(t, c, "soc")
	assert.True(t, strings.Contains(s.Error, "dead_letters.max_bytes") && s.DeadLetterMaxBytes == 4<<10 && s.DeadLetterBytes <= 4<<10, s)
	status, body := get(t, "http://"+r.AdminAddress()+"/readyz")
	assert.True(t, status == http.StatusServiceUnavailable && strings.Contains(body, "sink soc is halted"), status, body)
	r.reload(t, strings.Replace(yaml, "12KiB", "1MiB", 1))
	require.NoError(t, admin.API.ResumeSink.Do(t.Context(), c, admin.OfSink{Sink: "soc"}))
	await(t, "all of them among the dead letters", func() bool {
		s := sinkStatus(t, c, "soc")
		return s.DeadLetters == 6 && s.State == "running"
	})
	_, metrics := get(t, "http://"+r.AdminAddress()+"/metrics")
	for _, want := range []string{`ndrbridge_dead_letters{sink="soc"} 6`, `ndrbridge_dead_letter_bytes{sink="soc"} `, `ndrbridge_sink_redeliveries{sink="soc"} 0`} {
		assert.Contains(t, metrics, want)
	}
}

func TestTailShowsWhatIsJournalled(t *testing.T) {
	a, url := startAppliance(t, 20)
	soc := startInbox(t)
	r := run(t, configuration(t, url, webhookSink("soc", soc.URL)))
	await(t, "the backlog", func() bool { return soc.count("") == 20 })
	backlog := soc.of("")
	for _, c := range []struct {
		name  string
		from  admin.From
		first int // events that are there already and are shown
	}{
		{"from more than there are on", admin.From{Last: 1000}, 20},
		{"from the last few on", admin.From{Last: 3}, 3},
		{"from now on", admin.From{}, 0},
		{"from a time on", admin.From{Since: time.Now().Add(-time.Hour)}, 20},
		{"from a time to come on", admin.From{Since: time.Now().Add(time.Hour)}, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			got, done := make(chan transform.Event, 1000), make(chan error, 1)
			go func() {
				done <- r.control(t).Tail(ctx, c.from, func(e transform.Event) error {
					got <- e
					return nil
				})
			}()
			for range c.first {
				<-got
			}
			await(t, "the new events", func() bool {
				a.AddMany(1)
				return len(got) > 0
			})
			e := <-got
			assert.True(t, c.first != 0 || !slices.ContainsFunc(backlog, func(b transform.Event) bool { return b.ID == e.ID }), "it shows", e.ID, "which is old")
			cancel()
			assert.NoError(t, <-done)
		})
	}
	t.Run("an error of the reader ends it", func(t *testing.T) {
		enough := errors.New("enough")
		err := r.control(t).Tail(t.Context(), admin.From{Since: time.Now().Add(-time.Hour)}, func(transform.Event) error { return enough })
		assert.ErrorIs(t, err, enough)
	})
}
