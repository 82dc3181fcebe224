package bridge_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"ndrbridge/checkpoint"
	"ndrbridge/checkpoint/replicated"
	"ndrbridge/configs"
	"ndrbridge/internal/admin"
	"ndrbridge/internal/bridge"
	"ndrbridge/internal/lease"
	"ndrbridge/test/require"
)

// copyShard follows the log of a shard into a file, from its last snapshot on if it has one.
func copyShard(t *testing.T, storage *replicated.JetStream, shard int, path string) replicated.FollowerStatus {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var replica *checkpoint.Replica
	empty := func() (replicated.Replica, error) {
		var err error
		replica, err = checkpoint.OpenReplica(path, 0)
		return replica, err
	}
	if _, err := replicated.Restore(ctx, storage.Stream(shard), storage.Snapshots(shard), empty); errors.Is(err, replicated.ErrNoSnapshot) {
		if _, err := empty(); err != nil {
			t.Fatal(err)
		}
	} else if err != nil {
		t.Fatal(err)
	}
	last, err := storage.Stream(shard).Last(ctx)
	require.NoError(t, err)
	follower := replicated.NewFollower(storage.Stream(shard), replica, replicated.FollowerOptions{Clock: lease.System()})
	done := make(chan error, 1)
	go func() { done <- follower.Run(ctx) }()
	err = follower.CatchUp(ctx, last)
	cancel()
	<-done
	require.NoError(t, errors.Join(err, replica.Close()))
	return follower.Status()
}

// positionIn returns the position of a stream in the file of a state.
func positionIn(t *testing.T, path string, source checkpoint.Source) string {
	t.Helper()
	store, err := checkpoint.Open(path, checkpoint.Options{ReadOnly: true})
	require.NoError(t, err)
	defer store.Close()
	position, err := store.Position(t.Context(), source)
	require.NoError(t, err)
	return string(position)
}

// adopted is a cluster of four shards that has adopted a state.
func adopted(t *testing.T) (*configs.Config, *replicated.JetStream) {
	t.Helper()
	single, clustered, natsURL, soc := adopting(t)
	clustered = strings.Replace(clustered, "shards: 4", "shards: 4, lease: 2s", 1)
	storage := deliverAndAdopt(t, single, clustered, natsURL, soc)
	config := parse(t, clustered)
	return config, storage
}

// spoil appends what does not follow from the state: nobody can follow the log any longer.
func spoil(t *testing.T, log replicated.Stream) {
	t.Helper()
	last, err := log.Last(t.Context())
	require.NoError(t, err)
	stray, err := replicated.Take(t.Context(), log, last, replicated.Options{Context: t.Context(), Owner: "stray", Clock: lease.System()})
	require.NoError(t, err)
	if _, err := stray.Append([]byte("garbage")); err != nil {
		t.Fatal(err)
	}
}

func TestAShardIsRecoveredFromACopy(t *testing.T) {
	t.Parallel()
	config, storage := adopted(t)
	shard, source := configs.ShardOf("hq", 4), checkpoint.Source{Appliance: "hq", Stream: "detections"}
	path := config.Shard(shard).State
	copyShard(t, storage, shard, path)
	want := positionIn(t, path, source)
	if want == "" {
		t.Fatal("the shard has no position")
	}

	spoil(t, storage.Stream(shard))
	refused := errors.New("refused")
	copies := []*bridge.Recovery{{Shard: shard, Path: path}}
	if err := bridge.Recover(t.Context(), config, copies, func() error { return refused }); !errors.Is(err, refused) {
		t.Fatalf("it was not confirmed: %v", err)
	}
	copies = []*bridge.Recovery{{Shard: shard, Path: path}}
	err := bridge.Recover(t.Context(), config, copies, func() error {
		if r := copies[0]; r.Offset == 0 || r.Last < r.Offset || r.Kept != "" {
			t.Errorf("asked about %+v", r)
		}
		return nil
	})
	require.NoError(t, err)
	kept := copies[0].Kept
	if _, err := os.Stat(path); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("members would use the old copy: %v", err)
	}
	if _, err := os.Stat(kept); err != nil {
		t.Error(err)
	}
	fresh := filepath.Join(t.TempDir(), "new.db")
	copyShard(t, storage, shard, fresh)
	if got := positionIn(t, fresh, source); got != want {
		t.Errorf("the position is %q, want %q", got, want)
	}
}

