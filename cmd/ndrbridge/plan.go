package main

import (
	"cmp"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	"ndrbridge/configs"
)

// printPlan prints a summary of a configuration, without secrets.
func printPlan(w io.Writer, config *configs.Config) {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintf(t, "state\t%s\tjournal up to %s, delivered events kept %s\n", config.State, config.Journal.MaxBytes, config.Journal.Retain)
	fmt.Fprintf(t, "admin\thttp://%s\t\n", config.Admin.Listen)
	for _, a := range config.Appliances {
		fmt.Fprintf(t, "appliance %s\t%s\t%v requests per second\n", a.Name, a.URL, a.RateLimit)
		if d := a.Detections; d.Enabled {
			enriched := ""
			if len(d.Enrich) > 0 {
				enriched = "with " + strings.Join(d.Enrich, ", ")
			}
			fmt.Fprintf(t, "  detections\t%s\tevery %s, from %s\n", enriched, d.Interval, d.Start)
		}
		if l := a.Audit; l.Enabled {
			fmt.Fprintf(t, "  audit\t\tevery %s, from %s\n", l.Interval, l.Start)
		}
		for _, q := range a.Records {
			fmt.Fprintf(t, "  records/%s\t%s\tevery %s, from %s\n", q.Name, cmp.Or(strings.Join(q.Types, ", "), "all types"), q.Interval, q.Start)
		}
	}
	for _, s := range config.Sinks {
		form := s.Mode
		if s.Webhook != nil {
			form = cmp.Or(s.Webhook.Preset, form)
		}
		fmt.Fprintf(t, "sink %s\t%s\t%s, from %s\n", s.Name, target(s), form, s.Start)
	}
	_ = t.Flush() // as with other output to the terminal
	fmt.Fprintln(w, "the configuration is valid")
}

func target(s configs.Sink) string {
	switch {
	case s.Kafka != nil:
		return fmt.Sprintf("kafka %v, topic %s", s.Kafka.Brokers, s.Kafka.Topic)
	case s.NATS != nil && s.NATS.Stream == "":
		return fmt.Sprintf("nats %s, subject %s, without JetStream: nothing is acknowledged", s.NATS.URL, s.NATS.Subject)
	case s.NATS != nil:
		return fmt.Sprintf("nats %s, stream %s, subject %s", s.NATS.URL, s.NATS.Stream, s.NATS.Subject)
	case s.Webhook != nil:
		return "webhook " + s.Webhook.ShownURL(s.Webhook.URL.Value())
	case s.File.Path == "-":
		return "file, standard output"
	default:
		return "file " + s.File.Path
	}
}
