package main

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"ndrbridge/admin"
	"ndrbridge/checkpoint"
	"ndrbridge/cmd/internal/commandline"
)

func (c *command) ticketsCommand() *cobra.Command {
	return group(&cobra.Command{
		Use:   "tickets",
		Short: "List, show, retry and drop ticket commands",
		Long: `Ticket commands are what ticket systems want an appliance to know: that a ticket is
closed, or somebody's. They come in by the admin API, by webhooks, NATS and Kafka, and
are kept until they are written; those that are done, for a week.`,
		Example: `  ndrbridge tickets list --status rejected
  ndrbridge tickets show 17
  ndrbridge tickets retry 17`,
	}, c.ticketsListCommand(), c.ticketsShowCommand(), c.ticketsRetryCommand(), c.ticketsDropCommand())
}

// ticketList is what is to be listed.
type ticketList struct {
	checkpoint.CommandFilter
	after uint64
	limit int
}

func (c *command) ticketsListCommand() *cobra.Command {
	var l ticketList
	states := []string{string(checkpoint.CommandPending), string(checkpoint.CommandApplied), string(checkpoint.CommandRejected)}
	cmd := c.withJSON(c.withControl(&cobra.Command{
		Use:   "list",
		Short: "List ticket commands, the oldest first",
		Long:  `List ticket commands in the order in which they were accepted.`,
		Example: `  ndrbridge tickets list
  ndrbridge tickets list --status rejected --appliance hq
  ndrbridge tickets list --ticket SEC-1 --limit 0 --json`,
		Args: commandline.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if l.State != "" && !slices.Contains(states, string(l.State)) {
				return fmt.Errorf("%w: --status: %q is none of %s", commandline.ErrUsage, l.State, strings.Join(states, ", "))
			}
			return c.acting(func(control admin.Control) error { return c.listTickets(cmd.Context(), control, l) })
		},
	}))
	cmd.Flags().StringVar((*string)(&l.State), "status", "", "list those that are "+strings.Join(states, ", "))
	cmd.Flags().StringVar(&l.Appliance, "appliance", "", "list those of an appliance")
	cmd.Flags().StringVar(&l.Subject, "ticket", "", "list those of a ticket")
	cmd.Flags().Uint64Var(&l.after, "after", 0, "begin behind this id")
	cmd.Flags().IntVar(&l.limit, "limit", 100, "list at most so many; 0: all")
	complete := map[string]cobra.CompletionFunc{
		"status": cobra.FixedCompletions(states, cobra.ShellCompDirectiveNoFileComp), "appliance": c.complete(applianceNames),
	}
	for flag, values := range complete {
		if err := cmd.RegisterFlagCompletionFunc(flag, values); err != nil {
			panic(err) // there is no such flag
		}
	}
	return cmd
}

func (c *command) listTickets(ctx context.Context, control admin.Control, l ticketList) error {
	t, n, more := newTable("ID", "ACCEPTED", "APPLIANCE", "TICKET", "STATUS", "COMMAND", "REASON"), 0, false
	for {
		const page = 500
		commands, err := control.Commands(ctx, l.CommandFilter, l.after, page)
		if err != nil {
			return err
		}
		for _, command := range commands {
			if more = l.limit > 0 && n == l.limit; more {
				break
			}
			n++
			l.after = command.ID
			if c.asJSON {
				if err := c.printJSON(admin.NewTicketCommand(command)); err != nil {
					return err
				}
				continue
			}
			t.add(command.ID, command.Accepted.UTC().Format(time.RFC3339), command.Appliance, command.Subject,
				commandCell(command.State), changesText(command.Body), command.Reason)
		}
		if more || len(commands) < page {
			break
		}
	}
	switch {
	case c.asJSON:
	case n == 0:
		fmt.Fprintln(c.stdout, "there are no ticket commands like that")
	default:
		t.print(c.stdout, c.width(), c.colours())
	}
	if more {
		fmt.Fprintf(c.stderr, "there are more: add --after %d, or --limit 0\n", l.after)
	}
	return nil
}

func commandCell(s checkpoint.CommandState) cell {
	colours := map[checkpoint.CommandState]colour{
		checkpoint.CommandPending: yellow, checkpoint.CommandApplied: green, checkpoint.CommandRejected: red,
	}
	return cell{string(s), colours[s]}
}

