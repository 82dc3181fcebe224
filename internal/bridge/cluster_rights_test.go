package bridge_test

import (
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

// followed is the file of a member that follows a shard, and its storage.
type followed struct {
	mu      sync.Mutex
	storage cluster.Storage
	replica *checkpoint.Replica
	last    uint64 // offset of the last snapshot
}

// watch notes the file and the storage of the last shard that a member follows.
func (f *followed) watch(o *bridge.Options) {
	o.Cluster = func(o *cluster.Options) {
		storage := o.Storage
		o.Storage = func(shard int) cluster.Storage {
			s := storage(shard)
			f.mu.Lock()
			defer f.mu.Unlock()
			f.storage = s
			return s
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
	snapshot, err := replicated.WriteSnapshot(t.Context(), f.storage.Stream, f.storage.Snapshots, f.replica, time.Now())
	if err != nil {
		t.Errorf("write a snapshot: %v", err)
	}
	f.last = snapshot.Offset
}

func TestTheDocumentedRightsSuffice(t *testing.T) {
	t.Parallel()
	b := newBridges(t, 1, 1, 50)
	refused := b.restricted(t, replicatedtest.Permissions("test"))
	b.create(t)
	copies := map[string]*followed{"one": {}, "two": {}}
	one, two := b.join(t, "one", copies["one"].watch), b.join(t, "two", copies["two"].watch)
	owner, follower := sorted(t, one, two)
	b.judge(t, true)
	follower.owners(t, 2) // it sees the owner, too
	status, err := follower.control(t).Status(t.Context())
	if err != nil || len(status.ShardErrors) > 0 || status.State.Journal.Events == 0 {
		t.Errorf("the status at %s: %+v (%v), %d events", follower.name, status.ShardErrors, err, status.State.Journal.Events)
	}
	for range 3 { // only then is something removed
		b.add(5)
		b.judge(t, true)
		copies[follower.name].snapshot(t)
	}
	if err := admin.API.HandOver.Do(t.Context(), clientOf(t, follower.Bridge), admin.Handover{Shard: new(0)}); err != nil {
		t.Error(err)
	}
	if owners := owner.owners(t, 2); owners[0] != follower.name {
		t.Errorf("the owner is %s", owners[0])
	}
	b.add(5)
	b.judge(t, true)
	three := b.join(t, "three")
	awaitCluster(t, "the third member to restore its file", func() bool { return three.log.hasLine("restored from a snapshot") })
	awaitCluster(t, "two followers that are not behind", func() bool {
		seen := three.cluster(t)
		return len(seen.Shards) == 1 && len(seen.Shards[0].Followers) == 2 &&
			!slices.ContainsFunc(seen.Shards[0].Followers, func(f admin.ClusterFollower) bool { return f.Behind > 0 })
	})
	three.stop() // it removes its entry
	for _, m := range []*clusterMember{one, two, three} {
		if m.log.hasLine("reported an error") {
			t.Errorf("%s was refused something", m.name)
		}
	}
	if lines := refused(); len(lines) > 0 {
		t.Errorf("the NATS server refused: %q", lines)
	}
}
