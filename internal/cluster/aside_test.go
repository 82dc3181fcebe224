package cluster

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
	"time"

	"ndrbridge/internal/admin"
	"ndrbridge/test/require"
)

func TestDisk(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "state.00")
	for n, to := range []string{path + lostSuffix, path + lostSuffix} {
		require.NoError(t, os.WriteFile(path, fmt.Append(nil, n), 0o600))
		require.NoError(t, (disk{}).rename(path, to))
		if there, err := (disk{}).exists(path); there || err != nil {
			t.Errorf("renamed: %t, %v", there, err)
		}
		if b, err := os.ReadFile(to); string(b) != fmt.Sprint(n) {
			t.Errorf("%q, %v", b, err)
		}
	}
	if err := (disk{}).rename(path, path+lostSuffix); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("no file: %v", err)
	}
	for range 2 {
		if err := (disk{}).remove(path + lostSuffix); err != nil {
			t.Error(err)
		}
	}
	if there, err := (disk{}).exists(path + lostSuffix); there || err != nil {
		t.Errorf("removed: %t, %v", there, err)
	}
}

// TestFileThatARecoveryReplacesIsKept recovers a shard from an older copy than a member has: its
// file is set aside, and an operator can go back to it.
func TestFileThatARecoveryReplacesIsKept(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := startCluster(t, 2, withoutSnapshots)
		latest, older := s.members[0], s.members[1]
		time.Sleep(steady)
		older.stop()
		time.Sleep(10 * testTerm)
		latest.stop()
		before := latest.disk.number(0)
		if n := older.disk.number(0); n == 0 || n >= before {
			t.Fatalf("the copies have %d and %d records", before, n)
		}
		s.servers.Forget(0, 0)
		recoverFrom := func(m *simMember) {
			t.Helper()
			require.NoError(t, m.node().Recover(t.Context(), admin.Recovery{Shard: new(0), From: m.name}))
			time.Sleep(startup)
		}
		older.start()
		time.Sleep(startup)
		recoverFrom(older)
		wantState(t, older, 0, stateOwning)
		latest.start()
		time.Sleep(4 * testTerm)
		if lost := latest.disk.numberAt("state.0" + lostSuffix); lost != before {
			t.Fatalf("%d records are set aside, want %d", lost, before)
		}
		latest.stop()
		older.stop()
		s.spoil(t, 0, 0)
		latest.start()
		time.Sleep(startup)
		recoverFrom(latest)
		wantState(t, latest, 0, stateOwning)
		if after := latest.disk.number(0); after < before {
			t.Errorf("after the recovery the state has %d records, before it had %d", after, before)
		}
		if lost := latest.disk.numberAt("state.0" + lostSuffix); lost >= before {
			t.Errorf("the file that was recovered is there, with %d records", lost)
		}
	})
}