func TestNothingIsRecoveredFromAnEmptyCopy(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "state.db")
	empty, err := checkpoint.OpenReplica(path, 0)
	require.NoError(t, err)
	require.NoError(t, empty.Close())
	err = bridge.Recover(t.Context(), new(configs.Config), []*bridge.Recovery{{Path: path}}, func() error { return nil })
	if err == nil || !strings.Contains(err.Error(), "is empty") {
		t.Errorf("error %v, want that the copy is empty", err)
	}
}

func TestAShardWithAnOwnerIsNotRecovered(t *testing.T) {
	t.Parallel()
	config, storage := adopted(t)
	path := config.Shard(0).State
	copyShard(t, storage, 0, path)
	last, err := storage.Stream(0).Last(t.Context())
	require.NoError(t, err)
	owner, err := replicated.Take(t.Context(), storage.Stream(0), last, replicated.Options{Context: t.Context(), Owner: "owner", Clock: lease.System()})
	require.NoError(t, err)
	stop, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		for {
			select {
			case <-stop:
				return
			default:
				if _, err := owner.Append(nil); err != nil {
					t.Error(err)
					return
				}
			}
		}
	}()
	err = bridge.Recover(t.Context(), config, []*bridge.Recovery{{Path: path}}, func() error { return nil })
	close(stop)
	<-stopped
	if err == nil || !strings.Contains(err.Error(), "a member owns the shard") {
		t.Errorf("it was recovered: %v", err)
	}
	if _, err := os.Stat(path); err != nil {
		t.Errorf("the copy is gone: %v", err)
	}
}

func TestAShardIsRecoveredFromARunningMember(t *testing.T) {
	t.Parallel()
	b := newBridges(t, 1, 1, 100)
	b.lease = 2 * time.Second
	one, two := b.join(t, "one"), b.join(t, "two")
	b.judge(t, false)
	one.owners(t, 2)
	two.owners(t, 2)
	recovery := admin.Recovery{Shard: new(0), From: "two"}
	if err := admin.API.RecoverShard.Do(t.Context(), clientOf(t, one.Bridge), recovery); err == nil || !strings.Contains(err.Error(), "owns it") {
		t.Errorf("a shard with an owner: %v", err)
	}
	one.stop()
	two.stop()

	spoil(t, openStorage(t, b.nats.ClientURL(), "test", 1).Stream(0))
	one.running, two.running = run(t, *one.yaml.Load()), run(t, *two.yaml.Load())
	for _, m := range []*clusterMember{one, two} {
		awaitCluster(t, "both members, no owner, and that "+m.name+" cannot follow", func() bool {
			seen := m.cluster(t)
			if len(seen.Members) < 2 {
				return false // m has not joined, or is alone
			}
			shard := seen.Shards[0] // the last owner is listed for a quarter of a lease longer
			return shard.WithoutOwnerSeconds > b.lease.Seconds()/2 && shard.Error != ""
		})
	}
	b.add(20)

	unknown := admin.Recovery{Shard: new(0), From: "three"}
	if err := admin.API.RecoverShard.Do(t.Context(), clientOf(t, one.Bridge), unknown); !errors.Is(err, admin.ErrUnknown) {
		t.Errorf("a member that does not exist: %v", err)
	}
	awaitCluster(t, "the recovery, once member one sees the other", func() bool {
		err := admin.API.RecoverShard.Do(t.Context(), clientOf(t, one.Bridge), recovery)
		if err != nil && !errors.Is(err, admin.ErrUnknown) {
			t.Fatal(err)
		}
		return err == nil
	})
	if !two.log.hasLine("continued from this member's file on request") {
		t.Error("the member does not log what it did")
	}
	b.judge(t, false)
	one.owners(t, 2)
}
