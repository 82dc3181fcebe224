package nats

import (
	"bufio"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/nats-io/nats-server/v2/server"
	nats "github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/nats-io/nkeys"
	"pgregory.net/rapid"

	"ndrbridge/internal/failure"
	"ndrbridge/test/assert"
	"ndrbridge/test/loopback"
	"ndrbridge/test/require"
	"ndrbridge/test/sinktest"
	"ndrbridge/transform"
)

// classOf sends events and returns the first failure that is one of its own.
func classOf(t *testing.T, s *Sink, events []transform.Event) (failure.Class, error) {
	t.Helper()
	err := s.Send(t.Context(), events)
	if each, ok := errors.AsType[failure.EventErrors](err); ok {
		for _, err := range each {
			if err != nil && !errors.Is(err, failure.ErrNotTried) {
				class, _ := failure.ClassOf(err)
				return class, err
			}
		}
	}
	class, _ := failure.ClassOf(err)
	return class, err
}

func makeStream(t *testing.T, s *server.Server, config jetstream.StreamConfig) *nats.Conn {
	t.Helper()
	nc := client(t, s)
	js, _ := jetstream.New(nc) // without options, it has no error
	require.Value(js.CreateStream(t.Context(), config))(t)
	return nc
}

// updateStream changes the settings of a stream.
func updateStream(t *testing.T, nc *nats.Conn, config jetstream.StreamConfig) {
	t.Helper()
	js, _ := jetstream.New(nc)
	require.Value(js.UpdateStream(t.Context(), config))(t)
}

// keepFolder creates a permanent stream. When a server's last stream is deleted, the server
// removes their folder in the background, even if a new stream was created in it meanwhile,
// which then fails.
func keepFolder(t *testing.T, js jetstream.JetStream) {
	t.Helper()
	require.Value(js.CreateStream(t.Context(), jetstream.StreamConfig{Name: "KEPT", Subjects: []string{"kept"}}))(t)
}

func TestDocumentIsStoredInsteadOfTheCloudEvent(t *testing.T) {
	s := loopback.NATS(t, func(o *server.Options) { o.MaxPayload = 4096 })
	sink := open(t, Options{URL: s.ClientURL(), Stream: "NDR", Subject: "ndr.{stream}", CreateStream: true})
	events := sinktest.Events(3, 3, 0)
	events[0] = events[0].WithDocument("application/json", []byte(`{"class_uid":2004}`))
	events[1] = events[1].WithDocument("text/plain; charset=utf-8", []byte("CEF:0|a"+strings.Repeat("b", 5000)))
	events[2] = events[2].WithDocument("text/plain; charset=utf-8", []byte("CEF:0|a"))
	each, ok := errors.AsType[failure.EventErrors](sink.Send(t.Context(), events))
	require.True(t, ok && each[0] == nil && each[2] == nil, "errors", each)
	class, _ := failure.ClassOf(each[1])
	assert.Equal(t, class, failure.Rejected, "a document above max_payload", each)
	messages := require.Value(stored(client(t, s), "NDR"))(t)
	require.Equal(t, len(messages), 2, "messages")
	for i, e := range []transform.Event{events[0], events[2]} {
		m := messages[i]
		assert.Equal(t, string(m.Data()), string(e.Payload()))
		assert.Equal(t, m.Headers().Get("Content-Type"), e.ContentType())
		if m.Subject() != "ndr.detections" || m.Headers().Get("Nats-Msg-Id") != "bus "+e.Source+" "+e.ID || m.Headers().Get("Ce-Id") != "" {
			t.Errorf("subject %s, headers %v", m.Subject(), m.Headers())
		}
	}
}

func TestSinksThatShareAStream(t *testing.T) {
	s := loopback.NATS(t, nil)
	events := sinktest.Events(10, 5, 0)
	again := make([]transform.Event, len(events))
	for i, e := range events {
		again[i] = e.Redeliver(1)
	}
	// Both have the same subjects: a stream detects duplicates only by id.
	for i, name := range []string{"bus", "siem", "bus-2"} {
		sink := open(t, Options{Sink: name, URL: s.ClientURL(), Stream: "NDR", Subject: "ndr.{stream}", CreateStream: true})
		for range 2 { // the stream drops the second copy
			for _, batch := range [][]transform.Event{events, again} {
				require.NoError(t, sink.Send(t.Context(), batch))
			}
		}
		messages, err := stored(client(t, s), "NDR")
		want := (i + 1) * 2 * len(events)
		require.True(t, err == nil && len(messages) == want, name, "the stream holds", len(messages), "messages, want", want, err)
	}
}

func TestMessageIDsDiffer(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		type parts struct {
			sink, source, id string
			redelivery       uint64
		}
		draw := func() (parts, string) {
			text := func(name string) string {
				return rapid.StringOfN(rapid.SampledFrom([]rune("a r1")), 1, 5, -1).Draw(t, name)
			}
			p := parts{text("sink"), text("source"), text("id"), rapid.Uint64Range(0, 12).Draw(t, "redelivery")}
			e, err := transform.New(transform.Attributes{Source: p.source, ID: p.id, Type: "x"}, []byte("{}"))
			require.NoError(t, err)
			if p.redelivery > 0 {
				e = e.Redeliver(p.redelivery)
			}
			return p, messageID(p.sink, e)
		}
		a, first := draw()
		b, second := draw()
		require.Equal(t, a == b, first == second, a, b, "have the ids", first, second)
	})
}

