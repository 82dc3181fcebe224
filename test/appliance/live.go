package appliance

import (
	"cmp"
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"
)

// Rates are the frequencies of changes, per second.
type Rates struct {
	Appear     float64 // a detection appears
	Update     float64 // one changes: it continues, or an analyst edits it
	Close      float64 // one is closed
	Edit       float64 // one changes twice, the second time without a new mod_time
	Late       float64 // one appears with a mod_time of the past
	Future     float64 // one appears with a mod_time of the future
	Tie        float64 // TieSize detections change at once, with one mod_time
	Neighbours float64 // NeighbourSize detections appear in each of two neighbouring milliseconds

	AuditEntries float64 // an entry is added to the audit log
	AuditLate    float64 // one is added that becomes visible after AuditLateBy further ones
	AuditSwapped float64 // two are added, which are shown in the other order of ids
	Records      float64 // a record is stored
	RecordsLate  float64 // one is stored with a timestamp of the past
	RecordsTie   float64 // RecordTieSize records are stored with one timestamp

	AuditLateBy   int           // 0: 5
	RecordLateBy  time.Duration // at most; 0: 5 minutes
	RecordTieSize int           // 0: 100

	TieSize       int           // 0: 300
	NeighbourSize int           // 0: 990, almost a page
	LateBy        time.Duration // at most; 0: 74 minutes
	FutureBy      time.Duration // at most; 0: 10 minutes
}

// Live runs a simulation in real time until ctx is done.
func (a *Appliance) Live(ctx context.Context, rates Rates) {
	const interval = 10 * time.Millisecond
	s := a.Simulate(rates)
	ticker := time.NewTicker(interval)
	defer ticker.Stop()
	for last := time.Now(); ; {
		select {
		case <-ctx.Done():
			return
		case now := <-ticker.C:
			s.Step(now.Sub(last))
			last = now
		}
	}
}

// Simulation changes an appliance's objects at given Rates. It is not safe for concurrent
// use; the appliance is.
type Simulation struct {
	appliance *Appliance
	rand      *rand.Rand
	events    []*simulated
}

// simulated is a repeated change.
type simulated struct {
	rate   float64 // a second
	due    float64
	happen func()
}

// Simulate returns a simulation, which is advanced by Step.
func (a *Appliance) Simulate(rates Rates) *Simulation {
	rates.TieSize = cmp.Or(rates.TieSize, 300)
	rates.NeighbourSize = cmp.Or(rates.NeighbourSize, 990)
	rates.LateBy = cmp.Or(rates.LateBy, 74*time.Minute)
	rates.FutureBy = cmp.Or(rates.FutureBy, 10*time.Minute)
	rates.AuditLateBy = cmp.Or(rates.AuditLateBy, 5)
	rates.RecordLateBy = cmp.Or(rates.RecordLateBy, 5*time.Minute)
	rates.RecordTieSize = cmp.Or(rates.RecordTieSize, 100)
	s := &Simulation{appliance: a, rand: chance(a.options.Seed, chanceSimulation)}
	s.events = []*simulated{
		{rate: rates.Appear, happen: func() { a.AddMany(1) }},
		{rate: rates.Update, happen: s.update},
		{rate: rates.Close, happen: s.close},
		{rate: rates.Edit, happen: s.edit},
		{rate: rates.Late, happen: func() { a.AddLate(s.upTo(rates.LateBy)) }},
		{rate: rates.Future, happen: func() { a.AddFuture(s.upTo(rates.FutureBy)) }},
		{rate: rates.Tie, happen: func() { s.tie(rates.TieSize) }},
		{rate: rates.Neighbours, happen: func() { s.neighbours(rates.NeighbourSize) }},
		{rate: rates.AuditEntries, happen: func() { a.AddAudit(1) }},
		{rate: rates.AuditLate, happen: func() { a.HoldAudit(rates.AuditLateBy) }},
		{rate: rates.AuditSwapped, happen: a.SwapAudit},
		{rate: rates.Records, happen: func() { a.AddRecords(1) }},
		// The clock is read once the store is locked: a wait for it would make records later.
		{rate: rates.RecordsLate, happen: func() {
			late := s.upTo(rates.RecordLateBy)
			a.storeRecords(1, func() int64 { return a.Clock().Add(-late).UnixMicro() })
		}},
		{rate: rates.RecordsTie, happen: func() {
			a.storeRecords(rates.RecordTieSize, sync.OnceValue(func() int64 { return a.Clock().UnixMicro() }))
		}},
	}
	return s
}

