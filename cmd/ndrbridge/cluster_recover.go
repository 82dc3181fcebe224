package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"

	"github.com/spf13/cobra"

	"ndrbridge/checkpoint"
	"ndrbridge/cmd/internal/commandline"
	"ndrbridge/cmd/internal/terminal"
	"ndrbridge/internal/admin"
	"ndrbridge/internal/bridge"
)

func (c *command) recoverCommand() *cobra.Command {
	yes, file := false, ""
	cmd := c.withJSON(c.withControl(&cobra.Command{
		Use:   "recover",
		Short: "Continue a log that NATS has lost from a copy of the state",
		Long: `Begin the next generation of the log with a copy of the state, if NATS has lost the log or a
part of it. No member owns the log until then, because only an operator can know whether a
copy is the latest. Messages of the log that the copy lacks are lost: events of that time are
read and delivered again, ticket commands and operators' actions are gone.

Without --from, the command shows how far the copy of each reachable member is, and asks
whether to continue with the furthest. Start all members first: one that is not running may
have more. The others follow the new generation, and set their copies aside if they do not
fit.

With --from, the command itself uses a file that no process has open: a backup of ndrbridge
state backup, or the copy of a member that is stopped. It needs the configuration of a
member. Use it if no member has a copy.

Either creates what NATS has lost, once you have confirmed.`,
		Example: `  ndrbridge cluster recover --config ndrbridge.yaml
  ndrbridge cluster recover --from /var/backups/ndrbridge.db --config ndrbridge.yaml`,
		Args: commandline.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if file != "" {
				return c.recoverFromFile(cmd.Context(), file, yes)
			}
			return c.withMember(func(member *admin.Client) error { return c.recoverFromMember(cmd.Context(), member, yes) })
		},
	}))
	addYes(cmd, &yes)
	cmd.Flags().StringVar(&file, "from", "", "begin with `COPY`, a file that no process has open")
	completeFlagBy(cmd, "from", completeFiles())
	return cmd
}

// recovered is what a recovery prints.
type recovered struct {
	From       string `json:"from"`       // the member or file with the copy
	Generation uint64 `json:"generation"` // the generation that was begun; 0: not known
}

// recoverFromMember continues the log with the furthest copy of all members.
func (c *command) recoverFromMember(ctx context.Context, member *admin.Client, yes bool) error {
	seen, err := admin.API.GetCluster.Call(ctx, member, admin.None{})
	if err != nil {
		return err
	}
	if seen.Owner != "" {
		return fmt.Errorf("%s owns the log of the cluster %s: there is nothing to recover", terminal.Printable(seen.Owner), terminal.Printable(seen.Name))
	}
	furthest := slices.MaxFunc(seen.Members, func(a, b admin.ClusterMember) int {
		return cmp.Or(cmp.Compare(a.Generation, b.Generation), cmp.Compare(a.Offset, b.Offset))
	})
	if furthest.Offset == 0 {
		return errors.New("no member that can be reached has a copy of the state: start the others, or give the file of a copy with --from")
	}
	t := terminal.NewTable("MEMBER", "STATE", "GENERATION", "OFFSET", "NOTE")
	for _, m := range seen.Members {
		note := ""
		if m.Member == furthest.Member {
			note = "the furthest"
		}
		t.Add(m.Member, m.State, m.Generation, m.Offset, note)
	}
	t.Print(c.stderr, c.width(), false)
	question := fmt.Sprintf("Continue the log of the cluster %s with the copy of %s? What the log has beyond it is lost.",
		terminal.Printable(seen.Name), terminal.Printable(furthest.Member))
	if err := c.confirmLoss(ctx, yes, question); err != nil {
		return err
	}
	if err := admin.API.RecoverCluster.Do(ctx, member, admin.Recovery{From: furthest.Member}); err != nil {
		return err
	}
	return c.print(recovered{From: furthest.Member}, "the log continues with the copy of %s", terminal.Printable(furthest.Member))
}

// recoverFromFile continues the log with the copy at a path.
func (c *command) recoverFromFile(ctx context.Context, path string, yes bool) error {
	if c.adminURL != "" || c.tokenFile != "" {
		return fmt.Errorf("%w: --from does not act on a running member: use it without --admin and --token-file", commandline.ErrUsage)
	}
	config, err := c.loadCluster()
	if err != nil {
		return err
	}
	done, err := bridge.Recover(ctx, config, path, func(r bridge.Recovery) error {
		log := "NATS has no log of the cluster"
		if r.Current > 0 {
			log = fmt.Sprintf("NATS has generation %d of the log up to message %d", r.Current, r.Last)
		}
		question := fmt.Sprintf("%s has generation %d up to message %d; %s. Continue with this copy? What the log has beyond it is lost.",
			terminal.Printable(r.Path), r.Generation, r.Offset, log)
		return c.confirmLoss(ctx, yes, question)
	})
	switch {
	case errors.Is(err, checkpoint.ErrLocked), errors.Is(err, fs.ErrNotExist):
		return stateError(path, err)
	case err != nil:
		return err
	}
	return c.print(recovered{path, done.Next}, "generation %d of the log continues with %s: start the members", done.Next, terminal.Printable(path))
}
