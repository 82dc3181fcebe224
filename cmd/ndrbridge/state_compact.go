package main

import (
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"ndrbridge/checkpoint"
	"ndrbridge/cmd/internal/commandline"
	"ndrbridge/cmd/internal/terminal"
	"ndrbridge/configs"
)

func (c *command) stateCompactCommand() *cobra.Command {
	return c.withJSON(c.withConfig(&cobra.Command{
		Use:   "compact",
		Short: "Shrink the state file",
		Long: `Rewrite the state file without its free space. A state file never shrinks by itself: a
file that grew large, for example during a long outage of a sink, keeps its size and
reuses the free space. The new file is written beside the old one and replaces it when it
is complete, so the disk must have space for both. The bridge must be stopped.`,
		Example: "  ndrbridge state compact --config ndrbridge.yaml",
		Args:    commandline.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			config, err := configs.Load(c.configFile, c.environ)
			if err != nil {
				return err
			}
			var before, after int64
			err = whileWorking(func(since time.Duration) {
				fmt.Fprintf(c.stderr, "compacting for %s\n", terminal.Duration(since))
			}, func() (err error) {
				before, after, err = checkpoint.Compact(config.State)
				return err
			})
			if err != nil {
				return stateError(config.State, err)
			}
			return c.print(struct {
				Before int64 `json:"before_bytes"`
				After  int64 `json:"after_bytes"`
			}{before, after}, "%s: %s before, %s now", config.State, terminal.Bytes(before), terminal.Bytes(after))
		},
	}))
}
