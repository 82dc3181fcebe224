package main

import (
	"bytes"
	"context"
	"encoding/pem"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"ndrbridge/cmd/internal/commandline"
	"ndrbridge/internal/admin"
	"ndrbridge/test/require"
)

func TestTheStatusIsWatched(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out printed
		var columns, rows atomic.Int32
		resize := func(c, r int32) {
			columns.Store(c)
			rows.Store(r)
		}
		resize(100, 40)
		c := &command{stdout: &out, terminal: true, environ: []string{"NO_COLOR=1"}, screen: func() (int, int, bool) { return int(columns.Load()), int(rows.Load()), true }}
		polls := 0
		failed := errors.New("connection refused")
		ctx, interrupt := context.WithCancel(t.Context())
		done := make(chan error)
		go func() {
			done <- c.watch(ctx, 2*time.Second, func(context.Context) (admin.Status, error) {
				if polls++; polls == 3 {
					return admin.Status{}, failed
				}
				return admin.Status{
					Running: true, Version: "1.2", Appliances: []admin.ApplianceStatus{{Name: "hq", Streams: []admin.StreamStatus{{EventsPerSecond: 12}, {EventsPerSecond: 8}}}},
					Sinks: []admin.SinkStatus{{Name: "lake", State: "running", EventsPerSecond: 30}, {Name: "soc", State: "halted", Error: "it answers and rejects everything, with the status 403 Forbidden"}},
				}, nil
			})
		}()
		frame := func() string {
			synctest.Wait()
			text := out.String()
			return text[strings.LastIndex(text, "\x1b[H"):]
		}
		first := frame()
		if !strings.HasPrefix(out.String(), enterScreen) || !strings.Contains(first, "read 20/s, delivered 30/s") || !strings.Contains(first, "soc is halted") {
			t.Errorf("first %q", first)
		}
		if strings.Index(first, "Ksoc ") > strings.Index(first, "Klake ") {
			t.Errorf("the sink that is halted is not first: %q", first)
		}
		frames := strings.Count(out.String(), "\x1b[H")
		time.Sleep(time.Second)
		if synctest.Wait(); strings.Count(out.String(), "\x1b[H") != frames {
			t.Error("it is drawn again although nothing changed")
		}
		resize(100, 5)
		time.Sleep(300 * time.Millisecond)
		if small := frame(); strings.Count(small, "\n") != 4 || !strings.Contains(small, "more lines: enlarge the terminal") {
			t.Errorf("on a smaller terminal %q", small)
		} else if strings.HasSuffix(small, "\x1b[J") {
			t.Errorf("the last character of a full terminal is erased: %q", small)
		}
		resize(60, 40)
		time.Sleep(300 * time.Millisecond)
		if narrow := frame(); !strings.Contains(narrow, "answers and rejects\r\n\x1b[2K    everything") {
			t.Errorf("on a narrow terminal, the advice is not folded: %q", narrow)
		}
		resize(100, 40)
		time.Sleep(2700 * time.Millisecond) // the third poll
		if bad := frame(); !strings.Contains(bad, "connection refused") || !strings.Contains(bad, "the last known status:") || !strings.Contains(bad, "soc is halted") {
			t.Errorf("while the bridge does not answer %q", bad)
		}
		time.Sleep(2 * time.Second)
		if good := frame(); strings.Contains(good, "connection refused") {
			t.Errorf("when it answers again %q", good)
		}
		interrupt()
		if err := <-done; err != nil || !strings.HasSuffix(out.String(), leaveScreen) {
			t.Errorf("it ends with %v, %q", err, out.String()[len(out.String())-20:])
		}
	})
}

func TestAStatusThatCannotBeWatched(t *testing.T) {
	var out, errs bytes.Buffer
	c := &command{stdout: &out, stderr: &errs}
	for _, test := range []struct {
		args     []string
		terminal bool
		want     string
	}{
		{[]string{"--watch"}, false, "--watch requires a terminal"},
		{[]string{"--watch", "--json"}, true, "run ndrbridge status --json in a loop"},
		{[]string{"--watch=1ms"}, true, "must be at least 500ms"},
		{[]string{"--watch", "5s"}, true, "write --watch=5s"},
		{[]string{"--watch=often"}, true, `"often" is not a duration`},
	} {
		errs.Reset()
		c.terminal, c.asJSON = test.terminal, false
		if exit := commandline.Run(t.Context(), c.root(), append([]string{"status"}, test.args...), &out, &errs); exit != 2 || !strings.Contains(errs.String(), test.want) {
			t.Errorf("%v: exit %d: %s", test.args, exit, &errs)
		}
	}
	failed := errors.New("failed")
	if err := c.watch(t.Context(), time.Second, func(context.Context) (admin.Status, error) { return admin.Status{}, failed }); !errors.Is(err, failed) || out.Len() > 0 {
		t.Errorf("the first error is not returned: %v, %q", err, &out)
	}
}

// A status that is watched for hours must not leave a connection for each request.
func TestAStatusLeavesNoConnectionOpen(t *testing.T) {
	t.Parallel()
	var open, opened atomic.Int64
	server := httptest.NewUnstartedServer(admin.NewHandler(admin.Options{
		Metrics: prometheus.NewRegistry(), Control: func() *admin.Client { return nil }, NotReady: func() []string { return nil },
		Tickets: func() admin.Tickets { return admin.Tickets{} },
	}))
	server.Config.ConnState = func(_ net.Conn, state http.ConnState) {
		switch state {
		case http.StateNew:
			open.Add(1)
			opened.Add(1)
		case http.StateClosed:
			open.Add(-1)
		}
	}
	server.StartTLS()
	t.Cleanup(server.Close)
	authority := filepath.Join(t.TempDir(), "ca.pem")
	require.NoError(t, os.WriteFile(authority, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw}), 0o600))
	c := &command{adminURL: server.URL, givenTLS: givenTLS{caFile: authority}, stderr: io.Discard}
	if _, err := c.status(t.Context()); err == nil || !strings.Contains(err.Error(), "the state is being opened") {
		t.Error(err)
	}
	if opened.Load() == 0 {
		t.Error("no connection was made")
	}
	await(t, "all connections to be closed", func() bool { return open.Load() == 0 })
}
