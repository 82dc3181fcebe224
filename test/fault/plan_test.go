package fault

import (
	"testing"
	"time"

	"ndrbridge/test/assert"

	"pgregory.net/rapid"
)

func TestPlan(t *testing.T) {
	t.Run("the same seed gives the same results, whatever was asked before", func(t *testing.T) {
		rapid.Check(t, func(t *rapid.T) {
			p := Plan{Seed: rapid.Uint64().Draw(t, "seed"), Likely: rapid.Float64Range(0, 1).Draw(t, "likely")}
			n := rapid.Uint64().Draw(t, "n")
			first := p.fault(n)
			p.fault(n + 1)
			assert.Equal(t, p.fault(n), first, "and then")
		})
	})
	t.Run("results keep to their bounds", func(t *testing.T) {
		rapid.Check(t, func(t *rapid.T) {
			p := Plan{Seed: rapid.Uint64().Draw(t, "seed"), Likely: 1, Within: 100, Longest: time.Minute}
			f := p.fault(rapid.Uint64().Draw(t, "n"))
			assert.True(t, f.kind >= Reset && f.kind <= Delay && f.after >= 1 && f.after <= 100 && f.wait >= 0 && f.wait < time.Minute, f)
		})
	})
	t.Run("every kind is met, by as many as are likely to", func(t *testing.T) {
		met := make(map[Kind]int)
		p := Plan{Likely: 0.5}
		for n := range uint64(1000) {
			met[p.fault(n).kind]++
		}
		for _, k := range Kinds() {
			assert.True(t, met[k] >= 40, k, met[k])
		}
		assert.True(t, met[0] >= 400 && met[0] <= 600, met[0], "of 1000 have no fault")
	})
}
