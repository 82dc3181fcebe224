//go:build unix

package bridge_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"ndrbridge/checkpoint"
	"ndrbridge/test/assert"
	"ndrbridge/test/require"
)

func TestABridgeWhoseStateFailsStopsWithAnError(t *testing.T) {
	for name, test := range map[string]struct {
		change func(path string) error
		want   error
		goesOn bool // the next start does, and nothing is lost
	}{
		"removed":   {os.Remove, checkpoint.ErrLost, true},
		"cut short": {func(path string) error { return os.Truncate(path, 100) }, checkpoint.ErrDamaged, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			const backlog = 300
			a, url := startAppliance(t, backlog)
			soc := startInbox(t)
			soc.Delay(time.Millisecond)
			yaml := configuration(t, url, webhookSink("soc", soc.URL))
			config := parse(t, yaml)
			log := new(lines)
			b := require.Value(newBridge(t, yaml, log, nil))(t)
			ended := make(chan error, 1)
			go func() { ended <- b.Run(context.Background()) }()
			await(t, "some events", func() bool { return soc.count("") >= backlog/4 })
			require.NoError(t, test.change(config.State))
			require.ErrorIs(t, <-ended, test.want, "ended with")
			assert.True(t, log.hasLine("level=ERROR", "the state is unusable", filepath.Base(config.State)), "the log does not say why", log)
			if !test.goesOn {
				if b, err := newBridge(t, yaml, log, nil); !errors.Is(err, checkpoint.ErrDamaged) {
					t.Errorf("started again, %v", err)
					_ = b.Close()
				}
				return
			}
			a.AddMany(1)
			run(t, yaml)
			await(t, "the rest", func() bool { return len(soc.book().Judge("hq", history(a)).Faults) == 0 })
		})
	}
}
