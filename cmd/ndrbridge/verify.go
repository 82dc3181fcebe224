package main

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"ndrbridge/cmd/internal/terminal"
	"ndrbridge/configs"
	"ndrbridge/internal/admin"
	"ndrbridge/poller"
)

func (c *command) verifyCommand() *cobra.Command {
	var since string
	cmd := c.withJSON(c.withControl(&cobra.Command{
		Use:   "verify APPLIANCE --since TIME",
		Short: "Compare an appliance with what was journalled",
		Long: `Read everything that an appliance returns since a time, stream by stream, and compare it
with what was journalled, by id and version. Nothing is changed. Each difference is
printed when it is found:

  missing  the appliance returns it, and it was never journalled: read it with
           ndrbridge rewind, or wait for the sweep (reconcile)
  pending  the appliance returns it, and the bridge has not read it yet
  dead     it could not be converted into an event and is a dead letter

The exit code is 1 if something is missing, and 0 otherwise. Records can be compared
only as far as the journal goes back.`,
		Example: `  ndrbridge verify hq --since yesterday
  ndrbridge verify hq --since 2026-01-31T08:00:00Z --json`,
		Args:              exactly("APPLIANCE"),
		ValidArgsFunction: c.complete((*configs.Config).ApplianceNames),
		RunE: func(cmd *cobra.Command, args []string) error {
			at, err := parseTime("since", since)
			if err != nil {
				return err
			}
			return c.acting(cmd.Context(), func(control *admin.Client) error {
				v := verifyPrinter{command: c, progress: terminal.NewProgress(c.stderr)}
				all, err := control.Verify(cmd.Context(), args[0], at, poller.VerifyReport{Progress: v.compared, Found: v.found})
				v.progress.Clear()
				if missing := v.end(all); err == nil && missing > 0 {
					return fmt.Errorf("%s missing from the journal; read the stream again with ndrbridge rewind", terminal.Count(missing, "object"))
				}
				return err
			})
		},
	}))
	c.withTime(cmd, &since, "since", "the time to start from")
	return cmd
}

// verifyPrinter prints the differences to standard output and the progress to standard
// error.
type verifyPrinter struct {
	*command
	progress *terminal.Progress
}

func (v *verifyPrinter) compared(stream string, compared int, at time.Time) {
	v.progress.Show(fmt.Sprintf("%s: compared %d, up to %s", stream, compared, at.UTC().Format(time.RFC3339)))
}

func (v *verifyPrinter) found(d poller.Difference) {
	v.progress.Clear()
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

// end prints the totals and returns the number of missing objects.
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
		fmt.Fprintf(v.stdout, "%s since %s: %d compared, %d identical; %s\n",
			stream.Stream, readable(stream.Since), stream.Compared, stream.Same, strings.Join(differences, ", "))
	}
	return missing
}

func (v *verifyPrinter) line(key string, value any) {
	// The values consist of strings, numbers and times, which always encode.
	_ = json.NewEncoder(v.stdout).Encode(map[string]any{key: value})
}
