package checkpoint_test

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"ndrbridge/checkpoint"
	"ndrbridge/test/assert"
	"ndrbridge/test/require"
)

func TestADumpStopsBeforeTheDiskIsFull(t *testing.T) {
	const little = 100 << 20
	path := statePath(t)
	log := &recordLog{}
	s := openLogged(t, statePath(t), log)
	c := checkpoint.Commit{Source: checkpoint.Source{Appliance: "large", Stream: source.Stream}, Position: []byte("1")}
	for i := range 300 {
		c.Events = append(c.Events, newEvent(t, fmt.Sprintf("large-%d", i), time.Now(), 4000))
	}
	require.NoError(t, s.Commit(t.Context(), c))
	r := openReplica(t, path)
	log.follow(t, r)
	// dump dumps with enough space for a number of checks. before is the number of those up to
	// the first record.
	dump := func(t *testing.T, until int, known bool) (checks, before, records int, err error) {
		r.SetFree(func(folder string) (uint64, bool) {
			assert.Equal(t, folder, filepath.Dir(path), "the folder whose free space is asked for")
			checks++
			if checks > until {
				return little, known
			}
			return 1 << 40, known
		})
		_, err = r.Dump(t.Context(), 4000, func([]byte) error {
			if records == 0 {
				before = checks
			}
			records++
			return nil
		})
		left, _ := filepath.Glob(path + "*.dump")
		assert.Empty(t, left, "left")
		return checks, before, records, err
	}
	_, first, all, err := dump(t, 1<<30, true)
	require.True(t, err == nil && first >= 5 && all >= 100, first, "checks up to the first of", all, "records", err)
	for name, c := range map[string]struct {
		until   int // number of checks that find enough space
		known   bool
		records int
		stops   bool
	}{
		"there is little space from the start": {0, true, 0, true},
		"it becomes little while it writes":    {2, true, 0, true},
		"it becomes little while it yields":    {first + 2, true, 3, true},
		"the space is not known":               {0, false, all, false},
	} {
		t.Run(name, func(t *testing.T) {
			checks, _, records, err := dump(t, c.until, c.known)
			stopped := err != nil && strings.Contains(err.Error(), "100 MiB are free")
			assert.True(t, stopped == c.stops && (stopped || err == nil), err)
			assert.True(t, records == c.records && (!c.stops || checks == c.until+1), records, "records after", checks, "checks")
		})
	}
}

func TestSpaceForACopyOfTheState(t *testing.T) {
	r := openReplica(t, statePath(t))
	known := true
	r.SetFree(func(string) (uint64, bool) { return 200 << 20, known })
	require.NoError(t, r.CheckFree(72<<20))
	err := r.CheckFree(73 << 20)
	assert.True(t, err != nil && strings.Contains(err.Error(), "200 MiB are free") && strings.Contains(err.Error(), "201 MiB are needed"), "one MiB more", err)
	known = false
	require.NoError(t, r.CheckFree(1<<40))
}

func TestNamesOfUnfinishedCopies(t *testing.T) {
	for name, finished := range map[string]string{ // empty: it is none
		".state.db.123": "state.db", "state.db": "", ".state.db.swp": "", ".state.db": "", ".1": "", "state.db.1": "", "": "",
	} {
		got, is := checkpoint.UnfinishedCopy(name)
		assert.True(t, is == (finished != "") && (!is || got == finished) && (is || got == name), name, got, is)
	}
}
