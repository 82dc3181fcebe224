package ticketopener_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"ndrbridge/internal/failure"
	"ndrbridge/sinks"
	"ndrbridge/sinks/webhook"
	"ndrbridge/sinks/webhook/ticketopener"
	"ndrbridge/test/assert"
	"ndrbridge/test/presettest"
	"ndrbridge/test/require"
	"ndrbridge/transform"
)

// ticketSink is a sink that opens tickets, and its dependencies, which may fail.
type ticketSink struct {
	*tool
	memory *webhook.Memory
	links  []string // detection and ticket
	keys   []string // by which the intake accepts each of them once
	down   error    // returned by link
	follow *ticketopener.Follow
	group  *ticketopener.Group
	notes  *ticketopener.Notes
}

func newTicketSink(t testing.TB, o *tool) *ticketSink {
	return &ticketSink{tool: o, memory: presettest.Memory(t)}
}

func (o *ticketSink) link(_ context.Context, e transform.Event, t ticketopener.Ticket) error {
	if o.down != nil {
		return o.down
	}
	if key := fmt.Sprint(e.Subject, " ", t.ID, " ", t.Moves); !slices.Contains(o.keys, key) {
		o.keys, o.links = append(o.keys, key), append(o.links, e.Subject+" "+t.ID)
	}
	return nil
}

func (o *ticketSink) preset() *webhook.Preset {
	return ticketopener.New(ticketopener.Options{Sink: "tickets", System: o.system, Follow: o.follow, Group: o.group, Link: o.link, Notes: o.notes, SearchDelay: time.Minute, Now: o.clock})
}

// send sends events with a new sink.
func (o *ticketSink) send(t testing.TB, events ...transform.Event) error {
	return o.sendContext(context.Background(), t, events...)
}

func (o *ticketSink) sendContext(ctx context.Context, t testing.TB, events ...transform.Event) error {
	return o.open(t).Send(ctx, events)
}

// open returns a new sink.
func (o *ticketSink) open(t testing.TB) *webhook.Sink {
	s, err := webhook.New(webhook.Options{
		URL: o.url, Username: o.auth[0], Password: o.auth[1], Bearer: o.token, Memory: o.memory,
		Preset: o.preset(),
	})
	require.NoError(t, err)
	t.Cleanup(func() { s.Close() })
	return s
}

// sendUntilDelivered sends events until they are delivered, waiting as requested.
func (o *ticketSink) sendUntilDelivered(t testing.TB, events ...transform.Event) {
	t.Helper()
	var err error
	for range 100 {
		err = o.send(t, events...)
		if err == nil {
			return
		}
		_, wait := presettest.Result(err)
		o.pass(wait)
	}
	t.Fatal("it is never delivered", err)
}

// version is one of a detection that has no ticket.
func version(t testing.TB, id, minute int, status string) transform.Event {
	t.Helper()
	e := presettest.Version(t, id, minute, status)
	e, err := transform.New(e.Attributes, bytes.Replace(e.Data(), []byte(`"ticket_id": 3041`), []byte(`"ticket_id": null`), 1))
	require.NoError(t, err)
	return e
}

// want compares the tickets that there are, and the links.
func (o *ticketSink) want(t testing.TB, tickets int, links ...string) {
	t.Helper()
	got := o.opened()
	assert.Equal(t, len(got), tickets, "the tickets", got)
	for i, detection := range links {
		links[i] = detection + " " + o.opened()[i]
	}
	assert.EqualSlices(t, o.links, links, "linked")
}

func TestADetectionGetsOneTicket(t *testing.T) {
	eachTool(t, func(t *testing.T, o *tool) {
		first, second, other := version(t, 7, 0, "new"), version(t, 7, 1, "new"), version(t, 8, 0, "new")
		t.Run("that its later versions leave alone, and it is linked with it", func(t *testing.T) {
			f := newTicketSink(t, o)
			require.NoError(t, f.send(t, first, second, other))
			asked := o.requests()
			require.NoError(t, f.send(t, version(t, 7, 2, "closed")))
			f.want(t, 2, "7", "8")
			assert.Equal(t, o.requests(), asked, "a later version asked the tool")
		})
		t.Run("that is found where nothing is remembered", func(t *testing.T) {
			o.pass(searchDelay)
			f := newTicketSink(t, o)
			require.NoError(t, f.send(t, first))
			f.want(t, 2, "7")
		})
	})
}

