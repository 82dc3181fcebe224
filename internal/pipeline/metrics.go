package pipeline

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"ndrbridge/checkpoint"
	"ndrbridge/internal/commands"
	"ndrbridge/poller"
	"ndrbridge/sinks"
)

// metrics are registered once per pipeline; parts come and go.
type metrics struct {
	parts    *registrations // of appliances and sinks
	sinks    *sinks.Metrics
	sources  *poller.Metrics
	requests *prometheus.CounterVec
	acceptor *commands.AcceptorMetrics
	writers  map[commands.Kind]*commands.WriterMetrics
	written  map[commands.Kind]*registrations // those of writers
}

func newMetrics(r prometheus.Registerer) *metrics {
	m := &metrics{
		parts:   &registrations{Registerer: r},
		writers: make(map[commands.Kind]*commands.WriterMetrics), written: make(map[commands.Kind]*registrations),
	}
	m.sinks = sinks.NewMetrics(m.parts)
	m.sources = poller.NewMetrics(m.parts)
	m.requests = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "ndrbridge_source_requests_total",
		Help: "Requests to the appliance by status code, or by the failure if no response arrived: dns, connect, tls, timeout, canceled, other.",
	}, []string{"appliance", "code"})
	m.parts.MustRegister(m.requests)
	for _, kind := range kinds {
		m.written[kind] = &registrations{Registerer: r}
		m.writers[kind] = commands.NewWriterMetrics(m.written[kind], kind)
	}
	m.acceptor = commands.NewAcceptorMetrics(r)
	return m
}

// forget drops the metrics of parts that before has and after lacks.
func (m *metrics) forget(before, after *runtime) {
	for _, p := range before.sinks {
		if after.sink(p.config.Name) == nil {
			m.parts.forget(prometheus.Labels{"sink": p.config.Name})
		}
	}
	for _, p := range before.appliances {
		name := p.config.Name
		stays := after.appliance(name)
		for _, kind := range kinds {
			if stays == nil || stays.writer(kind) == nil {
				m.written[kind].forget(prometheus.Labels{"appliance": name})
			}
		}
		if stays == nil {
			m.parts.forget(prometheus.Labels{"appliance": name})
			continue
		}
		for _, s := range p.streams {
			if stream := s.source.Source().Stream; !stays.polls(stream) {
				m.parts.forget(prometheus.Labels{"appliance": name, "stream": stream})
			}
		}
	}
}

// registrations is a Registerer that remembers all metrics, so that they can be
// unregistered when the pipeline is closed, and the series of removed parts be dropped.
type registrations struct {
	prometheus.Registerer
	all []prometheus.Collector
}

// MustRegister implements prometheus.Registerer.
func (r *registrations) MustRegister(collectors ...prometheus.Collector) {
	r.Registerer.MustRegister(collectors...)
	r.all = append(r.all, collectors...)
}

// undo unregisters everything.
func (r *registrations) undo() {
	for _, c := range r.all {
		r.Unregister(c)
	}
}

// forget drops the series that have all of these labels.
func (r *registrations) forget(labels prometheus.Labels) {
	for _, c := range r.all {
		if v, ok := c.(interface{ DeletePartialMatch(prometheus.Labels) int }); ok {
			v.DeletePartialMatch(labels)
		}
	}
}

