//go:build e2e

package page

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http/httptest"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"ndrbridge/configs"
	"ndrbridge/internal/bridge"
	"ndrbridge/test/appliance"
	"ndrbridge/test/assert"
	"ndrbridge/test/loopback"
	"ndrbridge/test/require"
)

// count returns how many events a webhook received, and how many of them were
// redeliveries.
func count(r *loopback.Receiver) (events, redelivered int) {
	all := r.Events()
	for _, e := range all {
		if e.Redelivered {
			redelivered++
		}
	}
	return len(all), redelivered
}

// startAppliance serves a stand-in appliance without objects.
func startAppliance(t *testing.T) (a *appliance.Appliance, url string) {
	t.Helper()
	a = appliance.New(appliance.Options{Seed: 1})
	s := httptest.NewServer(a)
	t.Cleanup(s.Close)
	return a, s.URL
}

// settings configures the bridge of a test.
type settings struct {
	state, admin      string // admin is the listen address; empty: a free port
	token, readToken  string
	appliances, sinks string // YAML, a line each
	tickets, journal  string
}

func hq(url string) string {
	return fmt.Sprintf("  - {name: hq, url: %q, api_key: %s, rate_limit: 1000, retry: {initial: 50ms, max: 200ms}, "+
		"detections: {start: beginning, interval: 50ms}, audit: {start: beginning, interval: 50ms}}\n", url, appliance.DefaultAPIKey)
}

func webhook(name, url string) string {
	return fmt.Sprintf("  - {name: %s, webhook: {url: %q}, batch: {linger: 0}, retry: {initial: 50ms, max: 200ms}, probe: 300ms}\n", name, url)
}

// startBridge runs a bridge until the test ends or stop is called.
func startBridge(t *testing.T, s settings) (url string, stop func()) {
	t.Helper()
	if s.state == "" {
		s.state = filepath.Join(t.TempDir(), "state.db")
	}
	if s.admin == "" {
		s.admin = "127.0.0.1:0"
	}
	text := fmt.Sprintf("state: %q\nadmin: {listen: %q, token: %q, read_token: %q}\nappliances:\n%ssinks:\n%s%s%s", s.state, s.admin, s.token, s.readToken, s.appliances, s.sinks, s.tickets, s.journal)
	config, err := configs.Parse("ndrbridge.yaml", []byte(text), nil)
	require.NoError(t, err, text)
	b, err := bridge.New(t.Context(), config, bridge.Options{Version: "1.4.0", Log: bridge.NewLog(new(bytes.Buffer), config.Log), Stdout: io.Discard})
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- b.Run(ctx) }()
	stop = sync.OnceFunc(func() {
		cancel()
		assert.NoError(t, <-done)
	})
	t.Cleanup(stop)
	return "http://" + b.AdminAddress(), stop
}

// await waits until holds returns true.
func await(t *testing.T, what string, holds func() bool) {
	t.Helper()
	for deadline := time.Now().Add(patience); !holds(); time.Sleep(5 * time.Millisecond) {
		require.True(t, !time.Now().After(deadline), "gave up waiting", what)
	}
}
