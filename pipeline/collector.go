package pipeline

import (
	"context"
	"errors"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"ndrbridge/checkpoint"
)

var (
	journalBytes  = prometheus.NewDesc("ndrbridge_journal_bytes", "Bytes of events in the journal.", nil, nil)
	journalLimit  = prometheus.NewDesc("ndrbridge_journal_max_bytes", "Size of the journal at which sources pause if no event can be trimmed.", nil, nil)
	journalEvents = prometheus.NewDesc("ndrbridge_journal_events", "Events in the journal.", nil, nil)
	journalFull   = prometheus.NewDesc("ndrbridge_journal_full", "1 while sources pause because the journal is full.", nil, nil)
	stateBytes    = prometheus.NewDesc("ndrbridge_state_file_bytes", "Size of the state file.", nil, nil)
	sinkLagEvents = prometheus.NewDesc("ndrbridge_sink_lag_events", "Events that the sink has yet to acknowledge.", []string{"sink"}, nil)
	sinkLagBytes  = prometheus.NewDesc("ndrbridge_sink_lag_bytes", "Bytes of the events that the sink has yet to acknowledge; the journal cannot be trimmed below the largest.", []string{"sink"}, nil)
	sinkLagTime   = prometheus.NewDesc("ndrbridge_sink_lag_seconds", "Age of the oldest event that the sink has yet to acknowledge.", []string{"sink"}, nil)
	sinkSkipped   = prometheus.NewDesc("ndrbridge_sink_skipped_total", "Events never delivered to the sink: its lag policy skipped them, or they were trimmed.", []string{"sink"}, nil)
	redeliveries  = prometheus.NewDesc("ndrbridge_sink_redeliveries", "Events queued for redelivery to the sink.", []string{"sink"}, nil)
	deadLetters   = prometheus.NewDesc("ndrbridge_dead_letters", "Stored dead letters by sink; those of sources have an empty sink label.", []string{"sink"}, nil)
	deadDropped   = prometheus.NewDesc("ndrbridge_dead_letters_dropped_total", "Dead letters of sources dropped in favour of newer ones because the sources' share of dead_letters.max_bytes was full.", nil, nil)
	deadBytes     = prometheus.NewDesc("ndrbridge_dead_letter_bytes", "Bytes of stored dead letters by sink; those of sources have an empty sink label.", []string{"sink"}, nil)
)

var (
	intakeMessages = prometheus.NewDesc("ndrbridge_ticket_intake_messages_total", "Ticket messages received, by broker and result: stored, or refused (no acceptable command).", []string{"intake", "result"}, nil)
	intakeUp       = prometheus.NewDesc("ndrbridge_ticket_intake_up", "1 while ticket commands can be received from the broker.", []string{"intake"}, nil)
	writerState    = prometheus.NewDesc("ndrbridge_ticket_writer_state", "State of the ticket writer: 0 running, 1 retrying, 2 halted.", []string{"appliance"}, nil)
)

var (
	applianceUp   = prometheus.NewDesc("ndrbridge_appliance_up", "1 while the appliance can be polled, 0 while it cannot; absent until known.", []string{"appliance"}, nil)
	applianceSkew = prometheus.NewDesc("ndrbridge_appliance_clock_skew_seconds", "Seconds that the appliance's clock is ahead of the bridge's; negative if it is behind.", []string{"appliance"}, nil)
	wrongDates    = prometheus.NewDesc("ndrbridge_appliance_dates_disbelieved_total", "Responses whose Date header contradicted earlier ones and was ignored.", []string{"appliance"}, nil)
	deadLimit     = prometheus.NewDesc("ndrbridge_dead_letter_max_bytes", "Bytes of dead letters at which the sink halts: its share of dead_letters.max_bytes; absent if that is 0.", []string{"sink"}, nil)
)

// partsCollector reads the status of the parts on each scrape, so parts that are no
// longer configured disappear.
type partsCollector struct{ pipeline *Pipeline }

// Describe implements prometheus.Collector.
func (c partsCollector) Describe(ch chan<- *prometheus.Desc) {
	for _, desc := range []*prometheus.Desc{applianceUp, applianceSkew, wrongDates, deadLimit, intakeMessages, intakeUp, writerState} {
		ch <- desc
	}
}

