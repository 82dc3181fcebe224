//go:build e2e

package e2e

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/nats-io/jwt/v2"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nkeys"

	"ndrbridge/test/require"
)

// natsAuth is a method of authentication: the server's settings, and the credentials of a
// sink and a reader.
type natsAuth struct {
	settings     string // of the server
	scheme, keys string // of the sink
	login        nats.Option
	file         string // the sink's credentials file; empty: none
	wrong        string // invalid contents of the file
}

// spoil writes the invalid contents to the file. right restores it.
func (w natsAuth) spoil(t testing.TB) (right func()) {
	t.Helper()
	text, err := os.ReadFile(w.file)
	require.NoError(t, err)
	write := func(text []byte) {
		require.NoError(t, os.WriteFile(w.file, text, 0o600))
	}
	write([]byte(w.wrong))
	return func() { write(text) }
}

func waysIntoNATS(t testing.TB) map[string]natsAuth {
	t.Helper()
	const secret, wrong = "correct-horse", "battery-staple"
	password, token := writeSecret(t, secret), writeSecret(t, secret)
	nkey, other := newNkey(t, nkeys.CreateUser), newNkey(t, nkeys.CreateUser)
	seed := writeSecret(t, nkey.seed)

	ours := newAuthority(t)
	certificate, key, _ := ours.issue(t, "server")
	mine, mineKey, _ := ours.issue(t, "client")
	serverTLS := fmt.Sprintf("cert_file: %q, key_file: %q, ca_file: %q", certificate, key, ours.file())
	sinkTLS := fmt.Sprintf("ca_file: %q", ours.file())
	pool := x509.NewCertPool()
	pool.AddCert(ours.certificate)
	pair, err := tls.LoadX509KeyPair(mine, mineKey)
	require.NoError(t, err)
	readerTLS := &tls.Config{RootCAs: pool, ServerName: "127.0.0.1", Certificates: []tls.Certificate{pair}}

	operator := newNATSOperator(t)
	user, foreigner := operator.user(t), newNATSOperator(t).user(t)
	creds := writeSecret(t, user.creds)
	return map[string]natsAuth{
		"user and password": {
			settings: fmt.Sprintf("authorization {user: ana, password: %q}", secret),
			scheme:   "nats", keys: fmt.Sprintf(", username: ana, password_file: %q", password),
			login: nats.UserInfo("ana", secret), file: password, wrong: wrong,
		},
		"token": {
			settings: fmt.Sprintf("authorization {token: %q}", secret),
			scheme:   "nats", keys: fmt.Sprintf(", token_file: %q", token),
			login: nats.Token(secret), file: token, wrong: wrong,
		},
		"nkey": {
			settings: fmt.Sprintf("authorization {users: [{nkey: %s}]}", nkey.id),
			scheme:   "nats", keys: fmt.Sprintf(", nkey_file: %q", seed),
			login: nats.Nkey(nkey.id, nkey.Sign), file: seed, wrong: other.seed,
		},
		"credentials of an operator": {
			settings: operator.settings,
			scheme:   "nats", keys: fmt.Sprintf(", creds_file: %q", creds),
			login: nats.UserJWTAndSeed(user.jwt, user.seed), file: creds, wrong: foreigner.creds,
		},
		"TLS": {
			settings: fmt.Sprintf("tls {%s}", serverTLS),
			scheme:   "tls", keys: fmt.Sprintf(", tls: {%s}", sinkTLS),
			login: nats.Secure(readerTLS),
		},
		"a certificate of one's own": {
			settings: fmt.Sprintf("tls {%s, verify_and_map: true}\nauthorization {users: [{user: %q}]}", serverTLS, "CN=client"),
			scheme:   "nats", keys: fmt.Sprintf(", tls: {%s, cert_file: %q, key_file: %q}", sinkTLS, mine, mineKey),
			login: nats.Secure(readerTLS),
		},
	}
}

// nkey is a key pair and its text forms.
type nkey struct {
	nkeys.KeyPair
	id, seed string
}

func newNkey(t testing.TB, create func() (nkeys.KeyPair, error)) nkey {
	t.Helper()
	pair, err := create()
	require.NoError(t, err)
	id, err := pair.PublicKey()
	require.NoError(t, err)
	seed, err := pair.Seed()
	require.NoError(t, err)
	return nkey{pair, id, string(seed)}
}

// natsOperator is an operator with one account, whose users a server verifies by the
// account's signatures.
type natsOperator struct {
	settings string // of the server
	account  nkey
}

func newNATSOperator(t testing.TB) natsOperator {
	t.Helper()
	signed := func(text string, err error) string {
		t.Helper()
		require.NoError(t, err)
		return text
	}
	operator, account, system := newNkey(t, nkeys.CreateOperator), newNkey(t, nkeys.CreateAccount), newNkey(t, nkeys.CreateAccount)
	claims := jwt.NewAccountClaims(account.id)
	claims.Limits.JetStreamLimits = jwt.JetStreamLimits{DiskStorage: -1, MemoryStorage: -1, Streams: -1, Consumer: -1}
	file := filepath.Join(t.TempDir(), "operator.jwt")
	require.NoError(t, os.WriteFile(file, []byte(signed(jwt.NewOperatorClaims(operator.id).Encode(operator))), 0o600))
	return natsOperator{
		account: account,
		settings: fmt.Sprintf("operator: %q\nsystem_account: %s\nresolver: MEMORY\nresolver_preload {%s: %q, %s: %q}", file, system.id,
			account.id, signed(claims.Encode(operator)), system.id, signed(jwt.NewAccountClaims(system.id).Encode(operator))),
	}
}

// natsUser contains the credentials of a user.
type natsUser struct{ jwt, seed, creds string }

func (o natsOperator) user(t testing.TB) natsUser {
	t.Helper()
	key := newNkey(t, nkeys.CreateUser)
	signed, err := jwt.NewUserClaims(key.id).Encode(o.account)
	require.NoError(t, err)
	creds, err := jwt.FormatUserConfig(signed, []byte(key.seed))
	require.NoError(t, err)
	return natsUser{signed, key.seed, string(creds)}
}