func TestATestEventOpensATicketThatIsReportedAndNotLinked(t *testing.T) {
	eachTool(t, func(t *testing.T, o *tool) {
		f := newTicketSink(t, o)
		for n := range 2 {
			e := require.Value(transform.Encoder{Appliance: transform.Bridge}.SinkTest("soc", time.Unix(int64(n), 0)))(t)
			var receipts []string
			ctx := sinks.WithReceipts(t.Context(), func(text string) { receipts = append(receipts, text) })
			require.NoError(t, f.sendContext(ctx, t, e))
			tickets, text := n+1, "was opened; close it, the bridge does not"
			if n > 0 && o.name == "generic" { // its lookup is by the subject, which all tests share
				tickets, text = 1, "was found instead of opening another one; close it"
			}
			f.want(t, tickets)
			assert.Contains(t, strings.Join(receipts, "\n"), "ticket "+o.opened()[tickets-1]+" ")
			assert.Contains(t, strings.Join(receipts, "\n"), text)
		}
	})
}

func TestEventsThatOpenNoTicket(t *testing.T) {
	o := startJira(t)
	f := newTicketSink(t, o)
	first := version(t, 7, 0, "new")
	cases := []presettest.Named{}
	for _, kind := range presettest.Events(t) {
		if !kind.Event.MayOpen() && !kind.Event.IsTest() {
			cases = append(cases, kind)
		}
	}
	made := func(name string, change func(*transform.Attributes), data string) {
		a := first.Attributes
		change(&a)
		e := require.Value(transform.New(a, []byte(data)))(t)
		cases = append(cases, presettest.Named{Name: name, Event: e})
	}
	made("what the bridge wrote", func(a *transform.Attributes) { a.CausedBy = transform.CausedByWriteback }, string(first.Data()))
	made("a detection that has a ticket", func(*transform.Attributes) {}, `{"detection": {"id": 7, "mod_time": 1, "ticket_id": "SEC-9"}}`)
	made("a detection whose ticket is a number", func(*transform.Attributes) {}, `{"detection": {"id": 7, "mod_time": 1, "ticket_id": 3041}}`)
	for _, c := range cases {
		t.Run(c.Name, func(t *testing.T) {
			if err := f.send(t, c.Event); err != nil || o.requests() > 0 {
				t.Errorf("%v, %d requests", err, o.requests())
			}
		})
	}
}

func TestOneTicketDespiteFailures(t *testing.T) {
	event := version(t, 7, 0, "new")
	eachTool(t, func(t *testing.T, o *tool) {
		id := 100
		next := func() transform.Event {
			id++
			return version(t, id, 0, "new")
		}
		for _, c := range []struct {
			name   string
			faults []fault // of the search, and of what opens the ticket
		}{
			{"the search is not answered", []fault{unsaid}},
			{"the tool never reads what opens the ticket", []fault{none, unread}},
			{"the answer of the tool that opened it is lost", []fault{none, unsaid}},
			{"the tool is busy", []fault{none, busy}},
		} {
			t.Run(c.name, func(t *testing.T) {
				f, e, before := newTicketSink(t, o), next(), len(o.opened())
				o.fail(c.faults...)
				assert.Error(t, f.send(t, e), "it counts as delivered")
				f.sendUntilDelivered(t, e)
				after := len(o.opened())
				assert.True(t, after == before+1 && len(f.links) == 1, after-before, "tickets more, and the links", f.links)
			})
		}
		t.Run("what takes the links is down", func(t *testing.T) {
			f, before := newTicketSink(t, o), len(o.opened())
			f.down = errors.New("too many commands wait")
			err := f.send(t, event)
			class, _ := presettest.Result(err)
			assert.True(t, class == failure.Transient && strings.Contains(err.Error(), "not linked") && strings.Contains(err.Error(), "too many"), err)
			asked := o.requests()
			f.down = nil
			require.NoError(t, f.send(t, event))
			if len(f.links) != 1 || o.requests() != asked || len(o.opened()) != before+1 {
				t.Errorf("linked %q, after %d requests more", f.links, o.requests()-asked)
			}
		})
	})
}

