package main

import (
	"context"
	"os"
	"os/signal"
	"sync"
	"syscall"
	"time"

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
are given shutdown_timeout to end. What has not ended then is abandoned: within a
second the process is gone, with exit code 1 and an error that names it. A second
signal ends it at once. Either way, what was not acknowledged is delivered again at
the next start.

SIGHUP loads the configuration again: what differs is started again, all else goes
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
	// Should the bridge not keep its deadline, the process ends all the same.
	commandline.SetGrace(ctx, time.Duration(config.ShutdownTimeout)+time.Second)
	// From here on to the end, a hangup must not end the process.
	hangups := make(chan os.Signal, 1)
	signal.Notify(hangups, syscall.SIGHUP)
	defer signal.Stop(hangups)

	tuneMemory(c.environ, len(config.Appliances), len(config.Sinks))
	log := bridge.NewLog(c.stderr, config.Log)
	b, err := bridge.New(ctx, config, bridge.Options{Version: version, Log: log, Stdout: c.stdout, Load: load})
	if err != nil {
		return err
	}
	defer context.AfterFunc(ctx, func() { commandline.SetGrace(ctx, b.ShutdownTimeout()+time.Second) })()
	reloading, stop := context.WithCancel(ctx)
	var reloads sync.WaitGroup
	reloads.Go(func() { reloadOn(reloading, hangups, b.Reload, log) })
	defer reloads.Wait()
	defer stop()
	return b.Run(ctx)
}
