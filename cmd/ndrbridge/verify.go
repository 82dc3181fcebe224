package main

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"ndrbridge/cmd/internal/commandline"
	"ndrbridge/poller"
)

func (c *command) verifyCommand() *cobra.Command {
	var since string
	cmd := c.withJSON(c.withControl(&cobra.Command{
		Use:   "verify APPLIANCE --since TIME",
		Short: "Compare what an appliance shows with what was journalled",
		Long: `Ask an appliance for everything that it shows since a time, stream by stream, and
compare it with what was journalled, by id and version. Nothing is changed. Each
difference is printed as it is found:

  missing   the appliance shows it, and it was never journalled: read it with
            ndrbridge rewind, or wait for the sweep (detections.reconcile)
  pending   the appliance shows it, and the bridge has yet to read it
  older     the appliance shows an older version than was journalled
  gone      it was journalled, and the appliance deleted or hides it
  filtered  it was journalled, and the stream's filter no longer selects it
  dead      it could not be made into an event, and is a dead letter

The exit code is 1 where something is missing, and 0 otherwise. Records are
compared as far as the journal reaches back.`,
		Example: `  ndrbridge verify hq --since -24h
  ndrbridge verify hq --since 2026-01-31T08:00:00Z --json`,
		Args:              exactly("APPLIANCE"),
		ValidArgsFunction: c.complete(applianceNames),
		RunE: func(cmd *cobra.Command, args []string) (err error) {
			at, err := parseTime("since", since)
			if err != nil {
				return err
			}
			control, done, err := c.control()
			if err != nil {
				return err
			}
			defer commandline.Close(done, &err)
			v := verifyPrinter{command: c}
			all, err := control.Verify(cmd.Context(), args[0], at, poller.VerifyReport{Progress: v.progress, Found: v.found})
			missing := v.end(all)
			switch {
			case err != nil:
				return err
			case missing > 0:
				return fmt.Errorf("%d objects that the appliance shows were never journalled", missing)
			}
			return nil
		},
	}))
	cmd.Flags().StringVar(&since, "since", "", "where to begin: -24h, beginning, or a time such as 2026-01-31T08:00:00Z")
	return cmd
}

// verifyPrinter prints how a comparison goes: what it finds on standard output,
// its progress on standard error.
type verifyPrinter struct {
	*command
	printed time.Time
}

func (v *verifyPrinter) progress(stream string, compared int, at time.Time) {
	const every = 2 * time.Second
	if now := time.Now(); now.Sub(v.printed) >= every {
		v.printed = now
		fmt.Fprintf(v.stderr, "%s: compared %d, up to %s\n", stream, compared, at.UTC().Format(time.RFC3339))
	}
}

func (v *verifyPrinter) found(d poller.Difference) {
	if v.asJSON {
		v.line("difference", d)
		return
	}
	fmt.Fprintf(v.stdout, "%-9s %s %s%s%s\n", d.Kind, d.Stream, d.ID, versionOf("shown", d.Shown), versionOf("journalled", d.Journalled))
}

func versionOf(what string, version int64) string {
	if version == 0 {
		return ""
	}
	return fmt.Sprintf(", %s %s", what, time.UnixMilli(version).UTC().Format("2006-01-02T15:04:05.000Z"))
}

// end prints the sums and returns how many objects are missing.
func (v *verifyPrinter) end(all []poller.Verification) (missing int) {
	for _, stream := range all {
		missing += stream.Differences[poller.DiffMissing]
		if v.asJSON {
			v.line("verification", stream)
			continue
		}
		var differences []string
		for kind, n := range stream.Differences {
			differences = append(differences, fmt.Sprintf("%d %s", n, kind))
		}
		slices.Sort(differences)
		if differences == nil {
			differences = []string{"no difference"}
		}
		fmt.Fprintf(v.stdout, "%s since %s: %d shown, %d of them journalled as they are; %s\n",
			stream.Stream, readable(stream.Since), stream.Compared, stream.Same, strings.Join(differences, ", "))
	}
	return missing
}

func (v *verifyPrinter) line(key string, value any) {
	// What is printed are strings, numbers and times.
	_ = json.NewEncoder(v.stdout).Encode(map[string]any{key: value})
}
