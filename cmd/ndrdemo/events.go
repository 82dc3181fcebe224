package main

import (
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"ndrbridge/cmd/internal/commandline"
	standin "ndrbridge/test/appliance"
	"ndrbridge/test/ledger"
	"ndrbridge/transform"
)

func eventsCommand(stdout io.Writer) *cobra.Command {
	seed := uint64(1)
	cmd := &cobra.Command{
		Use:   "events",
		Short: "Print a few events of the stand-in appliance",
		Long: `Print a few events of the stand-in appliance, one JSON object per line: some detections,
one of them a second time when it is closed, an audit log entry and a record. The same
seed gives the same events.`,
		Example: `  ndrdemo events | ndrbridge try render slack
  ndrdemo events --seed 7 | ndrbridge try match 'detection.risk_score >= 80'`,
		Args: commandline.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			events, err := someEvents(seed)
			if err != nil {
				return err
			}
			for _, e := range events {
				if _, err := fmt.Fprintf(stdout, "%s\n", e.Structured()); err != nil {
					return err
				}
			}
			return nil
		},
	}
	cmd.Flags().Uint64Var(&seed, "seed", seed, "seed of the random events")
	return cmd
}

// someEvents returns the events of a stand-in appliance with the seed and a fixed clock.
func someEvents(seed uint64) ([]transform.Event, error) {
	const detections = 7
	now := time.Date(2026, time.March, 14, 9, 26, 53, 0, time.UTC)
	a := standin.New(standin.Options{Seed: seed, Now: func() time.Time { return now }})
	shown := a.AddBacklog(detections, time.Hour)
	if err := a.Update(func(d *standin.Detection) {
		d.Status, d.Resolution, d.Assignee = "closed", "action_taken", "ada"
	}, shown[0].ID); err != nil {
		return nil, err
	}
	a.AddAudit(1)
	a.AddRecords(1)

	encoder := transform.Encoder{Appliance: "hq"}
	var events []transform.Event
	var failed error
	add := func(e transform.Event, err error) {
		events, failed = append(events, e), errors.Join(failed, err)
	}
	known := make(map[int64][]byte) // the last version's tracked fields
	for _, v := range ledger.VersionsOf(a, 0) {
		d, err := transform.ParseDetection([]byte(v.Object), false)
		if err != nil {
			return nil, err
		}
		add(encoder.Detection(d, transform.Observation{Created: known[v.ID] == nil, Before: known[v.ID], Recorded: now}))
		known[v.ID] = d.Digested().Tracked
	}
	for _, o := range ledger.AuditEntriesOf(a) {
		entry, err := transform.ParseAuditEntry([]byte(o.JSON), false)
		if err != nil {
			return nil, err
		}
		add(encoder.AuditEntry(entry, now))
	}
	for _, o := range ledger.RecordsOf(a) {
		add(encoder.Record("all", transform.ParseRecord([]byte(o.JSON), false), now))
	}
	return events, failed
}