// The metrics that are read on each scrape.
var (
	journalBytes   = newDesc("ndrbridge_journal_bytes", "Bytes of events in the journal.")
	journalLimit   = newDesc("ndrbridge_journal_max_bytes", "Size of the journal at which sources pause if no event can be trimmed.")
	journalEvents  = newDesc("ndrbridge_journal_events", "Events in the journal.")
	journalFull    = newDesc("ndrbridge_journal_full", "1 while sources pause because the journal is full.")
	stateBytes     = newDesc("ndrbridge_state_file_bytes", "Size of the state file.")
	sinkLagEvents  = newDesc("ndrbridge_sink_lag_events", "Events that the sink has yet to acknowledge.", "sink")
	sinkLagBytes   = newDesc("ndrbridge_sink_lag_bytes", "Bytes of the events that the sink has yet to acknowledge; the journal cannot be trimmed below the largest.", "sink")
	sinkLagTime    = newDesc("ndrbridge_sink_lag_seconds", "Age of the oldest event that the sink has yet to acknowledge.", "sink")
	sinkSkipped    = newDesc("ndrbridge_sink_skipped_total", "Events never delivered to the sink: its lag policy skipped them, or they were trimmed.", "sink")
	redeliveries   = newDesc("ndrbridge_sink_redeliveries", "Events queued for redelivery to the sink.", "sink")
	sinkParked     = newDesc("ndrbridge_sink_parked_events", "Events that failed while others were delivered, or that wait for an unavailable part of the target, and later events of the same detections; they are retried periodically.", "sink")
	deadLetters    = newDesc("ndrbridge_dead_letters", "Stored dead letters by sink; those of sources have an empty sink label.", "sink")
	deadDropped    = newDesc("ndrbridge_dead_letters_dropped_total", "Dead letters of sources dropped in favour of newer ones because the sources' share of dead_letters.max_bytes was full.")
	deadBytes      = newDesc("ndrbridge_dead_letter_bytes", "Bytes of stored dead letters by sink; those of sources have an empty sink label.", "sink")
	intakeMessages = newDesc("ndrbridge_ticket_intake_messages_total", "Ticket messages received, by broker and result: stored, or refused (no acceptable command).", "intake", "result")
	intakeUp       = newDesc("ndrbridge_ticket_intake_up", "1 while ticket commands can be received from the broker.", "intake")
	writerStates   = map[commands.Kind]*prometheus.Desc{
		commands.KindTicket: newDesc("ndrbridge_ticket_writer_state", "State of the ticket writer: 0 running, 1 retrying, 2 halted.", "appliance"),
		commands.KindRule:   newDesc("ndrbridge_rule_writer_state", "State of the rule writer: 0 running, 1 retrying, 2 halted.", "appliance"),
		commands.KindNote:   newDesc("ndrbridge_note_writer_state", "State of the note writer: 0 running, 1 retrying, 2 halted.", "appliance"),
	}
	sourceLag     = newDesc("ndrbridge_source_lag_seconds", "How far the stream is behind the appliance's clock: 0 once it was read to its end; it grows while polls fail. Absent until known.", "appliance", "stream")
	applianceUp   = newDesc("ndrbridge_appliance_up", "1 while the appliance can be polled, 0 while it cannot; absent until known.", "appliance")
	applianceSkew = newDesc("ndrbridge_appliance_clock_skew_seconds", "Seconds that the appliance's clock is ahead of the bridge's; negative if it is behind.", "appliance")
	wrongDates    = newDesc("ndrbridge_appliance_dates_disbelieved_total", "Responses whose Date header contradicted earlier ones and was ignored.", "appliance")
	deadLimit     = newDesc("ndrbridge_dead_letter_max_bytes", "Bytes of dead letters at which the sink halts: its share of dead_letters.max_bytes; absent if that is 0.", "sink")
)

func newDesc(name, help string, labels ...string) *prometheus.Desc {
	return prometheus.NewDesc(name, help, labels, nil)
}

// collector reads the metrics of the state and of the parts on each scrape, so parts
// that are no longer configured disappear.
type collector struct {
	store interface {
		Stats(context.Context) (checkpoint.Stats, error)
	}
	current *atomic.Pointer[runtime]
}

// Describe implements prometheus.Collector.
func (c collector) Describe(ch chan<- *prometheus.Desc) {
	for _, desc := range []*prometheus.Desc{
		journalBytes, journalLimit, journalEvents, journalFull, stateBytes, sinkLagEvents,
		sinkLagBytes, sinkLagTime, sinkSkipped, redeliveries, sinkParked, deadLetters, deadDropped,
		deadBytes, intakeMessages, intakeUp, writerStates[commands.KindTicket], writerStates[commands.KindRule], writerStates[commands.KindNote], applianceUp, applianceSkew,
		wrongDates, deadLimit, sourceLag,
	} {
		ch <- desc
	}
}

