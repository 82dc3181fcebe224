package cluster

import (
	"errors"
	"strings"
	"testing"
)

func TestAdopt(t *testing.T) {
	t.Parallel()
	ctx, r := t.Context(), newFakeRegistry()
	mine := settings{Name: "prod", Shards: 4, Layout: 4}
	adopt := func(fill func() error) error { return Adopt(ctx, r, mine.Name, mine.Shards, mine.Layout, fill) }
	filled := false
	err := adopt(func() error {
		filled = true
		if err := agree(ctx, r, mine); !errors.Is(err, ErrSettings) {
			t.Errorf("a member joins while the logs are filled: %v", err)
		}
		return nil
	})
	if err != nil || !filled {
		t.Fatalf("filled: %v, %v", filled, err)
	}
	if err := agree(ctx, r, mine); err != nil {
		t.Errorf("a member cannot join: %v", err)
	}
	if err := adopt(func() error { t.Error("the logs are filled a second time"); return nil }); !errors.Is(err, ErrNotNew) || !strings.Contains(err.Error(), "have run already") {
		t.Errorf("a second adoption: %v", err)
	}
}

func TestAClusterWhoseAdoptionFailedCannotBeJoined(t *testing.T) {
	t.Parallel()
	ctx, r := t.Context(), newFakeRegistry()
	broken := errors.New("the servers are gone")
	if err := Adopt(ctx, r, "prod", 4, 4, func() error { return broken }); !errors.Is(err, broken) {
		t.Fatal(err)
	}
	if err := agree(ctx, r, settings{Name: "prod", Shards: 4, Layout: 4}); !errors.Is(err, ErrSettings) || !strings.Contains(err.Error(), "ndrbridge cluster adopt") {
		t.Errorf("a member joins: %v", err)
	}
	if err := Adopt(ctx, r, "prod", 4, 4, func() error { return nil }); !errors.Is(err, ErrNotNew) || !strings.Contains(err.Error(), "delete the streams NDR_prod_NN") {
		t.Errorf("a second adoption: %v", err)
	}
}
