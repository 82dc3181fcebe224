package cluster

import (
	"context"
	"errors"
	"strings"
	"testing"

	"ndrbridge/test/require"
)

func TestMembersWaitUntilTheClusterIsCreated(t *testing.T) {
	t.Parallel()
	ctx, r := t.Context(), newFakeRegistry()
	mine := settings{Name: "prod", Shards: 4, Layout: 4}
	waits := func(when, want string) {
		t.Helper()
		if _, err := agree(ctx, r, mine); err == nil || errors.Is(err, ErrSettings) || !strings.Contains(err.Error(), want) {
			t.Errorf("a member joins %s: %v", when, err)
		}
	}
	create := func(fill func(id string) error) error { return Init(ctx, r, mine.Name, mine.Shards, mine.Layout, fill) }
	waits("before", "ndrbridge cluster init")
	created := ""
	err := create(func(id string) error {
		created = id
		waits("meanwhile", "is being created")
		return nil
	})
	if err != nil || created == "" {
		t.Fatalf("created %q: %v", created, err)
	}
	if id, err := agree(ctx, r, mine); err != nil || id != created {
		t.Errorf("a member cannot join: it finds %q (%v), want %q", id, err, created)
	}
	if err := create(func(string) error { t.Error("the logs are begun a second time"); return nil }); !errors.Is(err, ErrNotNew) || !strings.Contains(err.Error(), "exists") {
		t.Errorf("it is created a second time: %v", err)
	}
}

func TestAClusterWhoseCreationFailedCannotBeJoined(t *testing.T) {
	t.Parallel()
	ctx, r := t.Context(), newFakeRegistry()
	broken := errors.New("the servers are gone")
	create := func(err error) error {
		return Init(ctx, r, "prod", 4, 4, func(string) error { return err })
	}
	if err := create(broken); !errors.Is(err, broken) {
		t.Fatal(err)
	}
	if _, err := agree(ctx, r, settings{Name: "prod", Shards: 4, Layout: 4}); err == nil || !strings.Contains(err.Error(), "delete the streams NDR_prod_NN") {
		t.Errorf("a member joins: %v", err)
	}
	if err := create(nil); !errors.Is(err, ErrNotNew) || !strings.Contains(err.Error(), "delete the streams NDR_prod_NN") {
		t.Errorf("it is created again: %v", err)
	}
}

// TestAClusterResumesUnderItsIdentity: its settings are stored again before its logs are
// recovered, unless the bucket belongs to another cluster.
func TestAClusterResumesUnderItsIdentity(t *testing.T) {
	t.Parallel()
	ctx, r := context.Background(), newFakeRegistry()
	for range 2 { // the second shard
		require.NoError(t, Resume(ctx, r, "prod", 4, 4, "one"))
	}
	if id, err := agree(ctx, r, settings{Name: "prod", Shards: 4, Layout: 4}); err != nil || id != "one" {
		t.Errorf("a member finds %q (%v)", id, err)
	}
	if err := Resume(ctx, r, "prod", 4, 4, "two"); !errors.Is(err, ErrNotNew) || !strings.Contains(err.Error(), "delete the streams") {
		t.Errorf("another cluster: %v", err)
	}
}