func TestStreams(t *testing.T) {
	events := sinktest.Events(10, 5, 400)
	noJetStream := func(o *server.Options) { o.JetStream = false }
	for name, test := range map[string]struct {
		configure func(*server.Options)
		stream    *jetstream.StreamConfig // nil: none
		says      string
	}{
		"a missing stream":                {nil, nil, "create_stream"},
		"a stream without the subject":    {nil, &jetstream.StreamConfig{Name: "NDR", Subjects: []string{"other.*"}}, "ndr.*"},
		"another stream with the subject": {nil, &jetstream.StreamConfig{Name: "OTHER", Subjects: []string{"ndr.*"}}, "OTHER"},
		"disabled JetStream":              {noJetStream, nil, ""},
		"a sealed stream":                 {nil, &jetstream.StreamConfig{Name: "NDR", Subjects: []string{"ndr.*"}, Sealed: true}, "sealed"},
	} {
		t.Run(name+" halts", func(t *testing.T) {
			s := loopback.NATS(t, test.configure)
			if test.stream != nil {
				config := *test.stream
				config.Sealed = false
				if nc := makeStream(t, s, config); test.stream.Sealed {
					updateStream(t, nc, *test.stream)
				}
			}
			sink := open(t, Options{URL: s.ClientURL(), Stream: "NDR", Subject: "ndr.{stream}"})
			class, err := classOf(t, sink, events)
			assert.True(t, class == failure.Halted && strings.Contains(err.Error(), test.says), "class", class, err)
		})
	}
	t.Run("a stream with a size limit rejects only large messages", func(t *testing.T) {
		s := loopback.NATS(t, nil)
		nc := makeStream(t, s, jetstream.StreamConfig{Name: "NDR", Subjects: []string{"ndr.*"}, MaxMsgSize: 2000})
		sink := open(t, Options{URL: s.ClientURL(), Stream: "NDR", Subject: "ndr.{stream}"})
		batch := append(sinktest.Events(4, 4, 400), sinktest.Events(1, 1, 3000)...)
		each, ok := errors.AsType[failure.EventErrors](sink.Send(t.Context(), batch))
		require.True(t, ok, "no errors of events")
		for i, err := range each {
			class, _ := failure.ClassOf(err)
			assert.True(t, (err != nil) == (i == 4) && (i != 4 || class == failure.Rejected), "event", i, "class", class, err)
		}
		assert.Equal(t, len(require.Value(storedEvents(nc, "NDR"))(t)), 4, "events")
	})
}

// A stream may refuse a version of a detection and have space for the next one.
func TestVersionsOfADetectionStayInOrderWhenOneIsRefused(t *testing.T) {
	s := loopback.NATS(t, nil)
	config := jetstream.StreamConfig{Name: "NDR", Subjects: []string{"ndr.*"}, MaxBytes: 4000, Discard: jetstream.DiscardNew}
	nc := makeStream(t, s, config)
	sink := open(t, Options{URL: s.ClientURL(), Stream: "NDR", Subject: "ndr.{stream}"})
	versions := []transform.Event{sinktest.Events(2, 1, 4000)[0], sinktest.Events(2, 1, 0)[1]}
	require.Equal(t, versions[0].PartitionKey, versions[1].PartitionKey, "not two versions of one detection")
	err := sink.Send(t.Context(), versions)
	require.True(t, err != nil, "no error of a version that does not fit")
	config.MaxBytes = -1
	updateStream(t, nc, config)
	require.NoError(t, sink.Send(t.Context(), versions))
	got := require.Value(storedEvents(nc, "NDR"))(t)
	var ids []string
	for _, e := range got {
		ids = append(ids, e.ID())
	}
	assert.EqualSlices(t, ids, []string{versions[0].ID, versions[1].ID}, "the stream holds")
}

func TestAnswersOfOthersAreNotAcknowledgements(t *testing.T) {
	s := loopback.NATS(t, nil)
	nc := client(t, s)
	if _, err := nc.Subscribe("ndr.>", func(m *nats.Msg) {
		for _, answer := range []string{"", "thank you", `{"ok":true}`} {
			_ = m.Respond([]byte(answer))
		}
	}); err != nil {
		t.Fatal(err)
	}
	require.NoError(t, nc.Flush())
	events := sinktest.Events(50, 50, 400)
	sink := open(t, Options{URL: s.ClientURL(), Stream: "NDR", Subject: "ndr.{stream}", CreateStream: true, MaxPending: 1})
	require.NoError(t, sink.Send(t.Context(), events))
	assert.Equal(t, len(require.Value(storedEvents(nc, "NDR"))(t)), len(events), "events")
}

