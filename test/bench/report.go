package main

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"runtime"
	"slices"
	"text/tabwriter"
)

// figures are the results of one run.
type figures struct {
	Seconds  float64 `json:"seconds"`     // from the start to the last acknowledgement
	CPU      float64 `json:"cpu_seconds"` // user and system
	Anon     int64   `json:"rss_anon"`    // the highest RssAnon, in bytes; 0: not measured
	Resident int64   `json:"vm_hwm"`      // VmHWM, in bytes; 0: not measured
}

// spread is a figure over several runs.
type spread struct {
	Median float64 `json:"median"`
	Min    float64 `json:"min"`
	Max    float64 `json:"max"`
}

// spreadOf returns the spread of one or more values. The median of an even number of values
// is the lower of the two in the middle.
func spreadOf(values []float64) spread {
	slices.Sort(values)
	return spread{Median: quantile(values, 0.5), Min: values[0], Max: values[len(values)-1]}
}

// quantile returns the smallest of the sorted values that at least the fraction q of them do
// not exceed.
func quantile(sorted []float64, q float64) float64 {
	i := int(q*float64(len(sorted)) + 0.999999)
	return sorted[min(max(i, 1), len(sorted))-1]
}

// report contains all results.
type report struct {
	Machine    string        `json:"machine"`
	Go         string        `json:"go"`
	EventBytes int           `json:"event_bytes,omitempty"` // mean, in structured form
	Runs       int           `json:"runs"`
	Drains     []drainRow    `json:"drains,omitempty"`
	Formats    []formatRow   `json:"formats,omitempty"`
	Latency    []latencyRow  `json:"latency,omitempty"`
	IdlePolls  []idleRow     `json:"idle_polls,omitempty"`
	Records    *recordsRow   `json:"records,omitempty"`
	Backlog    []backlogRow  `json:"backlog,omitempty"`
	Fleets     []fleetRow    `json:"fleets,omitempty"`
	FollowUps  *followUpsRow `json:"follow_ups,omitempty"`

	Cluster *clusterReport `json:"cluster,omitempty"`
}

// drainRow is one drain, by the bridge and by the bare client.
type drainRow struct {
	Name   string  `json:"name"`
	Events int     `json:"events"`
	Bridge sideRow `json:"bridge"`
	Bare   sideRow `json:"bare"`
	title  string
}

// sideRow is one side of a drain.
type sideRow struct {
	Rate     spread `json:"events_per_second"`
	CPU      spread `json:"cpu_seconds"`
	Anon     int64  `json:"rss_anon,omitempty"` // the highest of all runs
	Resident int64  `json:"vm_hwm,omitempty"`
}

func newReport(s settings) *report {
	machine := fmt.Sprintf("%d cores", runtime.NumCPU())
	if runtime.NumCPU() == 2 {
		machine = "two shared cores"
	}
	return &report{
		Machine: machine,
		Go:      runtime.Version() + " " + runtime.GOOS + "/" + runtime.GOARCH,
		Runs:    s.runs,
	}
}

// add adds the runs of a drain with a number of events.
func (r *report) add(d drain, events int, bridge, bare []figures) {
	r.Drains = append(r.Drains, drainRow{
		Name: d.name, title: d.title, Events: events, Bridge: sideOf(events, bridge), Bare: sideOf(events, bare),
	})
}

func sideOf(events int, runs []figures) sideRow {
	var s sideRow
	var rates, cpu []float64
	for _, f := range runs {
		rates = append(rates, float64(events)/f.Seconds)
		cpu = append(cpu, f.CPU)
		s.Anon, s.Resident = max(s.Anon, f.Anon), max(s.Resident, f.Resident)
	}
	s.Rate, s.CPU = spreadOf(rates), spreadOf(cpu)
	return s
}

func (r *report) writeJSON(w io.Writer) error {
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	return e.Encode(r)
}

