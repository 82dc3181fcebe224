package replicated_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go/jetstream"

	"ndrbridge/checkpoint/replicated"
	"ndrbridge/test/assert"
	"ndrbridge/test/require"
)

func TestOpenJetStreamRefuses(t *testing.T) {
	t.Parallel()
	stream := func(change func(*jetstream.StreamConfig)) func(*testing.T, jetstream.JetStream) {
		return func(t *testing.T, js jetstream.JetStream) {
			c := jetstream.StreamConfig{Name: "NDR_test_1", Subjects: []string{"ndr.test.log.1"}}
			change(&c)
			require.Value(js.CreateStream(t.Context(), c))(t)
		}
	}
	limited := func(what string, set func(*jetstream.StreamConfig)) refusal {
		return refusal{name: what, prepare: stream(set), want: what}
	}
	for _, c := range []refusal{
		{name: "a server without JetStream", server: func(o *server.Options) { o.JetStream = false }, want: "enable JetStream"},
		{name: "one server for three replicas", options: func(o *replicated.JetStreamOptions) { o.Replicas = 3 }, want: "fewer NATS servers"},
		{name: "a small max_payload", server: func(o *server.Options) { o.MaxPayload = 32 << 10 }, want: "max_payload"},
		{name: "a server without storage", server: func(o *server.Options) { o.JetStreamMaxStore = 1 }, prepare: func(t *testing.T, js jetstream.JetStream) {
			require.Value(js.CreateStream(t.Context(), jetstream.StreamConfig{Name: "full", MaxBytes: 1}))(t)
		}, want: "more storage (max_file_store"},
		{name: "a user without rights", server: func(o *server.Options) {
			o.Users = []*server.User{{Username: "u", Password: "p", Permissions: &server.Permissions{Publish: &server.SubjectPermission{Allow: []string{"x"}}}}}
			o.NoAuthUser = "u"
		}, options: func(o *replicated.JetStreamOptions) { o.Wait = 2 * time.Second }, want: `Permissions Violation for Publish to "$JS.API.INFO"`},
		{name: "an account without JetStream", server: func(o *server.Options) {
			account := server.NewAccount("bridges")
			o.Accounts = []*server.Account{account, server.NewAccount("others")}
			o.Users = []*server.User{{Username: "u", Password: "p", Account: account}}
			o.NoAuthUser = "u"
		}, want: "for the account"},
		{name: "a subject of another stream", prepare: stream(func(c *jetstream.StreamConfig) { c.Name = "other" }), want: "another stream has the subjects"},
		limited("subjects are", func(c *jetstream.StreamConfig) { c.Subjects = []string{"x"} }),
		limited("storage is", func(c *jetstream.StreamConfig) { c.Storage = jetstream.MemoryStorage }),
		limited("retention is", func(c *jetstream.StreamConfig) { c.Retention = jetstream.WorkQueuePolicy }),
		limited("max_msgs is", func(c *jetstream.StreamConfig) { c.MaxMsgs = 1000 }),
		limited("max_bytes is", func(c *jetstream.StreamConfig) { c.MaxBytes = 1 << 20 }),
		limited("max_age is", func(c *jetstream.StreamConfig) { c.MaxAge = time.Hour }),
		limited("max_msgs_per_subject is", func(c *jetstream.StreamConfig) { c.MaxMsgsPerSubject = 1000 }),
		limited("max_msg_size is", func(c *jetstream.StreamConfig) { c.MaxMsgSize = 1 << 20 }),
		limited("deny_purge is", func(c *jetstream.StreamConfig) { c.DenyPurge = true }),
		limited("no_ack is", func(c *jetstream.StreamConfig) { c.NoAck = true }),
		limited("allow_direct is", func(c *jetstream.StreamConfig) { c.AllowDirect = true }),
		{name: "settings in memory", prepare: stream(func(c *jetstream.StreamConfig) {
			c.Name, c.Subjects, c.Storage = "NDR_test_meta", []string{"ndr.test.meta.>"}, jetstream.MemoryStorage
		}), want: "NDR_test_meta could lose records, or cannot be used: storage is Memory, not file; allow_rollup_hdrs is not set"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			nc := startServer(t, c.server)
			o := one
			if c.options != nil {
				c.options(&o)
			}
			if c.prepare != nil {
				js := require.Value(jetstream.New(nc))(t)
				c.prepare(t, js)
			}
			j, err := replicated.OpenJetStream(t.Context(), nc, o)
			if err == nil {
				defer j.Close()
				_, _, err = j.Generation(t.Context(), 1, true)
			}
			assert.ErrorContains(t, err, c.want)
		})
	}
}

// refusal is something that OpenJetStream must refuse.
type refusal struct {
	name    string
	server  func(*server.Options)
	options func(*replicated.JetStreamOptions)
	prepare func(*testing.T, jetstream.JetStream)
	want    string // in the error
}

