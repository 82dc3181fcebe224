package checkpoint_test

import (
	"testing"

	"ndrbridge/checkpoint/checkpointtest"
)

func TestStoreWithALog(t *testing.T) {
	t.Parallel()
	checkpointtest.Run(t, checkpointtest.Replicated(new(checkpointtest.MemoryLogs)))
}
