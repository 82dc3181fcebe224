package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"

	"github.com/spf13/cobra"

	"ndrbridge/checkpoint"
	"ndrbridge/cmd/internal/commandline"
	"ndrbridge/cmd/internal/terminal"
	"ndrbridge/internal/admin"
)

func (c *command) exportCommand() *cobra.Command {
	force, from := false, ""
	cmd := c.withJSON(c.withControl(&cobra.Command{
		Use:   "export FILE",
		Short: "Make the state of a single bridge from that of a cluster",
		Long: `Write the state of the cluster as the state file of a bridge that runs alone, which
continues where the cluster stopped: to give the cluster up, or if NATS cannot be repaired
soon. FILE is created with mode 0600 only when it is complete and on disk.

The state is that of the owner. With --from, it is a copy that no process has open, of a
member that is stopped or of ndrbridge state backup; neither NATS nor a running member is
needed then, and the copy is not changed.

Stop all members before you start a bridge with FILE and a configuration without cluster:
both would deliver the same events. What the cluster did after the export is done again.`,
		Example: `  ndrbridge cluster export /var/lib/ndrbridge/single.db --config ndrbridge.yaml
  ndrbridge cluster export single.db --from /var/lib/ndrbridge/state.db`,
		Args:              exactly("FILE"),
		ValidArgsFunction: completeOne(completeFiles()),
		RunE: func(cmd *cobra.Command, args []string) error {
			n, err := c.export(cmd.Context(), args[0], from, force)
			if err != nil {
				return err
			}
			return c.print(struct {
				File  string `json:"file"`
				Bytes int64  `json:"bytes"`
			}{args[0], n}, "%s: %s", terminal.Printable(args[0]), terminal.Bytes(n))
		},
	}))
	cmd.Flags().StringVar(&from, "from", "", "use `COPY`, a file that no process has open")
	cmd.Flags().BoolVar(&force, "force", false, "replace an existing file")
	completeFlagBy(cmd, "from", completeFiles())
	return cmd
}

// export writes the state of the owner, or the copy at the path from unless that is empty, to path,
// and makes it the state of a single bridge. It returns the size in bytes.
func (c *command) export(ctx context.Context, path, from string, force bool) (n int64, err error) {
	if from == "" {
		err = c.withMember(func(member *admin.Client) error {
			n, err = c.backupToFile(ctx, member, path, force, checkpoint.Detach)
			return err
		})
		return n, err
	}
	if c.adminURL != "" || c.tokenFile != "" {
		return 0, fmt.Errorf("%w: --from does not act on a running member: use it without --admin and --token-file", commandline.ErrUsage)
	}
	if err := replaceable(path, from, force); err != nil {
		return 0, err
	}
	return checkpoint.WriteCopy(path, func(w io.Writer) error { return readCopy(from, w) }, checkpoint.Detach)
}

// readCopy writes the copy of a log at path to w. No other process has it open meanwhile.
func readCopy(path string, w io.Writer) (err error) {
	file, err := os.Open(path)
	if err != nil {
		return stateError(path, err)
	}
	defer commandline.Close(file.Close, &err)
	lock, err := checkpoint.OpenReplica(path, -1)
	if errors.Is(err, checkpoint.ErrLocked) || errors.Is(err, fs.ErrNotExist) {
		return stateError(path, err)
	}
	if err != nil {
		return err
	}
	defer commandline.Close(lock.Close, &err)
	_, err = io.Copy(w, file)
	return err
}