func TestThereIsNeverASecondTicket(t *testing.T) {
	eachTool(t, func(t *testing.T, o *tool) {
		f, id := newTicketSink(t, o), 1000
		store := presettest.Faulty(f.memory)
		rapid.Check(t, func(r *rapid.T) {
			id++
			e, before := version(t, id, 0, "new"), len(o.opened())
			f.links, f.keys = nil, nil
			o.fail(rapid.SliceOfN(rapid.SampledFrom([]fault{none, none, unread, unsaid, busy}), 0, 5).Draw(r, "faults")...)
			memoryFails := failing(rapid.SliceOfN(rapid.Bool(), 0, 3).Draw(r, "the memory fails"))
			store.Remember = func() error {
				if memoryFails() {
					return errors.New("the disk is full")
				}
				return nil
			}
			linkFails := failing(rapid.SliceOfN(rapid.Bool(), 0, 2).Draw(r, "the link fails"))
			delivered := false
			for n := 0; !delivered; n++ {
				require.True(r, n <= 200, "it is never delivered")
				f.down = nil
				if linkFails() {
					f.down = errors.New("too many commands wait")
				}
				err := f.send(t, e)
				_, wait := presettest.Result(err)
				o.pass(wait + time.Duration(rapid.IntRange(0, 60).Draw(r, "seconds"))*time.Second)
				delivered = err == nil
			}
			got := len(o.opened()) - before
			require.True(r, got == 1 && len(f.links) == 1, got, "tickets, the links", f.links)
		})
	})
}

// failing reports for each call whether it fails; after the last entry none does.
func failing(fails []bool) func() bool {
	return func() bool {
		if len(fails) == 0 {
			return false
		}
		now := fails[0]
		fails = fails[1:]
		return now
	}
}

// Whatever a system answers, a sink delivers the event or returns a class, and
// remembers no ticket without an id.
func FuzzAnswers(f *testing.F) {
	for _, body := range []string{
		`{"issues": [{"key": "SEC-1"}]}`, `{"key": "SEC-1"}`, `{"result": [{"number": "INC1", "correlation_id": "ndrbridge-hq-7"}]}`,
		`{"result": {"number": "INC1", "sys_id": "a"}}`, `{"ticket": {"number": 1}}`, `{"tickets": [{"number": "A-1"}, 2]}`, `[[]]`, `<html>`, ``,
		`{"items": [{"id": "7"}], "id": 7}`, `{"issues": [{"id": 7, "description": "[ndrbridge-hq-7]"}]}`, `{"issue": {"id": 7}}`,
	} {
		f.Add(200, body)
	}
	event := version(f, 7, 0, "new")
	systems := []*tool{startJira(f), startServiceNow(f), startRT(f), startRedmine(f), startOther(f)}
	f.Fuzz(func(t *testing.T, status int, body string) {
		if status < 200 || status > 599 {
			t.Skip("not a final status of HTTP")
		}
		for _, o := range systems {
			sink := newTicketSink(t, o)
			o.answer(status, body)
			err := sink.send(t, event)
			o.answer(0, "")
			if err != nil {
				_, ok := errors.AsType[*failure.Error](err)
				assert.True(t, ok, o.name, err)
			}
			known := require.Value(sink.memory.Store.RecallSink(t.Context(), sink.memory.Sink, []string{webhook.DetectionKey(event)}))(t)
			assert.True(t, err != nil || known[0] != nil && !bytes.Contains(known[0], []byte(`"id":""`)), o.name, "a ticket without an id is remembered of", body)
		}
	})
}
