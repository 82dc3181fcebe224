package main

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"ndrbridge/admin"
	"ndrbridge/checkpoint"
	"ndrbridge/cmd/internal/commandline"
)

func (c *command) deadCommand() *cobra.Command {
	return group(&cobra.Command{
		Use:   "dead",
		Short: "List, show, requeue and drop dead letters",
		Long: `Dead letters are what could not be delivered, kept with the reason: an event that
a sink's target refused for good, or an object of an appliance that could not be
made into an event. They are kept until they are requeued or dropped.

A sink's are named by the sink. A stream's are named by the appliance and the
stream, such as hq/detections or hq/records/dns.`,
		Example: `  ndrbridge dead list lake
  ndrbridge dead show lake 00000000000000001234
  ndrbridge dead requeue lake --all`,
	}, c.deadListCommand(), c.deadShowCommand(), c.deadRequeueCommand(), c.deadDropCommand())
}

// parseOwner reads whose dead letters are meant: a sink's, or an appliance's
// stream's.
func parseOwner(text string) (checkpoint.Owner, error) {
	appliance, stream, isStream := strings.Cut(text, "/")
	switch {
	case !isStream && text != "":
		return checkpoint.SinkOwner(text), nil
	case appliance != "" && stream != "":
		return checkpoint.SourceOwner(checkpoint.Source{Appliance: appliance, Stream: stream}), nil
	}
	return "", fmt.Errorf("%w: %q is neither a sink nor APPLIANCE/STREAM, such as hq/detections", commandline.ErrUsage, text)
}

// chosen are the keys that a command acts on: those that were given, or nil, which
// is all of them, with --all.
func chosen(keys []string, all bool) ([]string, error) {
	switch {
	case all && len(keys) > 0:
		return nil, fmt.Errorf("%w: give keys or --all, not both", commandline.ErrUsage)
	case all:
		return nil, nil
	case len(keys) == 0:
		return nil, fmt.Errorf("%w: say which: give keys, as ndrbridge dead list prints them, or --all", commandline.ErrUsage)
	}
	return keys, nil
}

// deadLetters counts those of an owner.
func deadLetters(ctx context.Context, control admin.Control, owner checkpoint.Owner) (uint64, error) {
	status, err := control.Status(ctx)
	if err != nil {
		return 0, err
	}
	for _, a := range status.Appliances {
		for _, s := range a.Streams {
			if owner == checkpoint.SourceOwner(checkpoint.Source{Appliance: a.Name, Stream: s.Stream}) {
				return s.DeadLetters, nil
			}
		}
	}
	for _, sinks := range [][]admin.SinkStatus{status.Sinks, status.Unconfigured} {
		for _, s := range sinks {
			if owner == checkpoint.SinkOwner(s.Name) {
				return s.DeadLetters, nil
			}
		}
	}
	return 0, nil
}