// TestStreamsAreNotCreatedInPassing: a member must not run on streams that replace lost ones.
func TestStreamsAreNotCreatedInPassing(t *testing.T) {
	t.Parallel()
	nc := startServer(t, nil)
	js, err := jetstream.New(nc)
	require.NoError(t, err)
	all := []string{"NDR_test_meta", "NDR_test_1"}
	for _, lost := range [][]string{all, all[:1], all[1:]} {
		if len(lost) == 1 {
			openGeneration(t, openJetStream(t, nc, one))
			require.NoError(t, js.DeleteStream(t.Context(), lost[0]))
		}
		j := openJetStream(t, nc, one)
		_, _, meta := j.Get(t.Context(), "settings")
		assert.Equal(t, errors.Is(meta, jetstream.ErrStreamNotFound), slices.Contains(lost, all[0]), "without", lost)
		assert.ErrorIs(t, meta, replicated.ErrNoKey, "without", lost, "the settings")
		_, _, log := j.Generation(t.Context(), 1, false)
		assert.True(t, errors.Is(log, replicated.ErrLogLost) == slices.Contains(lost, all[1]) && (log == nil || strings.Contains(log.Error(), "ndrbridge cluster recover")), lost, log)
		u, err := replicated.Unopened(nc, one)
		require.NoError(t, err)
		faults, missing, err := u.CheckStreams(t.Context(), 1)
		assert.True(t, err == nil && len(faults) == 0 && slices.Equal(missing, lost), "without", lost, missing, "are missing", faults, err)
	}
	openGeneration(t, openJetStream(t, nc, one))
	_, _, err = openJetStream(t, nc, one).Generation(t.Context(), 1, false)
	require.NoError(t, err)
}

// TestANextGenerationReplacesWhatIsLost: NATS lost everything while a member runs.
func TestANextGenerationReplacesWhatIsLost(t *testing.T) {
	t.Parallel()
	nc := startServer(t, nil)
	js, err := jetstream.New(nc)
	require.NoError(t, err)
	openGeneration(t, openJetStream(t, nc, one))
	j := openJetStream(t, nc, one)
	for _, lost := range []string{"NDR_test_1", "NDR_test_meta"} {
		require.NoError(t, js.DeleteStream(t.Context(), lost))
	}
	_, _, err = j.Get(t.Context(), "settings")
	require.ErrorIs(t, err, replicated.ErrNoKey)
	_, _, err = j.Generation(t.Context(), 2, true)
	require.NoError(t, err)
	require.NoError(t, j.Put(t.Context(), "settings", nil, 0))
	_, _, err = openJetStream(t, nc, one).Generation(t.Context(), 2, false)
	require.NoError(t, err)
}

// TestGenerationsAreSeparate: the log and the snapshots of a generation are not those of another one.
func TestGenerationsAreSeparate(t *testing.T) {
	t.Parallel()
	j := openJetStream(t, startServer(t, nil), one)
	first, firstSnapshots := openGeneration(t, j)
	state := &memory{}
	grow(t, take(t, first, 0, options(t.Context(), "a")), 3, state)
	require.Value(replicated.WriteSnapshot(t.Context(), first, firstSnapshots, state))(t)
	for _, n := range []uint64{2, 11} {
		log, snapshots, err := j.Generation(t.Context(), n, true)
		require.NoError(t, err)
		assert.Equal(t, require.Value(log.Last(t.Context()))(t), 0, "the log of generation", n, "ends with message")
		_, err = replicated.Restore(t.Context(), snapshots, identity, nil)
		require.ErrorIs(t, err, replicated.ErrNoSnapshot)
		assert.Empty(t, objects(t, snapshots), "generation", n, "has the snapshots")
	}
	got, _ := restored(t, firstSnapshots)
	wantState(t, got, state)
}

// TestErrorsOfServersAreHidden covers requests after the streams were opened.
func TestErrorsOfServersAreHidden(t *testing.T) {
	t.Parallel()
	nc := startServer(t, nil)
	o, hidden := one, errors.New("hidden")
	o.Hide = func(error) error { return hidden }
	j := openJetStream(t, nc, o)
	log, snapshots := openGeneration(t, j)
	_, err := publish(t, log, 7, replicated.Message{Kind: replicated.KindRenew, ID: "x"})
	assert.ErrorIs(t, err, hidden, "a number that is wrong")
	_, _, err = snapshots.Pointer(t.Context())
	assert.NoError(t, err)
	js := require.Value(jetstream.New(nc))(t)
	require.NoError(t, errors.Join(js.DeleteStream(t.Context(), "NDR_test_1"), js.DeleteStream(t.Context(), "NDR_test_meta")))
	_, err = log.Last(t.Context())
	assert.ErrorIs(t, err, hidden, "a log that is not there")
	_, _, err = snapshots.Pointer(t.Context())
	assert.ErrorIs(t, err, hidden, "a pointer in a stream that is not there")
	_, _, err = j.Get(t.Context(), "settings")
	assert.ErrorIs(t, err, hidden, "a key in a stream that is not there")
	assert.ErrorIs(t, j.Put(t.Context(), "settings", nil, 1), hidden, "a value in a stream that is not there")
}

// TestWaitsEnd checks that every call ends with its context, and after a bounded time
// without one, if the servers are gone.
func TestWaitsEnd(t *testing.T) {
	t.Parallel()
	nc := startServer(t, nil)
	s, _ := openGeneration(t, openJetStream(t, nc, one))
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	l := take(t, s, 0, options(ctx, "a"))
	nc.Close()
	time.AfterFunc(time.Second, cancel)
	if _, err := s.Last(context.Background()); err == nil {
		t.Error("Last: no error")
	}
	if _, err := s.Get(context.Background(), 1); err == nil {
		t.Error("Get: no error")
	}
	assert.Error(t, s.Purge(context.Background(), 1), "Purge: no error")
	_, err := l.Append([]byte("x"))
	require.ErrorIs(t, err, context.Canceled)
	require.ErrorIs(t, s.Follow(ctx, 1, nil), context.Canceled)
}