// Collect implements prometheus.Collector.
func (c collector) Collect(ch chan<- prometheus.Metric) {
	if all := c.current.Load(); all != nil { // it is nil while the parts are made
		samples(ch).ofParts(all)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	stats, err := c.store.Stats(ctx)
	switch {
	case errors.Is(err, checkpoint.ErrClosed): // the metrics of others are still collected
	case err != nil:
		ch <- prometheus.NewInvalidMetric(journalBytes, err)
	default:
		samples(ch).ofState(stats)
	}
}

// samples receives the values of metrics.
type samples chan<- prometheus.Metric

func (ch samples) gauge(desc *prometheus.Desc, value float64, labels ...string) {
	ch <- prometheus.MustNewConstMetric(desc, prometheus.GaugeValue, value, labels...)
}

func (ch samples) counter(desc *prometheus.Desc, value uint64, labels ...string) {
	ch <- prometheus.MustNewConstMetric(desc, prometheus.CounterValue, float64(value), labels...)
}

func (ch samples) ofParts(all *runtime) {
	for _, a := range all.appliances {
		name := a.config.Name
		if r := a.watch.Reach(); r.Known {
			ch.gauge(applianceUp, oneIf(r.Reachable), name)
		}
		for _, s := range a.streams {
			if p, ok := s.poller.Progress(); ok {
				ch.gauge(sourceLag, p.Behind.Seconds(), name, s.source.Source().Stream)
			}
		}
		ch.counter(wrongDates, a.client.DisbelievedDates(), name)
		if ahead, ok := a.client.ClockSkew(); ok {
			ch.gauge(applianceSkew, ahead.Seconds(), name)
		}
		for _, w := range a.writers {
			ch.gauge(writerStates[w.Kind()], float64(w.Status().State.Severity()), name)
		}
	}
	if share := limits(all.config).DeadShare(len(all.sinks)); share > 0 {
		for _, s := range all.sinks {
			ch.gauge(deadLimit, float64(share), s.config.Name)
		}
	}
	for _, p := range all.intakes {
		s := p.intake.Status()
		ch.gauge(intakeUp, oneIf(s.Open), p.broker)
		ch.counter(intakeMessages, s.Stored, p.broker, "stored")
		ch.counter(intakeMessages, s.Refused, p.broker, "refused")
	}
}

func (ch samples) ofState(stats checkpoint.Stats) {
	ch.gauge(journalBytes, float64(stats.Bytes))
	ch.gauge(journalLimit, float64(stats.MaxBytes))
	ch.gauge(journalEvents, float64(stats.Events))
	ch.gauge(journalFull, oneIf(stats.SourcesWait))
	ch.gauge(stateBytes, float64(stats.FileBytes))
	dead := map[string]checkpoint.DeadStats{"": {}} // by sink; "" for sources
	for name, sink := range stats.Sinks {
		if !sink.Configured {
			continue
		}
		dead[name] = checkpoint.DeadStats{}
		ch.gauge(sinkLagEvents, float64(sink.LagEvents), name)
		ch.gauge(sinkLagBytes, float64(sink.LagBytes), name)
		ch.gauge(sinkLagTime, ageSeconds(sink.Oldest, time.Now()), name)
		ch.gauge(redeliveries, float64(sink.Queued), name)
		ch.gauge(sinkParked, float64(sink.Parked), name)
		ch.counter(sinkSkipped, sink.Skipped, name)
	}
	for owner, of := range stats.DeadLetters {
		name, ok := owner.Sink()
		if !ok {
			name = ""
		}
		sum := dead[name]
		dead[name] = checkpoint.DeadStats{Count: sum.Count + of.Count, Bytes: sum.Bytes + of.Bytes, Dropped: sum.Dropped + of.Dropped}
	}
	ch.counter(deadDropped, dead[""].Dropped)
	for name, of := range dead {
		ch.gauge(deadLetters, float64(of.Count), name)
		ch.gauge(deadBytes, float64(of.Bytes), name)
	}
}

func oneIf(yes bool) float64 {
	if yes {
		return 1
	}
	return 0
}
