package cluster

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"ndrbridge/admin"
)

// TestFileOfAnotherHistoryIsKept lets a log lose its end while no member runs, and another
// owner write to it what nobody can follow. An operator can go on from what was lost.
func TestFileOfAnotherHistoryIsKept(t *testing.T) {
	t.Parallel()
	for name, renewals := range map[string]int{
		"the log is shorter than the file":                    0,
		"the log has other messages, and ends after the file": 20,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				s := startCluster(t, 2, withoutSnapshots)
				time.Sleep(startup)
				for _, m := range s.members {
					m.stop()
				}
				m := s.members[0]
				if m.disk.number(0) < s.members[1].disk.number(0) {
					m = s.members[1]
				}
				before, messages := m.disk.number(0), s.servers.Messages(0)
				s.servers.Forget(0, messages[len(messages)-6].Seq)
				s.spoil(t, 0, renewals)
				for range 3 { // what is restored meanwhile does not replace it
					m.start()
					time.Sleep(20 * testTerm)
					m.stop()
				}
				if after, lost := m.disk.number(0), m.disk.numberAt("state.0"+lostSuffix); after >= before || lost != before {
					t.Fatalf("the file had %d records; after the loss it has %d, and %d are set aside", before, after, lost)
				}
				m.start()
				time.Sleep(startup)
				if err := m.node().Recover(t.Context(), admin.Recovery{Shard: new(0), From: m.name}); err != nil {
					t.Fatal(err)
				}
				time.Sleep(startup)
				wantState(t, m, 0, stateOwning)
				if after := m.disk.number(0); after < before {
					t.Errorf("after the recovery the state has %d records, before it had %d", after, before)
				}
				if lost := m.disk.numberAt("state.0" + lostSuffix); lost >= before {
					t.Errorf("the file that was recovered is there, with %d records", lost)
				}
			})
		})
	}
}

func TestDisk(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "state.00")
	for n, to := range []string{path + lostSuffix, path + lostSuffix} {
		if err := os.WriteFile(path, fmt.Append(nil, n), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := (disk{}).rename(path, to); err != nil {
			t.Fatal(err)
		}
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
