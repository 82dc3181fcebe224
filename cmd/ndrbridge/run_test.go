//go:build unix

package main

import (
	"context"
	"os"
	"strings"
	"syscall"
	"testing"

	"ndrbridge/cmd/internal/commandline"
)

func TestSIGHUPReloadsTheConfiguration(t *testing.T) {
	t.Parallel()
	i := install(t)
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	var out, log printed
	c := &command{stdout: &out, stderr: &log}
	exit := make(chan int, 1)
	go func() { exit <- commandline.Run(ctx, c.root(), []string{"run", "--config", i.config}, &out, &log) }()
	await(t, "the bridge", func() bool { return strings.Contains(log.String(), "msg=running") })

	text, err := os.ReadFile(i.config)
	if err != nil {
		t.Fatal(err)
	}
	hangup := func(config, logged string) {
		t.Helper()
		if err := os.WriteFile(i.config, []byte(config), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := syscall.Kill(os.Getpid(), syscall.SIGHUP); err != nil {
			t.Fatal(err)
		}
		await(t, logged, func() bool { return strings.Contains(log.String(), logged) })
	}
	hangup(string(text), "nothing changed")
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
