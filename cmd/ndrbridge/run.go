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
		Long: `Run the service until SIGINT or SIGTERM. Polling stops first, and batches in flight
have shutdown_timeout to complete. Whatever is still running then is abandoned: the
process exits within a second, with exit code 1 and an error that names it. A second
signal ends the process immediately. In every case, events that were not acknowledged
are delivered again after the next start.

SIGHUP reloads the configuration: parts that changed are restarted, everything else
continues, and an invalid configuration changes nothing.`,
		Example: "  ndrbridge run --config ndrbridge.yaml",
		Args:    commandline.NoArgs,
		RunE:    func(cmd *cobra.Command, _ []string) error { return c.serve(cmd.Context()) },
	})
}

// serve runs the service until ctx is cancelled.
func (c *command) serve(ctx context.Context) error {
	load := func() (*configs.Config, error) { return configs.Load(c.configFile, c.environ) }
	config, err := load()
	if err != nil {
		return err
	}
	// The process ends even if the bridge misses its deadline.
	commandline.SetGrace(ctx, time.Duration(config.ShutdownTimeout)+time.Second)
	// From here on, SIGHUP must not end the process.
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
