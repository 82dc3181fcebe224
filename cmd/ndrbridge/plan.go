package main

import (
	"fmt"
	"io"
	"text/tabwriter"

	"ndrbridge/configs"
)

// printPlan prints what a configuration would run, without a secret.
func printPlan(w io.Writer, config *configs.Config) {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintf(t, "state\t%s\tjournal up to %s, delivered events kept %s\n", config.State, config.Journal.MaxBytes, config.Journal.Retain)
	fmt.Fprintf(t, "admin\thttp://%s\n", config.Admin.Listen)
	for _, a := range config.Appliances {
		if d := a.Detections; d.Enabled {
			fmt.Fprintf(t, "appliance %s\t%s\tdetections every %s, from %s\n", a.Name, a.URL, d.Interval, d.Start)
		} else {
			fmt.Fprintf(t, "appliance %s\t%s\tno stream is enabled\n", a.Name, a.URL)
		}
	}
	for _, s := range config.Sinks {
		fmt.Fprintf(t, "sink %s\t%s\t%s, from %s\n", s.Name, target(s), s.Mode, s.Start)
	}
	_ = t.Flush() // as good as a print to the terminal
	fmt.Fprintln(w, "the configuration is good")
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
		return fmt.Sprintf("webhook %s", s.Webhook.URL)
	case s.File.Path == "-":
		return "file, standard output"
	default:
		return "file " + s.File.Path
	}
}