// Collect implements prometheus.Collector.
func (c partsCollector) Collect(ch chan<- prometheus.Metric) {
	all := c.pipeline.current.Load()
	if all == nil {
		return // the state is being opened
	}
	for _, a := range all.appliances {
		if r := a.watch.Reach(); r.Known {
			ch <- prometheus.MustNewConstMetric(applianceUp, prometheus.GaugeValue, oneIf(r.Reachable), a.config.Name)
		}
		ch <- prometheus.MustNewConstMetric(wrongDates, prometheus.CounterValue, float64(a.client.DisbelievedDates()), a.config.Name)
		if ahead, ok := a.client.ClockSkew(); ok {
			ch <- prometheus.MustNewConstMetric(applianceSkew, prometheus.GaugeValue, ahead.Seconds(), a.config.Name)
		}
		if a.writer != nil {
			state := float64(a.writer.Status().State.Severity())
			ch <- prometheus.MustNewConstMetric(writerState, prometheus.GaugeValue, state, a.config.Name)
		}
	}
	if share := limits(all.config).DeadShare(len(all.sinks)); share > 0 {
		for _, s := range all.sinks {
			ch <- prometheus.MustNewConstMetric(deadLimit, prometheus.GaugeValue, float64(share), s.config.Name)
		}
	}
	for _, p := range all.intakes {
		s := p.intake.Status()
		ch <- prometheus.MustNewConstMetric(intakeUp, prometheus.GaugeValue, oneIf(s.Open), p.name)
		ch <- prometheus.MustNewConstMetric(intakeMessages, prometheus.CounterValue, float64(s.Stored), p.name, "stored")
		ch <- prometheus.MustNewConstMetric(intakeMessages, prometheus.CounterValue, float64(s.Refused), p.name, "refused")
	}
}

func oneIf(yes bool) float64 {
	if yes {
		return 1
	}
	return 0
}

// stateCollector reads the metrics of the state on each scrape.
type stateCollector struct{ store *checkpoint.Store }

// Describe implements prometheus.Collector.
func (c *stateCollector) Describe(ch chan<- *prometheus.Desc) {
	for _, desc := range []*prometheus.Desc{
		journalBytes, journalLimit, journalEvents, journalFull, stateBytes, sinkLagEvents, sinkLagBytes, sinkLagTime,
		sinkSkipped, redeliveries, deadLetters, deadDropped, deadBytes,
	} {
		ch <- desc
	}
}

// Collect implements prometheus.Collector.
func (c *stateCollector) Collect(ch chan<- prometheus.Metric) {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	stats, err := c.store.Stats(ctx)
	if errors.Is(err, checkpoint.ErrClosed) {
		return // the pipeline was closed; the metrics of others are still collected
	}
	if err != nil {
		ch <- prometheus.NewInvalidMetric(journalBytes, err)
		return
	}
	gauge := func(desc *prometheus.Desc, value float64, labels ...string) {
		ch <- prometheus.MustNewConstMetric(desc, prometheus.GaugeValue, value, labels...)
	}
	gauge(journalBytes, float64(stats.Bytes))
	gauge(journalLimit, float64(stats.MaxBytes))
	gauge(journalEvents, float64(stats.Events))
	gauge(journalFull, oneIf(stats.SourcesWait))
	gauge(stateBytes, float64(stats.FileBytes))
	dead := map[string]checkpoint.DeadStats{"": {}} // by sink; "" for sources
	for name, sink := range stats.Sinks {
		if sink.Configured {
			dead[name] = checkpoint.DeadStats{}
		}
	}
	dropped := uint64(0)
	for owner, of := range stats.DeadLetters {
		name, ok := owner.Sink()
		if !ok {
			name = ""
			dropped += of.Dropped
		}
		sum := dead[name]
		dead[name] = checkpoint.DeadStats{Count: sum.Count + of.Count, Bytes: sum.Bytes + of.Bytes}
	}
	ch <- prometheus.MustNewConstMetric(deadDropped, prometheus.CounterValue, float64(dropped))
	for name, of := range dead {
		gauge(deadLetters, float64(of.Count), name)
		gauge(deadBytes, float64(of.Bytes), name)
	}
	for name, sink := range stats.Sinks {
		if !sink.Configured {
			continue
		}
		gauge(sinkLagEvents, float64(sink.LagEvents), name)
		gauge(sinkLagBytes, float64(sink.LagBytes), name)
		gauge(sinkLagTime, ageSeconds(sink.Oldest, time.Now()), name)
		gauge(redeliveries, float64(sink.Queued), name)
		ch <- prometheus.MustNewConstMetric(sinkSkipped, prometheus.CounterValue, float64(sink.Skipped), name)
	}
}
