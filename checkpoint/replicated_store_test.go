package checkpoint_test

import (
	"testing"

	"ndrbridge/checkpoint/checkpointtest"
)

func TestStoreWithALog(t *testing.T) {
	checkpointtest.Run(t, checkpointtest.Replicated(new(checkpointtest.MemoryLogs)))
}
