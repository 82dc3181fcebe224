package replicated_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"

	"ndrbridge/checkpoint/replicated"
	"ndrbridge/test/certificate"
	"ndrbridge/test/natsserver"
	"ndrbridge/test/replicatedtest"
	"ndrbridge/test/require"
)

// TestRights does all that owners and followers do, over TLS, in an account of several, by a
// user that has the documented rights alone.
func TestRights(t *testing.T) {
	t.Parallel()
	authority := certificate.New(t, "authority", time.Now().Add(time.Hour), nil)
	authorities := x509.NewCertPool()
	authorities.AddCert(authority.Leaf)
	account := server.NewAccount("bridges")
	s, stop, err := natsserver.Start(t.TempDir(), func(o *server.Options) {
		o.TLSConfig = &tls.Config{Certificates: []tls.Certificate{certificate.New(t, "127.0.0.1", time.Now().Add(time.Hour), &authority)}}
		o.Accounts = []*server.Account{account, server.NewAccount("others")}
		o.Users = []*server.User{{Username: "bridge", Password: "p", Account: account, Permissions: replicatedtest.Permissions(one.Name)}}
	})
	require.NoError(t, err)
	t.Cleanup(stop)
	connected := func() *nats.Conn {
		return connect(t, s.ClientURL(), nats.UserInfo("bridge", "p"), nats.Secure(&tls.Config{RootCAs: authorities}), nats.ErrorHandler(func(_ *nats.Conn, _ *nats.Subscription, err error) {
			t.Error(err)
		}))
	}
	joined, err := s.LookupAccount("bridges")
	require.NoError(t, err)
	o := one
	o.Wait = time.Second
	if _, err := replicated.OpenJetStream(t.Context(), connected(), o); err == nil || !strings.Contains(err.Error(), "for the account") {
		t.Errorf("an account without JetStream: %v", err)
	}
	require.NoError(t, joined.EnableJetStream(nil, nil))
	j := openJetStream(t, connected(), one)
	state := &memory{}
	owner := options(t.Context(), "a")
	owner.PartBytes = 50
	log := take(t, j.Stream(0), 0, owner)
	r := &memory{}
	f, end := follow(t, j.Stream(0), r)
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	for range 3 {
		grow(t, log, 5, state)
		require.NoError(t, f.CatchUp(ctx, log.Offset()))
		if _, err := replicated.WriteSnapshot(t.Context(), j.Stream(0), j.Snapshots(0), r, noon); err != nil {
			t.Fatal(err)
		}
	}
	if st := f.Status(); st.Owner != "a" {
		t.Errorf("status %+v", st)
	}
	_ = end()
	got, _ := restored(t, j.Stream(0), j.Snapshots(0))
	wantState(t, got, state)
	require.NoError(t, log.Release(t.Context()))
	if _, err := j.Bucket().PutString(t.Context(), "k", "v"); err != nil {
		t.Error(err)
	}
	w, err := j.Bucket().WatchAll(t.Context())
	require.NoError(t, err)
	if e := <-w.Updates(); e == nil {
		t.Error("the bucket is empty")
	}
	if err := w.Stop(); err != nil {
		t.Error(err)
	}
}