func TestCredentials(t *testing.T) {
	seed, public := newKey(t, nkeys.CreateUser)
	text, _ := seed.Seed()
	nkeyFile := filepath.Join(t.TempDir(), "seed")
	require.NoError(t, os.WriteFile(nkeyFile, text, 0o600))
	noSeed := filepath.Join(t.TempDir(), "no-seed")
	require.NoError(t, os.WriteFile(noSeed, []byte("correct-horse"), 0o600))
	s := loopback.NATS(t, func(o *server.Options) {
		o.Users = []*server.User{
			{Username: "ana", Password: "correct-horse"},
			{Username: "reader", Password: "correct-horse", Permissions: &server.Permissions{Publish: &server.SubjectPermission{Allow: []string{"other"}}}},
		}
		o.Nkeys = []*server.NkeyUser{{Nkey: public}}
	})
	withToken := loopback.NATS(t, func(o *server.Options) { o.Authorization = "correct-horse" })
	for name, c := range map[string]struct {
		server *server.Server
		change func(*Options)
		want   failure.Class // empty: it works
	}{
		"a username and its password":     {s, func(o *Options) { o.Username, o.Password = "ana", "correct-horse" }, ""},
		"a wrong password":                {s, func(o *Options) { o.Username, o.Password = "ana", "battery-staple" }, failure.Halted},
		"none":                            {s, func(*Options) {}, failure.Halted},
		"an nkey":                         {s, func(o *Options) { o.NkeyFile = nkeyFile }, ""},
		"a file that holds no nkey":       {s, func(o *Options) { o.NkeyFile = noSeed }, failure.Halted},
		"an nkey file that is not there":  {s, func(o *Options) { o.NkeyFile = noSeed + "-2" }, failure.Halted},
		"a creds file that is not there":  {s, func(o *Options) { o.CredsFile = noSeed + "-2" }, failure.Halted},
		"a creds file that holds none":    {s, func(o *Options) { o.CredsFile = noSeed }, failure.Halted},
		"a user who may not publish here": {s, func(o *Options) { o.Username, o.Password = "reader", "correct-horse" }, failure.Halted},
		"a token":                         {withToken, func(o *Options) { o.Token = "correct-horse" }, ""},
		"a wrong token":                   {withToken, func(o *Options) { o.Token = "battery-staple" }, failure.Halted},
	} {
		for _, stream := range []string{"", "NDR"} {
			t.Run(name+" with stream "+stream, func(t *testing.T) {
				o := Options{URL: "nats://" + port(t, c.server), Stream: stream, Subject: "ndr.{stream}", CreateStream: stream != ""}
				c.change(&o)
				class, err := classOf(t, open(t, o), sinktest.Events(3, 3, 0))
				assert.True(t, (c.want != "" || err == nil) && (c.want == "" || err != nil && class == c.want), "class", class, err)
				assert.True(t, err == nil || !strings.Contains(err.Error(), "battery") && !strings.Contains(err.Error(), "horse"), "a secret shows", err)
			})
		}
	}
}

func TestSecretsRepeatedByTheServerAreRedacted(t *testing.T) {
	const secret = "correct-horse"
	address := loopback.Serve(t, func(conn net.Conn) {
		fmt.Fprint(conn, "INFO {\"server_id\":\"x\",\"max_payload\":1000,\"headers\":true}\r\n")
		connect, _ := bufio.NewReader(conn).ReadString('\n')
		fmt.Fprintf(conn, "-ERR 'you sent %s'\r\n", strings.TrimSpace(connect))
	})
	for name, o := range map[string]Options{
		"a password":            {URL: "nats://" + address, Username: "ana", Password: secret},
		"a token":               {URL: "nats://" + address, Token: secret},
		"a password in the URL": {URL: "nats://ana:" + secret + "@" + address},
		"a token in the URL":    {URL: "nats://" + secret + "@" + address},
	} {
		t.Run(name, func(t *testing.T) {
			o.Subject = "x"
			_, err := classOf(t, open(t, o), sinktest.Events(1, 1, 0))
			assert.True(t, err != nil && strings.Contains(err.Error(), "you sent") && !strings.Contains(err.Error(), "horse"), err)
		})
	}
}

func TestPublisherNeedsNoRightsOnTheStream(t *testing.T) {
	s := loopback.NATS(t, func(o *server.Options) {
		o.Users = []*server.User{
			{Username: "admin", Password: "admin"},
			{Username: "ana", Password: "correct-horse", Permissions: &server.Permissions{
				Publish:   &server.SubjectPermission{Allow: []string{"ndr.>"}},
				Subscribe: &server.SubjectPermission{Allow: []string{"_INBOX.>"}},
			}},
		}
	})
	nc := require.Value(nats.Connect(s.ClientURL(), nats.UserInfo("admin", "admin")))(t)
	defer nc.Close()
	js, _ := jetstream.New(nc)
	require.Value(js.CreateStream(t.Context(), jetstream.StreamConfig{Name: "NDR", Subjects: []string{"ndr.>"}}))(t)
	sink := open(t, Options{URL: s.ClientURL(), Stream: "NDR", Subject: "ndr.{stream}", Username: "ana", Password: "correct-horse"})
	assert.NoError(t, sink.Send(t.Context(), sinktest.Events(3, 3, 0)))
}
