package crash

import (
	"math/rand/v2"
	"net/http/httptest"
	"testing"
	"time"

	standin "ndrbridge/test/appliance"
	"ndrbridge/test/fault"
	"ndrbridge/test/ledger"
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
}

// startSensor starts an appliance with so many past detections.
func startSensor(t *testing.T, name string, seed uint64, past int) *sensor {
	t.Helper()
	// The audit log drops nothing: what an appliance drops before it was read is reported,
	// and cannot arrive. Bridges that live for a third of a second may read less of a log
	// than comes.
	const everything = 1 << 20
	options := standin.Options{Seed: seed, Size: 1000, AuditCapacity: everything}
	s := &sensor{name: name, appliance: standin.New(options), book: ledger.New()}
	s.fill(rand.New(rand.NewPCG(seed, 1)), seed, past)
	server := httptest.NewServer(s.appliance)
	t.Cleanup(server.Close)
	s.proxy = newProxy(t, server.Listener.Addr().String())
	return s
}

// fill adds past objects to the appliance and sets its hazards. One Date in ten is wrong, as
// behind a proxy with a wrong clock.
func (s *sensor) fill(random *rand.Rand, seed uint64, past int) {
	s.appliance.SetHazards(standin.Hazards{
		Reset: 0.01, ServerError: 0.01, CutBody: 0.01, CutJSON: 0.01, HTML: 0.01, LimitCap: 80, InclusiveBound: seed%2 == 0,
		WrongDate:            0.1,
		RecordUntilInclusive: seed%3 == 0, RecordWholeMillis: seed%5 == 0, RecordBatch: 30, CursorRenews: seed%7 == 0,
	})
	s.appliance.AddBacklog(past, time.Minute)
	s.appliance.AddAudit(past * 3 / 5)
	for range past / 5 {
		s.appliance.AddRecordsAt(3, s.appliance.Clock().Add(-time.Duration(random.IntN(60_000))*time.Millisecond).UnixMicro())
	}
}

// shown contains the objects that an appliance returned.
type shown struct {
	detections    []ledger.Version
	audit, record []ledger.Object
}

func (s *sensor) shown() shown {
	return shown{ledger.VersionsOf(s.appliance, 0), ledger.AuditEntriesOf(s.appliance), ledger.RecordsOf(s.appliance)}
}

// The sources of immutable objects.
func (s *sensor) auditSource() string  { return "ndrbridge://" + s.name + "/auditlog" }
func (s *sensor) recordSource() string { return "ndrbridge://" + s.name + "/records/all" }

// quieter returns rates with a tenth as many detections, entries and records.
func quieter(r standin.Rates) standin.Rates {
	for _, rate := range []*float64{&r.Appear, &r.Update, &r.Close, &r.Edit, &r.Late, &r.Tie, &r.Neighbours, &r.AuditEntries, &r.Records, &r.RecordsLate, &r.RecordsTie} {
		*rate /= 10
	}
	return r
}

// book returns the ledger of an event's appliance. The bridge's events about itself are in
// the first.
func (s *scene) book(e transform.Event) *ledger.Ledger {
	for _, sensor := range s.sensors {
		if sensor.name == e.Appliance {
			return sensor.book
		}
	}
	return s.sensors[0].book
}

// received counts the events at a sink.
func (s *scene) received(sink string) (n int) {
	for _, sensor := range s.sensors {
		n += sensor.book.Received(sink)
	}
	return n
}

// repeatedAt counts the repeated events at a sink.
func (s *scene) repeatedAt(sink string) (n int) {
	for _, sensor := range s.sensors {
		n += sensor.book.Repeated(sink)
	}
	return n
}

// committed counts the events that the bridges committed.
func (s *scene) committed() (n int) {
	for _, sensor := range s.sensors {
		n += sensor.book.Committed()
	}
	return n
}
