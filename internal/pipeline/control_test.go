package pipeline

import (
	"errors"
	"io"
	"testing"
	"time"

	"ndrbridge/checkpoint"
	"ndrbridge/configs"
	"ndrbridge/internal/admin"
	"ndrbridge/poller"
	"ndrbridge/test/assert"
	"ndrbridge/test/require"
)

func TestOneBackupAndOneVerificationAtATime(t *testing.T) {
	p, store := withState(t, checkpoint.Limits{})
	defer store.Close()
	p.current.Store(&runtime{config: &configs.Config{Appliances: []configs.Appliance{{Name: "hq"}}}})
	backUp := func() error { return p.Control().Backup(t.Context(), io.Discard) }
	verify := func() error {
		_, err := p.Control().Verify(t.Context(), "hq", time.Now(), poller.VerifyReport{})
		return err
	}
	p.backingUp.Lock()
	p.verifying.Lock()
	first, second := backUp(), verify()
	assert.True(t, errors.Is(first, admin.ErrBusy) && errors.Is(second, admin.ErrBusy), "while others run", first, second)
	p.backingUp.Unlock()
	for range 2 {
		require.NoError(t, backUp())
	}
}