// Step makes the changes that are due in the next d. Fractions of a change are carried
// over to the next step.
func (s *Simulation) Step(d time.Duration) {
	var now []func()
	for _, e := range s.events {
		for e.due += e.rate * d.Seconds(); e.due >= 1; e.due-- {
			now = append(now, e.happen)
		}
	}
	s.rand.Shuffle(len(now), func(i, j int) { now[i], now[j] = now[j], now[i] })
	for _, happen := range now {
		happen()
	}
}

func (s *Simulation) upTo(d time.Duration) time.Duration {
	return time.Duration(s.rand.Int64N(int64(d)))
}

// pick returns the ids of up to n consecutive visible detections from a random start.
func (s *Simulation) pick(n int) []int64 {
	store := &s.appliance.store
	store.RLock()
	defer store.RUnlock()
	if len(store.current) == 0 {
		return nil
	}
	start := s.rand.IntN(len(store.current))
	ids := make([]int64, min(n, len(store.current)))
	for i := range ids {
		ids[i] = store.current[(start+i)%len(store.current)].ID
	}
	return ids
}

func (s *Simulation) update() {
	by, change := s.change()
	s.changeSome(1, by, change)
}

// changeSome changes up to n detections at once. If one of them was hidden meanwhile, it
// changes the others.
func (s *Simulation) changeSome(n int, by string, change func(*Detection)) {
	for {
		if ids := s.pick(n); ids == nil || s.appliance.UpdateAs(by, change, ids...) == nil {
			return
		}
	}
}

// change returns a random change of an open detection and the user who makes it; empty:
// the appliance.
func (s *Simulation) change() (by string, change func(*Detection)) {
	now := s.appliance.millis()
	number, person := s.rand.IntN(100), s.person()
	switch s.rand.IntN(5) {
	case 0:
		return "", func(d *Detection) {
			d.UpdateTime, d.EndTime = now, 0
			if d.RiskScore != nil {
				d.RiskScore = new(max(1, number))
			}
		}
	case 1:
		return "", func(d *Detection) { d.EndTime = d.UpdateTime }
	case 2:
		return person, func(d *Detection) { d.TicketID = TicketID{ID: fmt.Sprintf("OPS-%d", number)} }
	case 3:
		return person, func(d *Detection) { d.Status, d.Resolution, d.Assignee = "in_progress", Null, Text(person) }
	}
	return person, func(d *Detection) { d.Status, d.Resolution = "acknowledged", Null }
}

// person returns a random analyst.
func (s *Simulation) person() string { return []string{"ada", "grace", "linus"}[s.rand.IntN(3)] }

func (s *Simulation) close() {
	resolution := []Text{"action_taken", "no_action_taken"}[s.rand.IntN(2)]
	s.changeSome(1, s.person(), func(d *Detection) { d.Status, d.Resolution = "closed", resolution })
}

func (s *Simulation) edit() {
	ids := s.pick(1)
	by, change := s.change()
	if ids == nil || s.appliance.UpdateAs(by, change, ids...) != nil {
		return
	}
	person := Text(fmt.Sprintf("analyst%d", s.rand.IntN(10000)))
	// It fails if the detection was hidden meanwhile, which is fine.
	_ = s.appliance.Edit(func(d *Detection) { d.Assignee = person }, ids...)
}

func (s *Simulation) tie(n int) {
	by, change := s.change()
	s.changeSome(n, by, change)
}

func (s *Simulation) neighbours(n int) {
	now := s.appliance.millis()
	s.appliance.AddTied(n, now-1)
	s.appliance.AddTied(n, now)
}
