package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"ndrbridge/cmd/internal/commandline"
	"ndrbridge/cmd/internal/terminal"
	"ndrbridge/internal/admin"
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
		Example: `  ndrbridge dead list
  ndrbridge dead list lake
  ndrbridge dead show lake 00000000000000001234
  ndrbridge dead requeue lake --all`,
	}, c.deadListCommand(), c.deadShowCommand(), c.deadRequeueCommand(), c.deadDropCommand())
}

// parseOwner parses the owner of dead letters: the name of a sink, or APPLIANCE/STREAM.
func parseOwner(text string) (admin.OfDead, error) {
	appliance, stream, isStream := strings.Cut(text, "/")
	switch {
	case !isStream && text != "":
		return admin.OfDead{Sink: text}, nil
	case appliance != "" && stream != "":
		return admin.OfDead{Appliance: appliance, Stream: stream}, nil
	}
	return admin.OfDead{}, fmt.Errorf("%w: %q is neither a sink nor APPLIANCE/STREAM, such as hq/detections", commandline.ErrUsage, text)
}

func (c *command) deadShowCommand() *cobra.Command {
	return c.withJSON(c.withControl(&cobra.Command{
		Use:   "show SINK|APPLIANCE/STREAM KEY",
		Short: "Show a dead letter in full",
		Long: `Show a dead letter: when and why it was dead-lettered, and the event, or the object as
the appliance returned it. KEY is the first column of ndrbridge dead list.`,
		Example:           "  ndrbridge dead show lake 00000000000000001234",
		Args:              exactly("SINK|APPLIANCE/STREAM", "KEY"),
		ValidArgsFunction: c.complete(ownerNames),
		RunE: func(cmd *cobra.Command, args []string) error {
			owner, err := parseOwner(args[0])
			if err != nil {
				return err
			}
			return c.acting(cmd.Context(), func(control *admin.Client) error {
				d, err := admin.API.GetDeadLetter.Call(cmd.Context(), control, admin.OfDeadLetter{OfDead: owner, Key: args[1]})
				if err != nil {
					return err
				}
				if c.asJSON {
					return c.printJSON(d)
				}
				title := ""
				if d.Title != "" {
					title = "title   " + terminal.Printable(d.Title) + "\n"
				}
				body := []byte(d.Body)
				if body == nil {
					body = d.BodyBase64
				}
				_, err = fmt.Fprintf(c.stdout, "key     %s\ntime    %s\nclass   %s\nevent   %s\n%sreason  %s\n\n%s",
					terminal.Printable(d.Key), d.Time.UTC().Format(time.RFC3339Nano), terminal.Printable(d.Class),
					terminal.Printable(cmp.Or(d.EventID, "-")), title, terminal.Printable(d.Reason), bodyText(body))
				return err
			})
		},
	}))
}

// bodyText formats a body for a person: JSON indented, other bytes quoted. The result ends
// with a newline.
func bodyText(body []byte) string {
	var indented bytes.Buffer
	if json.Indent(&indented, body, "", "  ") != nil {
		return strconv.Quote(string(body)) + "\n"
	}
	return printableLines(indented.String())
}

func (c *command) deadRequeueCommand() *cobra.Command {
	return c.changingDead(&cobra.Command{
		Use:   "requeue SINK (KEY... | --all)",
		Short: "Deliver dead letters of a sink again",
		Long: `Queue dead letters of a sink to be delivered again, in the order of their keys. They
use a separate queue, so that new events do not wait for them, and carry the attribute
redelivered: true. An event that is rejected again becomes a dead letter again. --all asks
for confirmation; without a terminal, it requires --yes.

Dead letters of streams cannot be requeued, because they are not events. Read those
objects again with ndrbridge rewind.`,
		Example: `  ndrbridge dead requeue lake --all
  ndrbridge dead requeue lake 00000000000000001234`,
		Args:              atLeast("SINK"),
		ValidArgsFunction: c.complete(sinkNames),
	}, deadChange{
		done: "requeued", usage: "requeue all dead letters of the sink", question: "Deliver all dead letters of %s again (%d now)?",
		confirm: c.confirm, onlySinks: true,
		do: func(ctx context.Context, control *admin.Client, r admin.Selection) (int, error) {
			requeued, err := admin.API.RequeueDeadLetters.Call(ctx, control, r)
			return requeued.N, err
		},
	})
}

