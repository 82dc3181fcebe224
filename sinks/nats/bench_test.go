//go:build unix

package nats

import (
	"os"
	"os/exec"
	"testing"

	nats "github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"ndrbridge/test/loopback"
	"ndrbridge/test/require"
	"ndrbridge/test/sinktest"
	"ndrbridge/transform"
)

// The server runs in a process of its own, so that the figures are those of the client.
func BenchmarkSend(b *testing.B) {
	events := sinktest.Events(500, 500, 2000)
	for _, mode := range []transform.Mode{transform.Structured, transform.Binary} {
		b.Run("jetstream/"+string(mode), func(b *testing.B) {
			s := open(b, Options{URL: startProcess(b), Stream: "NDR", Subject: "ndr.{appliance}.{stream}.{action}", CreateStream: true, Mode: mode})
			sinktest.PerEvent(b, len(events), func() error { return s.Send(b.Context(), events) })
		})
	}
	b.Run("core", func(b *testing.B) {
		s := open(b, Options{URL: startProcess(b), Subject: "ndr.{appliance}.{stream}.{action}"})
		sinktest.PerEvent(b, len(events), func() error { return s.Send(b.Context(), events) })
	})
	b.Run("client's own asynchronous publish", func(b *testing.B) {
		nc, err := nats.Connect(startProcess(b))
		require.NoError(b, err)
		defer nc.Close()
		js, err := jetstream.New(nc)
		require.NoError(b, err)
		if _, err := js.CreateStream(b.Context(), jetstream.StreamConfig{Name: "NDR", Subjects: []string{"ndr.>"}}); err != nil {
			b.Fatal(err)
		}
		sinktest.PerEvent(b, len(events), func() error {
			for _, e := range events {
				if _, err := js.PublishAsync("ndr.x", e.Structured(), jetstream.WithMsgID(e.Source+" "+e.ID)); err != nil {
					return err
				}
			}
			<-js.PublishAsyncComplete()
			return nil
		})
	})
}

const serverVariable = "NATS_TEST_SERVER"

// TestServerProcess is not a test: a benchmark runs it as the server process.
func TestServerProcess(t *testing.T) {
	if os.Getenv(serverVariable) == "" {
		return
	}
	s := loopback.NATS(t, nil)
	os.Stdout.WriteString(s.ClientURL())
	os.Stdout.Close()
	_, _ = os.Stdin.Read(make([]byte, 1)) // until the benchmark ends
}

func startProcess(b *testing.B) string {
	b.Helper()
	server := exec.Command(os.Args[0], "-test.run=^TestServerProcess$")
	server.Env = append(os.Environ(), serverVariable+"=1")
	stdin, err := server.StdinPipe()
	require.NoError(b, err)
	stdout, err := server.StdoutPipe()
	require.NoError(b, err)
	require.NoError(b, server.Start())
	b.Cleanup(func() {
		stdin.Close()
		_ = server.Wait()
	})
	url := make([]byte, 256)
	n, err := stdout.Read(url)
	require.NoError(b, err)
	return string(url[:n])
}
