package nats

import (
	"crypto/tls"
	"crypto/x509"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/jwt/v2"
	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/nats-io/nkeys"

	"ndrbridge/internal/failure"
	"ndrbridge/test/assert"
	"ndrbridge/test/loopback"
	"ndrbridge/test/require"
	"ndrbridge/test/sinktest"
	"ndrbridge/transform"
)

func TestHangingServerDoesNotHideOthers(t *testing.T) {
	good := loopback.NATS(t, nil).ClientURL()
	url := good + ",nats://" + loopback.Silent(t) + ",nats://" + loopback.Silent(t)
	for range 4 { // the order is random
		sink := open(t, Options{URL: url, Subject: "x", Timeout: 900 * time.Millisecond})
		require.NoError(t, sink.Send(t.Context(), sinktest.Events(1, 1, 0)))
	}
}

func TestMissingAcknowledgementIsTransient(t *testing.T) {
	s := loopback.NATS(t, nil)
	makeStream(t, s, jetstream.StreamConfig{Name: "NDR", Subjects: []string{"ndr.*"}, NoAck: true})
	sink := open(t, Options{URL: s.ClientURL(), Stream: "NDR", Subject: "ndr.{stream}", AckTimeout: 20 * time.Millisecond, Timeout: time.Hour})
	class, err := classOf(t, sink, sinktest.Events(3, 3, 0))
	assert.True(t, class == failure.Transient && strings.Contains(err.Error(), "no acknowledgement within 20ms"), "class", class, err)
}

func TestStreamChanges(t *testing.T) {
	events := sinktest.Events(40, 40, 1000)
	t.Run("a full stream is transient, and accepts the rest once its limit is raised", func(t *testing.T) {
		s := loopback.NATS(t, nil)
		config := jetstream.StreamConfig{Name: "NDR", Subjects: []string{"ndr.*"}, MaxBytes: 20_000, Discard: jetstream.DiscardNew}
		nc := makeStream(t, s, config)
		sink := open(t, Options{URL: s.ClientURL(), Stream: "NDR", Subject: "ndr.{stream}"})
		class, err := classOf(t, sink, events)
		require.True(t, class == failure.Transient && strings.Contains(err.Error(), "maximum bytes"), "class", class, err)
		config.MaxBytes = -1
		updateStream(t, nc, config)
		require.NoError(t, sink.Send(t.Context(), events))
		assert.Equal(t, len(require.Value(storedEvents(nc, "NDR"))(t)), len(events), "events")
	})
	t.Run("a deleted stream halts until it is created again", func(t *testing.T) {
		s := loopback.NATS(t, nil)
		config := jetstream.StreamConfig{Name: "NDR", Subjects: []string{"ndr.*"}}
		nc := makeStream(t, s, config)
		js := require.Value(jetstream.New(nc))(t)
		keepFolder(t, js)
		sink := open(t, Options{URL: s.ClientURL(), Stream: "NDR", Subject: "ndr.{stream}"})
		require.NoError(t, sink.Send(t.Context(), events[:10]))
		require.NoError(t, js.DeleteStream(t.Context(), "NDR"))
		for range 2 {
			class, err := classOf(t, sink, events[10:])
			require.True(t, class == failure.Halted && strings.Contains(err.Error(), "does not exist"), "class", class, err)
		}
		require.Value(js.CreateStream(t.Context(), config))(t)
		assert.NoError(t, sink.Send(t.Context(), events[10:]))
	})
}

func TestTLS(t *testing.T) {
	certificate, pool := sinktest.Certificate(t)
	mine, mineAuthority := sinktest.Certificate(t)
	secure := func(authority *x509.CertPool) string {
		return port(t, loopback.NATS(t, func(o *server.Options) {
			o.TLSConfig = &tls.Config{Certificates: []tls.Certificate{certificate}}
			if authority != nil {
				o.TLSConfig.ClientAuth, o.TLSConfig.ClientCAs, o.TLSVerify = tls.RequireAndVerifyClientCert, authority, true
			}
		}))
	}
	one, mutual := secure(nil), secure(mineAuthority)
	for name, c := range map[string]struct {
		address string
		config  *tls.Config
		want    failure.Class
	}{
		"the right authority":                         {one, &tls.Config{RootCAs: pool}, ""},
		"an unknown authority":                        {one, &tls.Config{RootCAs: x509.NewCertPool()}, failure.Halted},
		"another name":                                {one, &tls.Config{RootCAs: pool, ServerName: "other.example"}, failure.Halted},
		"a server without TLS":                        {port(t, loopback.NATS(t, nil)), &tls.Config{RootCAs: pool}, failure.Halted},
		"a client certificate of the right authority": {mutual, &tls.Config{RootCAs: pool, Certificates: []tls.Certificate{mine}}, ""},
		"a client certificate of another authority":   {mutual, &tls.Config{RootCAs: pool, Certificates: []tls.Certificate{certificate}}, failure.Halted},
		"a missing client certificate":                {mutual, &tls.Config{RootCAs: pool}, failure.Halted},
	} {
		for _, scheme := range []string{"nats", "tls"} {
			t.Run(name+", "+scheme, func(t *testing.T) {
				class, err := classOf(t, open(t, Options{URL: scheme + "://" + c.address, Subject: "x", TLS: c.config, Token: "correct-horse"}), sinktest.Events(1, 1, 0))
				assert.True(t, (err != nil) == (c.want != "") && (err == nil || class == c.want && !strings.Contains(err.Error(), "horse")), "class", class, err)
			})
		}
	}
}

// account is an account of an operator and its signing key.
type account struct {
	key nkeys.KeyPair
	id  string
}

