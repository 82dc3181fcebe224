package pipeline

import (
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"ndrbridge/test/assert"
)

func TestClose(t *testing.T) {
	const timeout = 20 * time.Second
	t.Run("items are closed one after another, and their errors are joined", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			var closed []string
			first, last := errors.New("first"), errors.New("last")
			c := NewStop(timeout)
			for _, item := range []struct {
				name string
				err  error
			}{{"a", first}, {"b", nil}, {"c", last}} {
				c.Close(item.name, func() error {
					time.Sleep(time.Second)
					closed = append(closed, item.name)
					return item.err
				})
			}
			assert.EqualSlices(t, closed, []string{"a", "b", "c"}, "closed")
			assert.Empty(t, c.Left, "abandoned")
			assert.True(t, errors.Is(c.Err, first) && errors.Is(c.Err, last), c.Err)
		})
	})
	t.Run("an item that hangs is abandoned shortly after the deadline", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			release := make(chan struct{})
			defer close(release)
			begun := time.Now()
			c := NewStop(timeout)
			c.Close("the state", func() error {
				<-release
				return nil
			})
			took := time.Since(begun)
			assert.True(t, took == timeout+windDown+closing && slices.Equal(c.Left, []string{"the state"}) && c.Err == nil, "it took", took, "abandoned", c.Left, c.Err)
		})
	})
}
