package main

import (
	"context"
	"os"
	"os/signal"
	"sync"
	"syscall"

	"github.com/spf13/cobra"

	"ndrbridge/bridge"
	"ndrbridge/cmd/internal/commandline"
	"ndrbridge/configs"
)

func (c *command) runCommand() *cobra.Command {
	return c.withConfig(&cobra.Command{
		Use:   "run",
		Short: "Run the service",
		Long: `Run the service until SIGINT or SIGTERM. Polling stops first; batches in flight
are given shutdown_timeout to end. A second signal ends it at once: what was not
acknowledged is delivered again at the next start.

SIGHUP loads the configuration again: what differs is started anew, all else goes
on, and a configuration that is not good changes nothing.`,
		Example: "  ndrbridge run --config ndrbridge.yaml",
		Args:    commandline.NoArgs,
		RunE:    func(cmd *cobra.Command, _ []string) error { return c.serve(cmd.Context()) },
	})
}

// serve runs the service until ctx ends.
func (c *command) serve(ctx context.Context) error {
	load := func() (*configs.Config, error) { return configs.Load(c.configFile, c.environ) }
	config, err := load()
	if err != nil {
		return err
	}
	// From here on to the end, a hangup must not end the process.
	hangups := make(chan os.Signal, 1)
	signal.Notify(hangups, syscall.SIGHUP)
	defer signal.Stop(hangups)

	tuneMemory(c.environ, len(config.Appliances)+len(config.Sinks))
	log := bridge.NewLog(c.stderr, config.Log)
	b, err := bridge.New(ctx, config, bridge.Options{Version: version, Log: log, Stdout: c.stdout, Load: load})
	if err != nil {
		return err
	}
	reloading, stop := context.WithCancel(ctx)
	var reloads sync.WaitGroup
	reloads.Go(func() { reloadOn(reloading, hangups, b.Reload, log) })
	defer reloads.Wait()
	defer stop()
	return b.Run(ctx)
}
