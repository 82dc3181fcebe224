package crash

import (
	"context"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	"ndrbridge/checkpoint"
	standin "ndrbridge/test/appliance"
	"ndrbridge/test/fault"
	"ndrbridge/test/ledger"
	"ndrbridge/test/require"
	"ndrbridge/transform"
)

// fleet names the appliances of a scene. The first is the busiest.
var fleet = []string{"hq", "north", "east", "south", "west"}

// sensor is an appliance of a scene behind a proxy, with the ledger of its events.
type sensor struct {
	name      string
	appliance *standin.Appliance
	proxy     *fault.Proxy
	book      *ledger.Ledger
	idle      bool // nothing changes there but what is written to it
	hazards   standin.Hazards
	deleted   sync.Map // the ids of detections that the appliance deleted
	follow    *followUps
	steps     *stepWatch // nil: none
}

// startSensor starts an appliance with so many past detections.
func startSensor(t *testing.T, name string, seed uint64, past int) *sensor {
	t.Helper()
	// The audit log drops nothing: what an appliance drops before it was read is reported,
	// and cannot arrive. Bridges that live for a third of a second may read less of a log
	// than comes.
	const everything = 1 << 20
	options := standin.Options{Seed: seed, Size: 1000, AuditCapacity: everything}
	s := &sensor{name: name, appliance: standin.New(options), book: ledger.New(), follow: newFollowUps()}
	s.fill(rand.New(rand.NewPCG(seed, 1)), seed, past)
	server := httptest.NewServer(http.HandlerFunc(s.watched))
	t.Cleanup(server.Close)
	s.proxy = newProxy(t, server.Listener.Addr().String())
	return s
}

// fill adds past objects to the appliance and sets its hazards. One Date in ten is wrong, as
// behind a proxy with a wrong clock.
func (s *sensor) fill(random *rand.Rand, seed uint64, past int) {
	s.hazards = standin.Hazards{
		Only:  isByBridge,
		Reset: 0.01, ServerError: 0.01, CutBody: 0.01, CutJSON: 0.01, HTML: 0.01, LimitCap: 80, InclusiveBound: seed%2 == 0,
		WrongDate:            0.1,
		RecordUntilInclusive: seed%3 == 0, RecordWholeMillis: seed%5 == 0, RecordBatch: 30, CursorRenews: seed%7 == 0,
	}
	s.misbehave()
	s.appliance.AddBacklog(past, time.Minute)
	s.appliance.AddAudit(past * 3 / 5)
	for range past / 5 {
		s.appliance.AddRecordsAt(3, s.appliance.Clock().Add(-time.Duration(random.IntN(60_000))*time.Millisecond).UnixMicro())
	}
}

// misbehave sets the appliance's hazards.
func (s *sensor) misbehave() { s.appliance.SetHazards(s.hazards) }

// shown contains the objects that an appliance returned.
type shown struct {
	detections    []ledger.Version
	audit, record []ledger.Object
}

func (s *sensor) shown() shown {
	versions := ledger.VersionsOf(s.appliance, 0)
	for i := range versions {
		_, versions[i].Gone = s.deleted.Load(versions[i].ID)
	}
	return shown{versions, ledger.AuditEntriesOf(s.appliance), ledger.RecordsOf(s.appliance)}
}

// The sources of immutable objects.
func (s *sensor) auditSource() string  { return "ndrbridge://" + s.name + "/audit" }
func (s *sensor) recordSource() string { return "ndrbridge://" + s.name + "/records/all" }

// quieter returns rates with a tenth as many detections, entries and records.
func quieter(r standin.Rates) standin.Rates {
	for _, rate := range []*float64{&r.Appear, &r.Update, &r.Close, &r.Edit, &r.Late, &r.Tie, &r.Neighbours, &r.AuditEntries, &r.Records, &r.RecordsLate, &r.RecordsTie} {
		*rate /= 10
	}
	return r
}

// site is a fleet of appliances and the sinks that receive its events.
type site struct {
	sensors   []*sensor
	sinks     []string
	followUps bool
}

// sensorOf returns an event's appliance. The bridge's events about itself belong to the first.
func (s *site) sensorOf(e transform.Event) *sensor {
	for _, sensor := range s.sensors {
		if sensor.name == e.Appliance {
			return sensor
		}
	}
	return s.sensors[0]
}

// received counts the events at a sink.
func (s *site) received(sink string) (n int) {
	for _, sensor := range s.sensors {
		n += sensor.book.Received(sink)
	}
	return n
}

// repeatedAt counts the repeated events at a sink.
func (s *site) repeatedAt(sink string) (n int) {
	for _, sensor := range s.sensors {
		n += sensor.book.Repeated(sink)
	}
	return n
}

// committed counts the events that the bridges committed.
func (s *site) committed() (n int) {
	for _, sensor := range s.sensors {
		n += sensor.book.Committed()
	}
	return n
}

// live simulates changes at the appliances until stop is called. The rates at the first are
// ten times those at the others.
func (s *site) live(t *testing.T, rates standin.Rates) (stop func()) {
	return s.liveAt(t, rates, quieter(rates))
}

// liveAt is live with the rates at the first appliance, and at the others.
func (s *site) liveAt(t *testing.T, first, others standin.Rates) (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	var living sync.WaitGroup
	for i, sensor := range s.sensors {
		if sensor.idle {
			continue
		}
		of := others
		if i == 0 {
			of = first
		}
		living.Go(func() { sensor.appliance.Live(ctx, of) })
	}
	stop = func() { cancel(); living.Wait() }
	t.Cleanup(stop)
	return stop
}

// receive records an event that reached a sink.
func (s *site) receive(t *testing.T, sink string, body []byte) (e transform.Event, ok bool) {
	e, err := transform.Parse(body)
	if err != nil {
		t.Errorf("%s: %v: %s", sink, err, body)
		return e, false
	}
	s.sensorOf(e).book.Receive(sink, e)
	return e, true
}

// openState opens a state that no bridge has open. The caller closes it.
func openState(t *testing.T, state string) *checkpoint.Store {
	t.Helper()
	store, err := checkpoint.Open(state, checkpoint.Options{ReadOnly: true})
	require.NoError(t, err, "the state of an ended bridge")
	return store
}

// commitFrom records in the ledger the events of a state's journal behind an offset. It returns
// them, and the number of those that were recorded before.
func (s *site) commitFrom(t *testing.T, store *checkpoint.Store, after uint64) (records []checkpoint.Record, doubled int) {
	t.Helper()
	records, err := store.Read(t.Context(), after, checkpoint.Batch{})
	require.NoError(t, err)
	for _, r := range records {
		doubled += s.sensorOf(r.Event).book.Commit(r.Event)
	}
	return records, doubled
}