// newKey returns a new key and its public part.
func newKey(t *testing.T, create func() (nkeys.KeyPair, error)) (key nkeys.KeyPair, public string) {
	t.Helper()
	key = require.Value(create())(t)
	public = require.Value(key.PublicKey())(t)
	return key, public
}

// startWithOperator runs a server that knows its users by what an operator's
// account has signed.
func startWithOperator(t *testing.T) (*server.Server, account) {
	t.Helper()
	operator, operatorID := newKey(t, nkeys.CreateOperator)
	key, id := newKey(t, nkeys.CreateAccount)
	_, systemID := newKey(t, nkeys.CreateAccount)
	claims := jwt.NewAccountClaims(id)
	claims.Limits.JetStreamLimits = jwt.JetStreamLimits{DiskStorage: -1, MemoryStorage: -1, Streams: -1}
	signed := require.Value(claims.Encode(operator))(t)
	signedSystem := require.Value(jwt.NewAccountClaims(systemID).Encode(operator))(t)
	accounts := new(server.MemAccResolver)
	require.NoError(t, accounts.Store(id, signed))
	require.NoError(t, accounts.Store(systemID, signedSystem))
	operatorClaims := jwt.NewOperatorClaims(operatorID)
	s := loopback.NATS(t, func(o *server.Options) {
		o.TrustedOperators = []*jwt.OperatorClaims{operatorClaims}
		o.AccountResolver, o.SystemAccount = accounts, systemID
	})
	return s, account{key, id}
}

// credentials returns the credentials of a new user, signed by the account.
func (a account) credentials(t *testing.T, expires time.Time) []byte {
	t.Helper()
	user, id := newKey(t, nkeys.CreateUser)
	claims := jwt.NewUserClaims(id)
	claims.Expires = expires.Unix()
	signed := require.Value(claims.Encode(a.key))(t)
	seed := require.Value(user.Seed())(t)
	text := require.Value(jwt.FormatUserConfig(signed, seed))(t)
	return text
}

func TestInvalidSecretFileIsNamedAndReadAgain(t *testing.T) {
	s, ours := startWithOperator(t)
	good := string(ours.credentials(t, time.Now().Add(time.Hour)))
	at := strings.Index(good, "eyJ") + 20
	seed := good[strings.Index(good, "\nSU")+1:][:58]
	pair := require.Value(nkeys.FromSeed([]byte(seed)))(t)
	public := require.Value(pair.PublicKey())(t)
	withNkey := loopback.NATS(t, func(o *server.Options) { o.Nkeys = []*server.NkeyUser{{Nkey: public}} })
	large := strings.Repeat("\n", 1<<20)
	for name, test := range map[string]struct {
		server            *server.Server
		key               string
		broken, why, good string
	}{
		"a JWT with a line break":          {s, "creds_file", good[:at] + "\n" + good[at:], "one line", good},
		"a seed with a line break":         {s, "creds_file", strings.Replace(good, seed[:9], seed[:9]+"\r\n", 1), "one line", good},
		"a creds file that is too large":   {s, "creds_file", good + large, "larger than 1 MiB", good},
		"the seed of an nkey in two lines": {withNkey, "nkey_file", seed[:9] + "\n" + seed[9:], "one line", seed + "\n"},
		"an nkey's file that is too large": {withNkey, "nkey_file", seed + large, "larger than 1 MiB", seed},
	} {
		t.Run(name, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "secret")
			o := Options{URL: "nats://" + port(t, test.server), Subject: "ndr.{stream}"}
			if test.key == "creds_file" {
				o.CredsFile = file
			} else {
				o.NkeyFile = file
			}
			sink := open(t, o)
			write := func(text string) {
				require.NoError(t, os.WriteFile(file, []byte(text), 0o600))
			}
			write(test.broken)
			class, err := classOf(t, sink, sinktest.Events(1, 1, 0))
			require.True(t, class == failure.Halted && err != nil, "class", class, err)
			for _, want := range []string{test.key, file, test.why} {
				assert.Contains(t, err.Error(), want, "is missing", err)
			}
			for _, secret := range []string{seed[:9], seed[10:20], good[at-8 : at], good[at : at+8]} {
				assert.NotContains(t, err.Error(), secret, "it shows what the file holds", err)
			}
			write(test.good)
			_, err = classOf(t, sink, sinktest.Events(1, 1, 0))
			assert.NoError(t, err, "once it is corrected")
		})
	}
}

func TestRejectedCredsFileIsReadAgain(t *testing.T) {
	s, ours := startWithOperator(t)
	theirs, _ := newKey(t, nkeys.CreateAccount)
	file := filepath.Join(t.TempDir(), "user.creds")
	sink := open(t, Options{URL: s.ClientURL(), Stream: "NDR", Subject: "ndr.{stream}", CreateStream: true, CredsFile: file})
	events := sinktest.Events(10, 10, 0)
	for _, step := range []struct {
		name string
		text []byte
		want failure.Class
	}{
		{"of another account", account{key: theirs}.credentials(t, time.Now().Add(time.Hour)), failure.Halted},
		{"that has expired", ours.credentials(t, time.Now().Add(-time.Hour)), failure.Halted},
		{"cut short", []byte("-----BEGIN NATS USER JWT-----\n"), failure.Halted},
		{"that is good", ours.credentials(t, time.Now().Add(time.Hour)), ""},
	} {
		require.NoError(t, os.WriteFile(file, step.text, 0o600))
		class, err := classOf(t, sink, events)
		assert.True(t, (class == step.want || err == nil) && (step.want == "" || err != nil), "a file", step.name, "class", class, err)
	}
	assert.NoError(t, sink.Send(t.Context(), []transform.Event{events[0]}))
}
