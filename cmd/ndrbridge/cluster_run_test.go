package main

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"ndrbridge/cmd/internal/commandline"
	"ndrbridge/test/assert"
	"ndrbridge/test/locked"
	"ndrbridge/test/loopback"
	"ndrbridge/test/require"
)

// joining is a member of a cluster that runs as the command line runs it.
type joining struct {
	*installation
	log  locked.Buffer
	stop context.CancelFunc
	exit chan int
}

// join runs a member with the configuration of an installation.
func (i *installation) join() *joining {
	ctx, stop := context.WithCancel(context.Background())
	j := &joining{installation: i, stop: stop, exit: make(chan int, 1)}
	c := &command{stdout: &j.log, stderr: &j.log, environ: []string{"GOGC=100"}}
	go func() {
		j.exit <- commandline.Run(ctx, c.root(), []string{"run", "--config", i.config}, &j.log, &j.log)
	}()
	i.t.Cleanup(stop)
	return j
}

// do runs a command with the configuration of the member, which must succeed, and returns what it
// prints.
func (j *joining) do(args ...string) string {
	j.t.Helper()
	text, exit := typed(j.t, append(args, "--config", j.config)...)
	if exit != 0 {
		j.t.Fatalf("%q: exit %d: %s\nthe member:\n%s", args, exit, text, &j.log)
	}
	return text
}

// prints reports whether a command succeeds and prints a text.
func (j *joining) prints(text string, args ...string) func() bool {
	return func() bool {
		got, exit := typed(j.t, append(args, "--config", j.config)...)
		return exit == 0 && strings.Contains(got, text)
	}
}

// twoMembers returns the installations of two members of a cluster, and the configuration of the
// first without the cluster.
func twoMembers(t *testing.T) (one, two *installation, single string) {
	t.Helper()
	const secret = `tickets: {enabled: true, webhooks: {jira: {secret: tickets}}}` + "\n"
	one = install(t)
	text := require.Value(os.ReadFile(one.config))(t)
	folder := filepath.Dir(one.config)
	second := *one
	second.admin, second.config = loopback.Free(t), filepath.Join(folder, "two.yaml")
	shared := fmt.Sprintf("cluster: {name: test, member: one, replicas: 1, lease: 2s, nats: {url: %q}}\n", loopback.NATS(t, nil).ClientURL()) + secret +
		strings.Replace(string(text), "token: s3cret-token", fmt.Sprintf("token: s3cret-token, advertise: %q", "http://"+one.admin), 1)
	require.NoError(t, os.WriteFile(one.config, []byte(shared), 0o600))
	other := strings.NewReplacer("member: one", "member: two", one.admin, second.admin, filepath.Join(folder, "state.db"), filepath.Join(folder, "two.db"))
	require.NoError(t, os.WriteFile(second.config, []byte(other.Replace(shared)), 0o600))
	return one, &second, string(text)
}

func TestMembersOfAClusterAreOperated(t *testing.T) {
	t.Parallel()
	first, second, single := twoMembers(t)
	first.appliance.AddMany(3)
	delivered := func(n int) func() bool {
		return func() bool {
			b, _ := os.ReadFile(first.events) // it may not be there yet
			return strings.Count(string(b), "ndrbridge://hq/detections") == n
		}
	}
	one := first.join()
	await(t, "the member to say how the cluster is created", func() bool { return strings.Contains(one.log.String(), "ndrbridge cluster init") })
	assert.Equal(t, one.do("cluster", "init"), "the cluster test is created: start its members\n")
	await(t, "the detections", delivered(3))
	two := second.join()
	await(t, "the standby, which asks the owner for the status", two.prints("test: one owns the log; 1 of 1 standby can take it over", "status"))
	assert.Contains(t, two.do("cluster", "status"), "cluster test, as seen by two")

	body := `{"webhookEvent": "jira:issue_updated", "changelog": {"items": [{"field": "status"}]}, "issue": {"key": "SEC-1", "fields": {"status": {"statusCategory": {"key": "done"}}}}}`
	mac := hmac.New(sha256.New, []byte("tickets"))
	mac.Write([]byte(body))
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://"+second.admin+"/api/v1/tickets/jira", strings.NewReader(body))
	require.NoError(t, err)
	r.Header.Set("X-Hub-Signature", "sha256="+hex.EncodeToString(mac.Sum(nil)))
	answer := require.Value(http.DefaultClient.Do(r))(t)
	_ = answer.Body.Close()
	if answer.StatusCode != http.StatusAccepted {
		t.Errorf("a webhook at the standby: %s", answer.Status)
	}
	assert.Contains(t, one.do("tickets", "list"), "SEC-1", "the owner has no command")

	assert.Contains(t, two.do("pause", "log"), "log is paused")
	two.do("cluster", "handover")
	first.appliance.AddMany(2)
	await(t, "the new owner, which the other member asks", one.prints("log is resumed", "resume", "log"))
	await(t, "the detections since then", delivered(5))

	alone := filepath.Join(t.TempDir(), "alone.db")
	one.do("cluster", "export", alone)
	for _, member := range []*joining{one, two} {
		member.stop()
		assert.Equal(t, <-member.exit, 0, "exit", &member.log)
	}
	single = strings.Replace(single, filepath.Join(filepath.Dir(first.config), "state.db"), alone, 1)
	require.NoError(t, os.WriteFile(first.config, []byte(single), 0o600))
	first.start()
	first.appliance.AddMany(1)
	await(t, "the detections of the single bridge", delivered(6))
}
