package main

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"ndrbridge/checkpoint"
	"ndrbridge/cmd/internal/commandline"
	"ndrbridge/cmd/internal/terminal"
	"ndrbridge/configs"
	"ndrbridge/internal/admin"
	"ndrbridge/internal/commands"
	"ndrbridge/internal/notes"
)

func (c *command) ticketsCommand() *cobra.Command {
	return group(&cobra.Command{
		Use:   "tickets",
		Short: "List, show, retry and drop commands to appliances",
		Long: `A command is a change that is to be written to an appliance: in a ticket system, for
example that a ticket was closed or assigned, or of a tuning rule. Commands are received through the admin
API, webhooks, NATS and Kafka. They are kept until they are applied or rejected, and for
a week after that.`,
		Example: `  ndrbridge tickets list --status rejected
  ndrbridge tickets show 17
  ndrbridge tickets retry 17`,
	}, c.ticketsListCommand(), c.ticketsShowCommand(), c.ticketsRetryCommand(), c.ticketsDropCommand())
}

func (c *command) ticketsListCommand() *cobra.Command {
	r, limit := admin.CommandsRequest{Limit: 500}, 0
	states := []string{string(checkpoint.CommandPending), string(checkpoint.CommandApplied), string(checkpoint.CommandRejected)}
	cmd := c.withJSON(c.withControl(&cobra.Command{
		Use:   "list",
		Short: "List ticket commands, oldest first",
		Long:  `List ticket commands in the order in which they were accepted.`,
		Example: `  ndrbridge tickets list
  ndrbridge tickets list --status rejected --appliance hq
  ndrbridge tickets list --ticket SEC-1 --limit 0 --json`,
		Args: commandline.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if r.Status != "" && !slices.Contains(states, string(r.Status)) {
				return fmt.Errorf("%w: --status: %q is not one of %s", commandline.ErrUsage, r.Status, strings.Join(states, ", "))
			}
			none := "there are no matching ticket commands"
			if c.adminURL == "" {
				if config, err := c.actingConfig(); err == nil && !config.Tickets.Enabled {
					none += "; tickets.enabled is false, so the bridge accepts none"
				}
			}
			return c.acting(cmd.Context(), func(control *admin.Client) error {
				return list(c, listing[admin.TicketCommand]{
					columns: []string{"ID", "ACCEPTED", "APPLIANCE", "TICKET", "STATUS", "COMMAND", "REASON"},
					limit:   limit,
					next: func() ([]admin.TicketCommand, bool, error) {
						page, err := admin.API.ListTicketCommands.Call(cmd.Context(), control, r)
						r.After = page.Next
						return page.Commands, page.Next == 0, err
					},
					row: func(command admin.TicketCommand) []any {
						return []any{command.ID, command.Accepted.UTC().Format(time.RFC3339), command.Appliance, cmp.Or(command.TicketID, "-"),
							wordCell(string(command.Status)), changesText(command.Command), command.Reason}
					},
					none: none,
					more: func(last admin.TicketCommand) string { return fmt.Sprintf("add --after %d or --limit 0", last.ID) },
				})
			})
		},
	}))
	cmd.Flags().StringVar((*string)(&r.Status), "status", "", "list only commands with this status: "+strings.Join(states, ", "))
	cmd.Flags().StringVar(&r.Appliance, "appliance", "", "list only commands for this appliance")
	cmd.Flags().StringVar(&r.Ticket, "ticket", "", "list only commands of this ticket")
	cmd.Flags().Uint64Var(&r.After, "after", 0, "start after this id")
	cmd.Flags().IntVar(&limit, "limit", 100, "the maximum number of commands to list; 0: all")
	completeFlagBy(cmd, "status", cobra.FixedCompletions(states, cobra.ShellCompDirectiveNoFileComp))
	completeFlagBy(cmd, "appliance", c.completeNames((*configs.Config).ApplianceNames))
	return cmd
}

// changesText returns what a command changes, in the order of its JSON fields, without the
// fields that have their own columns. Of a note, it has the beginning.
func changesText(body []byte) string {
	const maxNote = 100
	var fields commands.Command
	if json.Unmarshal(body, &fields) != nil {
		return "?"
	}
	number := func(id int64) string { return strings.TrimPrefix(strconv.FormatInt(id, 10), "0") }
	var hide commands.Hide
	var parts []string
	if fields.Hide != nil {
		hide, parts = *fields.Hide, []string{"hide"}
	}
	if fields.End {
		parts = append(parts, "end")
	}
	for _, f := range []struct{ name, value string }{
		{"detection", number(fields.Detection())}, {"status", fields.Status}, {"resolution", fields.Resolution},
		{"offender", hide.Offender}, {"victim", hide.Victim}, {"types", hide.Types}, {"until", hide.Expiration},
		{"rule", number(fields.RuleID)}, {"until", fields.Extend},
	} {
		if f.value != "" {
			parts = append(parts, f.name+"="+f.value)
		}
	}
	if fields.Assignee != nil {
		parts = append(parts, "assignee="+strconv.Quote(*fields.Assignee))
	}
	if fields.Note != "" {
		parts = append(parts, "note="+strconv.Quote(notes.Shorten(fields.Note, maxNote)))
	}
	if fields.By != "" {
		parts = append(parts, "by="+strconv.Quote(fields.By))
	}
	return strings.Join(parts, " ")
}

