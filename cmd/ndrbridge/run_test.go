//go:build unix

package main

import (
	"context"
	"fmt"
	"os"
	"strings"
	"syscall"
	"testing"

	"ndrbridge/cmd/internal/commandline"
	"ndrbridge/configs"
	"ndrbridge/test/locked"
	"ndrbridge/test/loopback"
	"ndrbridge/test/require"
)

func TestSIGHUPReloadsTheConfiguration(t *testing.T) {
	t.Parallel()
	i := install(t)
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	var out, log locked.Buffer
	c := &command{stdout: &out, stderr: &log}
	exit := make(chan int, 1)
	go func() { exit <- commandline.Run(ctx, c.root(), []string{"run", "--config", i.config}, &out, &log) }()
	await(t, "the bridge", func() bool { return strings.Contains(log.String(), "msg=running") })
	first, _, _ := strings.Cut(log.String(), "\n")
	for _, want := range []string{"msg=starting", "version=dev", "revision=", "go=go", "configuration=" + i.config, "appliances=1", "sinks=1", "admin=" + i.admin} {
		if !strings.Contains(first, want) {
			t.Errorf("the first line of the log lacks %s: %s", want, first)
		}
	}

	text, err := os.ReadFile(i.config)
	require.NoError(t, err)
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
	if code := <-exit; code != 0 {
		t.Errorf("exit %d: %s", code, &log)
	}
}

func TestAnInterruptedStartIsNoFailure(t *testing.T) {
	t.Parallel()
	i := install(t)
	ctx, stop := context.WithCancel(t.Context())
	stop()
	var out, log locked.Buffer
	c := &command{stdout: &out, stderr: &log, environ: []string{"NDRBRIDGE_TICKETS_ENABLED=true"}}
	if code := commandline.Run(ctx, c.root(), []string{"run", "--config", i.config}, &out, &log); code != 0 {
		t.Errorf("exit %d: %s", code, &log)
	}
}

func TestABridgeRunsAsAMemberOfACluster(t *testing.T) {
	t.Parallel()
	i := install(t)
	text, err := os.ReadFile(i.config)
	require.NoError(t, err)
	yaml := fmt.Sprintf("cluster: {name: test, member: one, shards: 3, replicas: 1, nats: {url: %q}}\n", loopback.NATS(t, nil).ClientURL()) +
		strings.Replace(string(text), i.events, i.events+".{shard}", 1)
	require.NoError(t, os.WriteFile(i.config, []byte(yaml), 0o600))
	i.appliance.AddMany(3)
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	var out, log locked.Buffer
	run := func(ctx context.Context, args ...string) int {
		c := &command{stdout: &out, stderr: &log}
		return commandline.Run(ctx, c.root(), append(args, "--config", i.config), &out, &log)
	}
	exit := make(chan int, 1)
	go func() { exit <- run(ctx, "run") }()
	await(t, "the member to say how the cluster is created", func() bool { return strings.Contains(log.String(), "ndrbridge cluster init") })
	if code := run(t.Context(), "cluster", "init"); code != 0 || !strings.Contains(out.String(), "the cluster test is created") {
		t.Fatalf("exit %d: %s%s", code, &out, &log)
	}
	events := fmt.Sprintf("%s.%s", i.events, configs.ShardName(configs.ShardOf("hq", 3)))
	await(t, "the events of the appliance in the file of its shard", func() bool {
		b, _ := os.ReadFile(events) // it may not be there yet
		return strings.Count(string(b), "ndrbridge://hq/detections") == 3
	})
	await(t, "the status of the cluster", func() bool {
		return run(t.Context(), "cluster", "status") == 0 && strings.Contains(out.String(), "cluster test, as seen by one")
	})
	stop()
	if code := <-exit; code != 0 {
		t.Errorf("exit %d: %s", code, &log)
	}
}
