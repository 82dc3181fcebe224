package main

import (
	"bytes"
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"ndrbridge/cmd/internal/commandline"
	"ndrbridge/test/assert"
	"ndrbridge/test/locked"
	"ndrbridge/test/require"
)

// output holds the output of a demo, to be read while it runs.
type output struct{ locked.Buffer }

// folder waits until the parts are printed, and returns the demo's folder.
func (o *output) folder(ctx context.Context) string {
	for ctx.Err() == nil {
		if match := regexp.MustCompile(`(?m)^configuration +(.+)$`).FindStringSubmatch(o.String()); match != nil {
			return filepath.Dir(match[1])
		}
		time.Sleep(10 * time.Millisecond)
	}
	return ""
}

func exists(t *testing.T, path string) bool {
	t.Helper()
	_, err := os.Stat(path)
	require.True(t, err == nil || errors.Is(err, fs.ErrNotExist), err)
	return err == nil
}

func TestDemo(t *testing.T) {
	t.Run("it ends by itself, and nothing is missing", func(t *testing.T) {
		t.Parallel()
		var stdout, stderr output
		code := run(t.Context(), []string{"--for", "10s", "--rate", "40"}, &stdout, &stderr)
		for _, want := range []string{
			"/api/v1/detections?limit=1'", "/metrics", "/readyz", "in a browser: the status page", "nats://127.0.0.1:", "events.jsonl", "chat, Slack    http://127.0.0.1:",
			"delivered   distinct duplicated    missing", "Nothing is missing",
		} {
			assert.Contains(t, stdout.String(), want)
		}
		assert.True(t, regexp.MustCompile(`(?m)^\d\d:\d\d:\d\d .*(created|updated|logged|stored) `).MatchString(stdout.String()), "the output shows no event")
		assert.True(t, regexp.MustCompile(`The chat received [1-9]\d* messages with [1-9]`).MatchString(stdout.String()), "the chat got nothing")
		assert.True(t, regexp.MustCompile(`[1-9]\d* tickets were opened in Jira; [1-9]\d* detections were linked to their tickets, and [1-9]\d* were closed`).MatchString(stdout.String()))
		assert.Contains(t, stdout.String(), "The first ticket was commented, closed and reopened, and ada's comment arrived in the detection's note.")
		assert.Equal(t, code, commandline.ExitDone, "standard error", &stderr, "exit code")
		assert.Equal(t, stderr.String(), "", "standard error", &stderr)
		folder := stdout.folder(t.Context())
		assert.False(t, exists(t, folder), folder, "is left")
		if t.Failed() {
			t.Log(&stdout)
		}
	})

	t.Run("an interrupt ends it with the summary", func(t *testing.T) {
		t.Parallel()
		ctx, interrupt := context.WithCancel(t.Context())
		var stdout, stderr output
		code := make(chan int, 1)
		go func() { code <- run(ctx, nil, &stdout, &stderr) }()
		folder := stdout.folder(t.Context())
		interrupt()
		got := <-code
		assert.True(t, got == commandline.ExitDone && strings.Contains(stdout.String(), "Nothing is missing") && !exists(t, folder), got, &stdout, &stderr)
	})

	t.Run("a sink that misses something fails it, and its folder is kept", func(t *testing.T) {
		t.Parallel()
		var stdout output
		result := make(chan error, 1)
		go func() {
			result <- play(t.Context(), settings{lasts: 5 * time.Second, patience: time.Second, rate: 40}, &stdout)
		}()
		folder := stdout.folder(t.Context())
		t.Cleanup(func() { os.RemoveAll(folder) })
		// The sink goes on in a new file, where nobody looks for it.
		for i := 0; os.Remove(filesIn(folder).File) != nil; i++ {
			require.True(t, i != 1000, "the sink does not begin", &stdout)
			time.Sleep(10 * time.Millisecond)
		}
		err := <-result
		assert.True(t, errors.Is(err, errMissing) && strings.Contains(err.Error(), folder) && exists(t, folder), err)
		text := stdout.String()
		assert.True(t, strings.Contains(text, "\nsink log: ") && !strings.Contains(text, "Nothing is missing"), "the summary does not say what is missing", text)
	})
}

func TestHelp(t *testing.T) {
	var stdout, stderr bytes.Buffer
	assert.Equal(t, run(t.Context(), []string{"--help"}, &stdout, &stderr), commandline.ExitDone, "it ended with", &stderr)
	for _, text := range []string{"--for", "--rate", "--seed", "Ctrl-C"} {
		assert.Contains(t, stdout.String(), text)
	}
}

func TestWrongUsage(t *testing.T) {
	for _, c := range []struct {
		name string
		args []string
		want string
	}{
		{"an unknown flag", []string{"--fast"}, "--fast"},
		{"an argument", []string{"now"}, "now"},
		{"a negative time", []string{"--for", "-1s"}, "--for"},
		{"a negative rate", []string{"--rate", "-1"}, "--rate"},
		{"a rate beyond what the demo is made for", []string{"--rate", "1e9"}, "--rate"},
		{"a rate that is not a number", []string{"--rate", "NaN"}, "--rate"},
	} {
		t.Run(c.name, func(t *testing.T) {
			var stdout, stderr bytes.Buffer
			code := run(t.Context(), c.args, &stdout, &stderr)
			assert.True(t, code == commandline.ExitUsage && strings.Contains(stderr.String(), c.want) && stdout.Len() <= 0, "it ended with", code, &stdout, &stderr)
		})
	}
}