func (c *command) ticketsShowCommand() *cobra.Command {
	return c.withJSON(c.withControl(&cobra.Command{
		Use:     "show ID",
		Short:   "Show a ticket command in full",
		Long:    `Show a ticket command: the requested change and its result.`,
		Example: "  ndrbridge tickets show 17",
		Args:    exactly("ID"),
		RunE: func(cmd *cobra.Command, args []string) error {
			id, err := parseID(args[0])
			if err != nil {
				return err
			}
			return c.acting(cmd.Context(), func(control *admin.Client) error {
				command, err := admin.API.GetTicketCommand.Call(cmd.Context(), control, admin.OfCommand{ID: id})
				if err != nil {
					return err
				}
				if c.asJSON {
					return c.printJSON(command)
				}
				done := "-"
				if !command.Done.IsZero() {
					done = command.Done.UTC().Format(time.RFC3339Nano)
				}
				_, err = fmt.Fprintf(c.stdout, "id         %d\nappliance  %s\nticket     %s\naccepted   %s\nstatus     %s\ndone       %s\nreason     %s\n\n%s",
					command.ID, terminal.Printable(command.Appliance), terminal.Printable(cmp.Or(command.TicketID, "-")), command.Accepted.UTC().Format(time.RFC3339Nano),
					terminal.Printable(string(command.Status)), done, terminal.Printable(command.Reason), bodyText(command.Command))
				return err
			})
		},
	}))
}

func (c *command) ticketsRetryCommand() *cobra.Command {
	return c.withJSON(c.withControl(&cobra.Command{
		Use:   "retry ID...",
		Short: "Apply rejected ticket commands again",
		Long: `Apply rejected ticket commands again, in their original order: later commands for the
same ticket wait for them, unless they are already done.`,
		Example: "  ndrbridge tickets retry 17 18",
		Args:    atLeast("ID"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return c.changeTickets(cmd.Context(), args, "retried", func(ctx context.Context, control *admin.Client, id uint64) error {
				return admin.API.RetryTicketCommand.Do(ctx, control, admin.OfCommand{ID: id})
			})
		},
	}))
}

func (c *command) ticketsDropCommand() *cobra.Command {
	var yes bool
	cmd := c.withJSON(c.withControl(&cobra.Command{
		Use:   "drop ID...",
		Short: "Delete ticket commands permanently",
		Long: `Delete ticket commands permanently. A pending command is then never applied; for such
a command, this command asks for confirmation or, without a terminal, requires --yes.`,
		Example: "  ndrbridge tickets drop 17",
		Args:    atLeast("ID"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return c.changeTickets(cmd.Context(), args, "dropped", func(ctx context.Context, control *admin.Client, id uint64) error {
				command, err := admin.API.GetTicketCommand.Call(ctx, control, admin.OfCommand{ID: id})
				if err != nil {
					return err
				}
				if command.Status == checkpoint.CommandPending {
					if err := c.confirmLoss(ctx, yes, fmt.Sprintf("Drop the pending ticket command %d of %s?", id, terminal.Printable(cmp.Or(command.TicketID, command.Appliance)))); err != nil {
						return err
					}
				}
				return admin.API.DropTicketCommand.Do(ctx, control, admin.OfCommand{ID: id})
			})
		},
	}))
	addYes(cmd, &yes)
	return cmd
}

// changeTickets calls change for each of the commands until one fails, and prints how many
// were changed.
func (c *command) changeTickets(ctx context.Context, args []string, done string, change func(context.Context, *admin.Client, uint64) error) error {
	var ids []uint64
	for _, arg := range args {
		id, err := parseID(arg)
		if err != nil {
			return err
		}
		ids = append(ids, id)
	}
	return c.acting(ctx, func(control *admin.Client) error {
		n := 0
		var failed error
		for _, id := range ids {
			if failed = change(ctx, control, id); failed != nil {
				break
			}
			n++
		}
		// Some may have been changed before an error.
		if n > 0 {
			if err := c.print(map[string]int{done: n}, "%s %s", terminal.Count(n, "ticket command"), done); err != nil {
				return err
			}
		}
		return failed
	})
}

func parseID(text string) (uint64, error) {
	id, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		return 0, fmt.Errorf("%w: %q is not an id: give a number, as ndrbridge tickets list prints it", commandline.ErrUsage, text)
	}
	return id, nil
}