func (c *command) deadDropCommand() *cobra.Command {
	return c.changingDead(&cobra.Command{
		Use:   "drop SINK|APPLIANCE/STREAM (KEY... | --all)",
		Short: "Delete dead letters permanently",
		Long: `Delete dead letters permanently. --all asks for confirmation; without a terminal, it
requires --yes.`,
		Example: `  ndrbridge dead drop lake 00000000000000001234
  ndrbridge dead drop hq/detections --all --yes`,
		Args:              atLeast("SINK|APPLIANCE/STREAM"),
		ValidArgsFunction: c.complete(ownerNames),
	}, deadChange{
		done: "dropped", usage: "drop all dead letters of the sink or stream", question: "Drop all dead letters of %s (%d now)?",
		confirm: c.confirmLoss,
		do: func(ctx context.Context, control *admin.Client, r admin.Selection) (int, error) {
			dropped, err := admin.API.DropDeadLetters.Call(ctx, control, r)
			return dropped.N, err
		},
	})
}

// deadChange is a change of dead letters.
type deadChange struct {
	done, usage, question string // usage is that of --all, and question is asked for it
	confirm               func(ctx context.Context, yes bool, question string) error
	onlySinks             bool
	do                    func(ctx context.Context, control *admin.Client, r admin.Selection) (changed int, err error)
}

// changingDead completes a command that changes dead letters.
func (c *command) changingDead(cmd *cobra.Command, change deadChange) *cobra.Command {
	var all, yes bool
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		owner, err := parseOwner(args[0])
		if err != nil {
			return err
		}
		if change.onlySinks && owner.Sink == "" {
			return fmt.Errorf("%w: dead letters of a stream cannot be requeued; read the objects of %s again with ndrbridge rewind", commandline.ErrUsage, args[0])
		}
		keys := args[1:]
		switch {
		case all && len(keys) > 0:
			return fmt.Errorf("%w: give keys or --all, not both", commandline.ErrUsage)
		case all:
			keys = nil
		case len(keys) == 0:
			return fmt.Errorf("%w: no dead letters selected: give keys, as ndrbridge dead list prints them, or --all", commandline.ErrUsage)
		}
		return c.acting(cmd.Context(), func(control *admin.Client) error {
			if all && !yes {
				groups, err := admin.API.GroupDeadLetters.Call(cmd.Context(), control, admin.GroupsRequest{OfDead: owner})
				if err != nil {
					return err
				}
				if err := change.confirm(cmd.Context(), yes, fmt.Sprintf(change.question, args[0], groups.Total)); err != nil {
					return err
				}
			}
			return c.changeDead(args[0], change.done, keys, func() (int, error) {
				return change.do(cmd.Context(), control, admin.Selection{OfDead: owner, Keys: keys, All: all})
			})
		})
	}
	cmd.Flags().BoolVar(&all, "all", false, change.usage)
	addYes(cmd, &yes)
	return c.withJSON(c.withControl(cmd))
}

// changeDead calls change, which returns how many of the dead letters with these keys, or
// of all if keys is nil, it changed. It prints progress to stderr and the result to stdout.
func (c *command) changeDead(owner, done string, keys []string, change func() (int, error)) error {
	n := 0
	err := terminal.NewProgress(c.stderr).While(func(since time.Duration) string {
		return fmt.Sprintf("dead letters of %s are being %s for %s", owner, done, terminal.Duration(since))
	}, func() (err error) {
		n, err = change()
		return err
	})
	// Some may have been changed before an error.
	if err == nil || n > 0 {
		if err := c.print(map[string]int{done: n}, "%s of %s %s", terminal.Count(n, "dead letter"), owner, done); err != nil {
			return err
		}
	}
	if err == nil && n < len(keys) {
		return fmt.Errorf("%d of %d keys do not exist or hold no event; see ndrbridge dead list %s", len(keys)-n, len(keys), owner)
	}
	return err
}