func (r *report) writeTables(w io.Writer) error {
	fmt.Fprintf(w, "%s, %s, all on loopback; medians of %d (least–most)\n", r.Machine, r.Go, r.Runs)
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	if len(r.Drains) > 0 {
		fmt.Fprintf(t, "\nDrain of detections, %d bytes an event; × is the bridge by the bare client\n", r.EventBytes)
		fmt.Fprintln(t, "SINK\tEVENTS\tEVENTS/S\tBARE\t×\tCPU S\tBARE\t×\tRSSANON MIB\tVMHWM MIB")
		for _, d := range r.Drains {
			fmt.Fprintf(t, "%s\t%d\t%s\t%s\t%.2f\t%s\t%s\t%.2f\t%s\t%s\n", d.title, d.Events,
				d.Bridge.Rate.text("%.0f"), d.Bare.Rate.text("%.0f"), ratio(d.Bridge.Rate, d.Bare.Rate),
				d.Bridge.CPU.text("%.2f"), d.Bare.CPU.text("%.2f"), ratio(d.Bridge.CPU, d.Bare.CPU),
				mebibytes(d.Bridge.Anon), mebibytes(d.Bridge.Resident))
		}
	}
	if len(r.Formats) > 0 {
		fmt.Fprintln(t, "\nDrain of detections in every format; × is the CPU time by that of cloudevents")
		fmt.Fprintln(t, "SINK\tFORMAT\tEVENTS\tEVENTS/S\tCPU S\t×\tRSSANON MIB")
		for _, f := range r.Formats {
			fmt.Fprintf(t, "%s\t%s\t%d\t%s\t%s\t%.2f\t%s\n", f.title, f.Format, f.Events, f.Bridge.Rate.text("%.0f"), f.Bridge.CPU.text("%.2f"), f.Cost, mebibytes(f.Bridge.Anon))
		}
	}
	if f := r.FollowUps; f != nil {
		fmt.Fprintln(t, "\nDrain of detections at the default rate limit until the last version is delivered, with all follow-ups and without; × is the CPU time with by that without")
		fmt.Fprintln(t, "VERSIONS\tVERSIONS/S\tWITHOUT\tCPU S\tWITHOUT\t×\tRSSANON MIB\tWITHOUT\tEVENTS BESIDES")
		fmt.Fprintf(t, "%d\t%s\t%s\t%s\t%s\t%.2f\t%s\t%s\t%v\n", f.Events, f.With.Rate.text("%.0f"), f.Without.Rate.text("%.0f"),
			f.With.CPU.text("%.2f"), f.Without.CPU.text("%.2f"), f.Cost, mebibytes(f.With.Anon), mebibytes(f.Without.Anon), f.Types)
	}
	if len(r.Latency) > 0 {
		fmt.Fprintln(t, "\nFrom the answer that shows a detection to the webhook's receiver, with linger 0")
		fmt.Fprintln(t, "THE APPLIANCE\tDETECTIONS\tMEDIAN MS\tP99 MS\tMAX MS\tHANGING REQUESTS")
		for _, l := range r.Latency {
			fmt.Fprintf(t, "%s\t%d\t%.2f\t%.2f\t%.2f\t%d\n", l.Beside, l.Detections, l.Median, l.P99, l.Max, l.Hanging)
		}
	}
	if w := r.Records; w != nil {
		fmt.Fprintln(t, "\nA backlog of records of a day, to a file")
		fmt.Fprintln(t, "RECORDS\tREQUESTS\tRECORDS/S\tSLOWEST TENTH\tFASTEST TENTH\tRSSANON MIB\tVMHWM MIB")
		fmt.Fprintf(t, "%d\t%d\t%.0f\t%.0f\t%.0f\t%s\t%s\n", w.Records, w.Requests, w.Rate, w.Slowest, w.Fastest, mebibytes(w.Anon), mebibytes(w.Resident))
	}
	if len(r.Backlog) > 0 {
		fmt.Fprintln(t, "\nA backlog behind a webhook that refuses connections, beside one that does not; runs over one state")
		fmt.Fprintln(t, "RUN\tEVENTS\tOPEN S\tREADY S\tDONE S\tRSSANON MIB\tAT THE END\tSTATE MIB AT THE END")
		for _, l := range r.Backlog {
			fmt.Fprintf(t, "%s\t%d\t%.2f\t%.2f\t%.1f\t%s\t%s\t%s\n", l.Run, l.Events, l.Open, l.Ready, l.Seconds, mebibytes(l.Anon), mebibytes(l.Standing), mebibytes(l.File))
		}
	}
	if len(r.IdlePolls) > 0 {
		fmt.Fprintln(t, "\nA poll that finds nothing new")
		fmt.Fprintln(t, "KNOWN DETECTIONS\tCHANGED WITHIN\tPOLLS\tREQUESTS A POLL\tMEDIAN MS\tP99 MS\tCPU MS A POLL")
		for _, p := range r.IdlePolls {
			fmt.Fprintf(t, "%d\t%s\t%d\t%.2f\t%.2f\t%.2f\t%.2f\n", p.Known, p.Over, p.Polls, p.Requests, p.Median, p.P99, p.CPU)
		}
	}
	if len(r.Fleets) > 0 {
		fmt.Fprintf(t, "\nFirst reads of a fleet, %d detections and %d audit log entries each, to a file; then at the default intervals\n", fleetDetections, fleetAudit)
		fmt.Fprintln(t, "APPLIANCES\tEVENTS\tSECONDS\tRSSANON MIB\tAFTER\tGOAL\tIDLE CPU")
		for _, f := range r.Fleets {
			idle := "-"
			if f.IdleCPU > 0 {
				idle = fmt.Sprintf("%.1f %%", 100*f.IdleCPU)
			}
			fmt.Fprintf(t, "%d\t%d\t%.1f\t%s\t%s\t%s\t%s\n", f.Appliances, f.Events, f.Seconds, mebibytes(f.Anon), mebibytes(f.After), mebibytes(f.Goal), idle)
		}
	}
	if r.Cluster != nil {
		r.Cluster.writeTables(t)
	}
	return t.Flush()
}

