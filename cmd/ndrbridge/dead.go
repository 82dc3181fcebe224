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
		Long: `A dead letter is an event that a target rejected permanently, or an object of an
appliance that could not be converted into an event. It is stored with the reason
until it is requeued or dropped.

Give the name of a sink to select its dead letters. Give the appliance and the stream,
such as hq/detections or hq/records/dns, to select those of a stream.`,
		Example: `  ndrbridge dead list lake
  ndrbridge dead show lake 00000000000000001234
  ndrbridge dead requeue lake --all`,
	}, c.deadListCommand(), c.deadShowCommand(), c.deadRequeueCommand(), c.deadDropCommand())
}

// parseOwner parses the owner of dead letters: the name of a sink, or APPLIANCE/STREAM.
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

// chosen returns the keys to act on. With --all it returns nil, which means all of them.
func chosen(keys []string, all bool) ([]string, error) {
	switch {
	case all && len(keys) > 0:
		return nil, fmt.Errorf("%w: give keys or --all, not both", commandline.ErrUsage)
	case all:
		return nil, nil
	case len(keys) == 0:
		return nil, fmt.Errorf("%w: no dead letters selected: give keys, as ndrbridge dead list prints them, or --all", commandline.ErrUsage)
	}
	return keys, nil
}

// deadLetters returns the number of dead letters of an owner.
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
