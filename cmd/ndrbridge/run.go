package main

import (
	"context"
	"errors"
	"os"
	"os/signal"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"ndrbridge/cmd/internal/commandline"
	"ndrbridge/configs"
	"ndrbridge/internal/admin"
	"ndrbridge/internal/bridge"
	"ndrbridge/internal/pipeline"
	"ndrbridge/internal/preflight"
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

SIGHUP reloads the configuration, as does ndrbridge reload, which prints the result, and
a change of a file if reload.watch is set: parts that changed are restarted, everything
else continues, and an invalid configuration changes nothing.`,
		Example: "  ndrbridge run --config ndrbridge.yaml",
		Args:    commandline.NoArgs,
		RunE:    func(cmd *cobra.Command, _ []string) error { return c.serve(cmd.Context()) },
	})
}

// serve runs the service until ctx is cancelled.
func (c *command) serve(ctx context.Context) error {
	config, err := c.load()
	if err != nil {
		return err
	}
	// The process ends even if the bridge misses its deadline.
	commandline.SetGrace(ctx, pipeline.StopLimit(time.Duration(config.ShutdownTimeout)))
	// From here on, SIGHUP must not end the process.
	hangups := make(chan os.Signal, 1)
	signal.Notify(hangups, syscall.SIGHUP)
	defer signal.Stop(hangups)

	tuneMemory(c.environ, len(config.Appliances), len(config.Sinks))
	files, err := c.source().Files()
	if err != nil {
		return err
	}
	log, program := bridge.NewLog(c.stderr, config.Log), thisBuild()
	log.Info("starting", "version", version, "revision", program.revision(), "go", program.Go, "configuration", strings.Join(files, ", "),
		"appliances", len(config.Appliances), "sinks", len(config.Sinks), "state", config.State, "admin", config.Admin.Listen)
	if written, err := configs.WrittenSecrets(c.source()); err == nil { // the configuration was read before
		for _, f := range preflight.CheckFiles(written) {
			log.Warn("secrets in the configuration are exposed", "problem", f.Detail, "advice", f.Advice)
		}
	}
	b, err := bridge.New(ctx, config, bridge.Options{
		Version: version, Revision: program.revision(), Log: log, Stdout: c.stdout, Load: c.load, Files: c.source().Files, Probe: preflight.Reach,
	})
	if err != nil && ctx.Err() != nil && errors.Is(err, ctx.Err()) {
		log.Info("stopped before the start was complete", "error", err)
		return nil
	}
	if err != nil {
		return err
	}
	defer context.AfterFunc(ctx, func() { commandline.SetGrace(ctx, pipeline.StopLimit(b.ShutdownTimeout())) })()
	reloading, stop := context.WithCancel(ctx)
	var reloads sync.WaitGroup
	reloads.Go(func() { reloadOn(reloading, hangups, b.Reload) })
	reloads.Go(func() { b.Watch(reloading) })
	defer reloads.Wait()
	defer stop()
	return b.Run(ctx)
}

// reloadOn calls reload, which logs its result, for each signal until ctx is cancelled.
func reloadOn(ctx context.Context, hangups <-chan os.Signal, reload func(ctx context.Context, trigger string) (admin.Reloaded, error)) {
	for {
		select {
		case <-hangups:
			_, _ = reload(ctx, admin.TriggerSignal)
		case <-ctx.Done():
			return
		}
	}
}

// tuneMemory configures the garbage collector unless the environment sets GOGC or
// GOMEMLIMIT. Little memory is live here and much passes through, so the default would
// collect a hundred times for each backlog. It therefore lets garbage grow to a few times
// the live heap, below a limit. The limit grows with each sink, whose runner may hold several
// batches, and a little with each appliance, because the pages of all appliances
// share one bound.
func tuneMemory(environ []string, appliances, sinks int) {
	if slices.ContainsFunc(environ, func(v string) bool {
		return strings.HasPrefix(v, "GOGC=") || strings.HasPrefix(v, "GOMEMLIMIT=")
	}) {
		return
	}
	debug.SetGCPercent(400)
	debug.SetMemoryLimit(72<<20 + int64(appliances)*256<<10 + int64(sinks)*4<<20)
}
