package bridge_test

import (
	"context"
	"crypto/tls"
	"encoding/pem"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"

	"ndrbridge/checkpoint"
	"ndrbridge/checkpoint/replicated"
	"ndrbridge/internal/admin"
	"ndrbridge/internal/bridge"
	"ndrbridge/internal/cluster"
	"ndrbridge/test/assert"
	"ndrbridge/test/certificate"
	"ndrbridge/test/loopback"
	"ndrbridge/test/replicatedtest"
	"ndrbridge/test/require"
)

// restricted makes the cluster's NATS server one that requires TLS, with an account whose
// only user has the permissions. refused returns the requests that the server refused.
func (b *bridges) restricted(t *testing.T, permissions *server.Permissions) (refused func() []string) {
	t.Helper()
	authority := certificate.New(t, "authority", time.Now().Add(time.Hour), nil)
	file := filepath.Join(t.TempDir(), "ca.pem")
	require.NoError(t, os.WriteFile(file, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: authority.Leaf.Raw}), 0o600))
	account := server.NewAccount("ndr")
	b.nats = loopback.NATS(t, func(o *server.Options) {
		o.TLSConfig = &tls.Config{Certificates: []tls.Certificate{certificate.New(t, "127.0.0.1", time.Now().Add(time.Hour), &authority)}, MinVersion: tls.VersionTLS12}
		o.TLSTimeout = 30
		o.Accounts = []*server.Account{account}
		o.Users = []*server.User{{Username: "ana", Password: "sesame", Account: account, Permissions: permissions}}
	})
	log := new(violations)
	b.nats.SetLogger(log, false, false)
	account, err := b.nats.LookupAccount(account.Name) // the server made a copy
	require.NoError(t, err)
	require.NoError(t, account.EnableJetStream(nil, nil))
	b.login = fmt.Sprintf(", username: ana, password: sesame, tls: {ca_file: %q}", file)
	return log.lines
}

// violations is a log of a NATS server that keeps violations of permissions.
type violations struct {
	mu  sync.Mutex
	all []string
}

func (v *violations) lines() []string {
	v.mu.Lock()
	defer v.mu.Unlock()
	return slices.Clone(v.all)
}

// Errorf implements server.Logger.
func (v *violations) Errorf(format string, values ...any) {
	if line := fmt.Sprintf(format, values...); strings.Contains(line, "Violation") {
		v.mu.Lock()
		defer v.mu.Unlock()
		v.all = append(v.all, line)
	}
}

// Fatalf implements server.Logger.
func (v *violations) Fatalf(format string, values ...any) { v.Errorf("Violation: "+format, values...) }

// Noticef implements server.Logger.
func (*violations) Noticef(string, ...any) {}

// Warnf implements server.Logger.
func (*violations) Warnf(string, ...any) {}

// Debugf implements server.Logger.
func (*violations) Debugf(string, ...any) {}

// Tracef implements server.Logger.
func (*violations) Tracef(string, ...any) {}

// followed is the copy of a standby, and its storage.
type followed struct {
	mu      sync.Mutex
	storage cluster.Storage
	replica *checkpoint.Replica
	last    uint64 // offset of the last snapshot
}

// watch notes the copy and the storage of the log that a member follows.
func (f *followed) watch(o *bridge.Options) {
	o.Cluster = func(o *cluster.Options) {
		storage := o.Storage
		o.Storage = func(ctx context.Context, generation uint64, create bool) (cluster.Storage, error) {
			s, err := storage(ctx, generation, create)
			f.mu.Lock()
			defer f.mu.Unlock()
			f.storage = s
			return s, err
		}
		o.OpenReplica = func(path string) (cluster.Replica, error) {
			r, err := checkpoint.OpenReplica(path, 10*time.Second)
			if err != nil {
				return nil, err
			}
			f.mu.Lock()
			defer f.mu.Unlock()
			f.replica = r
			return r, nil
		}
	}
}

// snapshot writes a snapshot as the follower does when one is due.
func (f *followed) snapshot(t *testing.T) {
	t.Helper()
	awaitCluster(t, "the follower to go on", func() bool { // it may open its file again meanwhile
		f.mu.Lock()
		defer f.mu.Unlock()
		return f.replica.At().Offset > f.last
	})
	f.mu.Lock()
	defer f.mu.Unlock()
	snapshot, err := replicated.WriteSnapshot(t.Context(), f.storage.Stream, f.storage.Snapshots, f.replica)
	assert.NoError(t, err, "write a snapshot")
	f.last = snapshot.Offset
}

func TestTheDocumentedRightsSuffice(t *testing.T) {
	t.Parallel()
	b := newBridges(t, 1, 50)
	refused := b.restricted(t, replicatedtest.Permissions("test"))
	b.create(t)
	copies := map[string]*followed{"one": {}, "two": {}}
	owner, standby := sorted(t, b.join(t, "one", copies["one"].watch), b.join(t, "two", copies["two"].watch))
	b.judge(t, true)
	status, err := standby.control(t).Status(t.Context())
	assert.True(t, err == nil && status.State.Journal.Events != 0, "the status at", standby.name, status.State, err)
	for range 3 { // only then is something removed
		b.add(5)
		b.judge(t, true)
		copies[standby.name].snapshot(t)
	}
	assert.NoError(t, admin.API.HandOver.Do(t.Context(), clientOf(t, standby.Bridge), admin.None{}))
	owner.awaitOwner(t, standby.name, 2)
	b.add(5)
	b.judge(t, true)
	three := b.join(t, "three")
	awaitCluster(t, "the third member to restore its copy", func() bool { return three.log.hasLine("restored from a snapshot") })
	three.awaitOwner(t, standby.name, 3)
	three.stop()
	for _, m := range []*clusterMember{owner, standby, three} {
		assert.False(t, m.log.hasLine("reported an error"), m.name, "was refused something")
	}
	assert.Empty(t, refused(), "the NATS server refused")
}
