package main

import (
	"cmp"
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"ndrbridge/cmd/internal/commandline"
	"ndrbridge/internal/admin"
)

func (c *command) deadListCommand() *cobra.Command {
	var after string
	var limit int
	var grouped bool
	cmd := c.withJSON(c.withControl(&cobra.Command{
		Use:   "list [SINK|APPLIANCE/STREAM]",
		Short: "List dead letters, or how many there are for each reason",
		Long: `Without an argument, list how many dead letters all sinks and streams have, one row for
each reason. Reasons that differ only in times, ids and numbers count as one. KEY is the
newest dead letter of the row, which ndrbridge dead show prints. Up to 100,000 dead
letters are read; a message on standard error reports how many are in no row.

With the name of a sink or a stream, list its dead letters in the order of their keys. For
a sink, this is the order of the events. With --json, each is printed with its body.
--group lists the reasons instead.`,
		Example: `  ndrbridge dead list
  ndrbridge dead list lake
  ndrbridge dead list lake --group
  ndrbridge dead list hq/detections
  ndrbridge dead list lake --limit 0 --json > dead.jsonl`,
		Args:              atMost("SINK|APPLIANCE/STREAM"),
		ValidArgsFunction: c.complete(ownerNames),
		RunE: func(cmd *cobra.Command, args []string) error {
			name := strings.Join(args, "")
			var owner admin.OfDead
			if len(args) > 0 {
				var err error
				if owner, err = parseOwner(name); err != nil {
					return err
				}
			}
			if len(args) == 0 || grouped {
				if after != "" {
					return fmt.Errorf("%w: --after continues the list of one sink or stream, without --group", commandline.ErrUsage)
				}
				return c.acting(cmd.Context(), func(control *admin.Client) error { return c.listDeadGroups(cmd.Context(), control, name, owner, limit) })
			}
			return c.acting(cmd.Context(), func(control *admin.Client) error {
				// Dead letters include their bodies, so pages are small.
				r := admin.DeadRequest{OfDead: owner, After: after, Limit: 32, Bodies: c.asJSON}
				return list(c, listing[admin.DeadLetter]{
					columns: []string{"KEY", "TIME", "CLASS", "EVENT", "REASON"},
					limit:   limit,
					next: func() ([]admin.DeadLetter, bool, error) {
						page, err := admin.API.ListDeadLetters.Call(cmd.Context(), control, r)
						r.After = page.Next
						return page.DeadLetters, page.Next == "", err
					},
					row: func(d admin.DeadLetter) []any {
						return []any{d.Key, d.Time.UTC().Format(time.RFC3339), d.Class, cmp.Or(d.EventID, "-"), d.Reason}
					},
					none: name + " has no dead letters",
					more: func(last admin.DeadLetter) string {
						return fmt.Sprintf("run ndrbridge dead list %s --after %s, or use --limit 0", name, last.Key)
					},
				})
			})
		},
	}))
	cmd.Flags().StringVar(&after, "after", "", "start after this key")
	cmd.Flags().IntVar(&limit, "limit", 100, "the maximum number of dead letters or reasons to list; 0: all")
	cmd.Flags().BoolVar(&grouped, "group", false, "list the reasons and how often they occur")
	return cmd
}

// listDeadGroups prints the reasons of the dead letters of an owner with a name, or of those of
// all owners if the name is empty.
func (c *command) listDeadGroups(ctx context.Context, control *admin.Client, name string, owner admin.OfDead, limit int) error {
	all, err := admin.API.GroupDeadLetters.Call(ctx, control, admin.GroupsRequest{OfDead: owner})
	if err != nil {
		return err
	}
	none := "there are no dead letters"
	if name != "" {
		none = name + " has no dead letters"
	}
	if all.Total > 0 {
		none = fmt.Sprintf("there are %d dead letters, and none could be grouped", all.Total)
	}
	if err := list(c, listing[admin.DeadGroup]{
		columns: []string{"OWNER", "CLASS", "COUNT", "FIRST", "LAST", "KEY", "REASON"},
		whole:   true, // reasons often begin alike, with the address of the target
		limit:   limit,
		next:    func() ([]admin.DeadGroup, bool, error) { return all.Groups, true, nil },
		row: func(g admin.DeadGroup) []any {
			return []any{g.Owner(), g.Class, g.Count, g.First.Format(time.RFC3339), g.Last.Format(time.RFC3339), g.Key, g.Reason}
		},
		none: none,
		more: func(admin.DeadGroup) string { return "use --limit 0" },
	}); err != nil {
		return err
	}
	if all.Ungrouped > 0 {
		fmt.Fprintf(c.stderr, "%d of %d dead letters are in no row: there are too many dead letters or reasons to group; give a sink or a stream with --group, or list them without\n",
			all.Ungrouped, all.Total)
	}
	return nil
}
