//go:build unix

package main

import (
	"context"
	"os"
	"strings"
	"syscall"
	"testing"

	"ndrbridge/cmd/internal/commandline"
	"ndrbridge/test/assert"
	"ndrbridge/test/locked"
	"ndrbridge/test/require"
)

func TestSIGHUPReloadsTheConfiguration(t *testing.T) {
	t.Parallel()
	i := install(t)
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	var out, log locked.Buffer
	c := &command{stdout: &out, stderr: &log, environ: []string{"GOGC=100"}}
	exit := make(chan int, 1)
	go func() { exit <- commandline.Run(ctx, c.root(), []string{"run", "--config", i.config}, &out, &log) }()
	await(t, "the bridge", func() bool { return strings.Contains(log.String(), "msg=running") })
	first, _, _ := strings.Cut(log.String(), "\n")
	for _, want := range []string{"msg=starting", "version=dev", "revision=", "go=go", "configuration=" + i.config, "appliances=1", "sinks=1", "admin=" + i.admin} {
		assert.Contains(t, first, want)
	}

	text := require.Value(os.ReadFile(i.config))(t)
	hangup := func(config, logged string) {
		t.Helper()
		require.NoError(t, os.WriteFile(i.config, []byte(config), 0o600))
		require.NoError(t, syscall.Kill(os.Getpid(), syscall.SIGHUP))
		await(t, logged, func() bool { return strings.Contains(log.String(), logged) })
	}
	hangup(string(text), `msg="configuration reloaded" trigger=signal changes=0`)
	hangup(string(text)+"colour: red\n", "configuration not reloaded")
	second := strings.Replace(i.events, "events", "second", 1)
	hangup(strings.Replace(string(text), "name: log,", "name: second, file: {path: "+second+"}, start: beginning}\n  - {name: log,", 1), "second")
	i.appliance.AddMany(1)
	i.await("detections", 1)
	await(t, "the event of the sink that was added", func() bool {
		b, _ := os.ReadFile(second) // it may not be there yet
		return strings.Contains(string(b), "ndrbridge://hq/detections")
	})
	stop()
	assert.Equal(t, <-exit, 0, "exit", &log)
}

func TestAnInterruptedStartIsNoFailure(t *testing.T) {
	t.Parallel()
	i := install(t)
	ctx, stop := context.WithCancel(t.Context())
	stop()
	var out, log locked.Buffer
	c := &command{stdout: &out, stderr: &log, environ: []string{"GOGC=100", "NDRBRIDGE_TICKETS_ENABLED=true"}}
	assert.Equal(t, commandline.Run(ctx, c.root(), []string{"run", "--config", i.config}, &out, &log), 0, "exit", &log)
}