// writeTables writes the results of a cluster.
func (c *clusterReport) writeTables(t io.Writer) {
	fmt.Fprintf(t, "\nA cluster of %d bridges on three NATS servers that sync every write\n", c.Members)
	fmt.Fprintln(t, "DRAIN OF ONE APPLIANCE\tEVENTS\tEVENTS/S\tWITHOUT A CLUSTER\t×\tCPU S\tOF NATS SERVERS\tRSSANON MIB")
	for _, d := range c.Drains {
		fmt.Fprintf(t, "%s\t%d\t%s\t%s\t%.2f\t%s\t%s\t%s\n", d.title, d.Events, d.Rate.text("%.0f"), d.Alone.text("%.0f"), ratio(d.Rate, d.Alone), d.CPU.text("%.2f"), d.Servers.text("%.2f"), mebibytes(d.Anon))
	}
	fmt.Fprintln(t, "\nLATENCY, DETECTIONS\tMEDIAN MS\tP99 MS\tMAX MS")
	fmt.Fprintf(t, "%d\t%.2f\t%.2f\t%.2f\n", c.Latency.Detections, c.Latency.Median, c.Latency.P99, c.Latency.Max)
	fmt.Fprintln(t, "\nIDLE CPU\tOF NATS SERVERS")
	fmt.Fprintf(t, "%.1f %%\t%.1f %%\n", 100*c.Idle.Members, 100*c.Idle.Servers)
	if l := c.Takeover; l != nil {
		fmt.Fprintln(t, "\nAPPLIANCES\tEVENTS\tSECONDS\tRSSANON MIB\tWITHOUT AN OWNER S")
		var anon []string
		for _, bytes := range l.Anon {
			anon = append(anon, mebibytes(bytes))
		}
		fmt.Fprintf(t, "%d\t%d\t%.1f\t%v\t%.1f\n", l.Appliances, l.Events, l.Seconds, anon, l.Lost)
	}
}

func (s spread) text(format string) string {
	return fmt.Sprintf(format+" ("+format+"–"+format+")", s.Median, s.Min, s.Max)
}

func ratio(a, b spread) float64 { return a.Median / cmp.Or(b.Median, 1) }

func mebibytes(n int64) string {
	if n == 0 {
		return "-"
	}
	return fmt.Sprintf("%.0f", float64(n)/(1<<20))
}