// changesText is what a command changes, in the order of its JSON, without what
// other columns show.
func changesText(body []byte) string {
	var fields struct {
		DetectionID json.Number `json:"detection_id"`
		Status      string      `json:"status"`
		Resolution  string      `json:"resolution"`
		Assignee    *string     `json:"assignee"`
	}
	if json.Unmarshal(body, &fields) != nil {
		return "?"
	}
	var parts []string
	for _, f := range []struct{ name, value string }{
		{"detection", fields.DetectionID.String()}, {"status", fields.Status}, {"resolution", fields.Resolution},
	} {
		if f.value != "" {
			parts = append(parts, f.name+"="+f.value)
		}
	}
	if fields.Assignee != nil {
		parts = append(parts, "assignee="+strconv.Quote(*fields.Assignee))
	}
	return strings.Join(parts, " ")
}

func (c *command) ticketsShowCommand() *cobra.Command {
	return c.withJSON(c.withControl(&cobra.Command{
		Use:     "show ID",
		Short:   "Show a ticket command whole",
		Long:    `Show a ticket command: what it asks for, and what became of it.`,
		Example: "  ndrbridge tickets show 17",
		Args:    exactly("ID"),
		RunE: func(cmd *cobra.Command, args []string) error {
			id, err := parseID(args[0])
			if err != nil {
				return err
			}
			return c.acting(func(control admin.Control) error {
				command, err := control.Command(cmd.Context(), id)
				if err != nil {
					return err
				}
				if c.asJSON {
					return c.printJSON(admin.NewTicketCommand(command))
				}
				done := "-"
				if !command.Done.IsZero() {
					done = command.Done.UTC().Format(time.RFC3339Nano)
				}
				_, err = fmt.Fprintf(c.stdout, "id         %d\nappliance  %s\nticket     %s\naccepted   %s\nstatus     %s\ndone       %s\nreason     %s\n\n%s\n",
					command.ID, printable(command.Appliance), printable(command.Subject), command.Accepted.UTC().Format(time.RFC3339Nano),
					printable(string(command.State)), done, printable(command.Reason), bodyText(command.Body))
				return err
			})
		},
	}))
}

func (c *command) ticketsRetryCommand() *cobra.Command {
	return c.withJSON(c.withControl(&cobra.Command{
		Use:   "retry ID...",
		Short: "Carry out rejected ticket commands once more",
		Long: `Carry out rejected ticket commands once more, in their old places: what came later
for the same ticket waits for them, unless it is done already.`,
		Example: "  ndrbridge tickets retry 17 18",
		Args:    atLeast("ID"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return c.changeTickets(cmd.Context(), args, "retried", admin.Control.RetryCommand)
		},
	}))
}

func (c *command) ticketsDropCommand() *cobra.Command {
	var yes bool
	cmd := c.withJSON(c.withControl(&cobra.Command{
		Use:   "drop ID...",
		Short: "Forget ticket commands for good",
		Long: `Forget ticket commands for good. One that is pending is not written: it asks first,
or where there is no terminal to ask at, wants --yes.`,
		Example: "  ndrbridge tickets drop 17",
		Args:    atLeast("ID"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return c.changeTickets(cmd.Context(), args, "dropped", func(control admin.Control, ctx context.Context, id uint64) error {
				command, err := control.Command(ctx, id)
				if err != nil {
					return err
				}
				if command.State == checkpoint.CommandPending {
					if err := c.confirm(ctx, yes, fmt.Sprintf("Drop the pending ticket command %d of %s?", id, printable(command.Subject))); err != nil {
						return err
					}
				}
				return control.DropCommand(ctx, id)
			})
		},
	}))
	cmd.Flags().BoolVar(&yes, "yes", false, "do not ask")
	return cmd
}

// changeTickets does something to each of the commands, and tells how many it was
// done to.
func (c *command) changeTickets(ctx context.Context, args []string, done string, commit func(admin.Control, context.Context, uint64) error) error {
	var ids []uint64
	for _, arg := range args {
		id, err := parseID(arg)
		if err != nil {
			return err
		}
		ids = append(ids, id)
	}
	return c.acting(func(control admin.Control) error {
		n := 0
		var failed error
		for _, id := range ids {
			if failed = commit(control, ctx, id); failed != nil {
				break
			}
			n++
		}
		// Some may be settled where the rest failed.
		if n > 0 {
			if err := c.print(map[string]int{done: n}, "%s %s", counted(n, "ticket command"), done); err != nil {
				return err
			}
		}
		return failed
	})
}

func parseID(text string) (uint64, error) {
	id, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		return 0, fmt.Errorf("%w: %q is no id: give a number, as ndrbridge tickets list prints it", commandline.ErrUsage, text)
	}
	return id, nil
}
