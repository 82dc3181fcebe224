package fault

import (
	"testing"
	"time"

	"pgregory.net/rapid"
)

func TestPlan(t *testing.T) {
	t.Run("the same seed gives the same results, whatever was asked before", func(t *testing.T) {
		rapid.Check(t, func(t *rapid.T) {
			p := Plan{Seed: rapid.Uint64().Draw(t, "seed"), Likely: rapid.Float64Range(0, 1).Draw(t, "likely")}
			n := rapid.Uint64().Draw(t, "n")
			first := p.fault(n)
			p.fault(n + 1)
			if again := p.fault(n); again != first {
				t.Errorf("%+v, and then %+v", first, again)
			}
		})
	})
	t.Run("results keep to their bounds", func(t *testing.T) {
		rapid.Check(t, func(t *rapid.T) {
			p := Plan{Seed: rapid.Uint64().Draw(t, "seed"), Likely: 1, Within: 100, Longest: time.Minute}
			f := p.fault(rapid.Uint64().Draw(t, "n"))
			if f.kind < Reset || f.kind > Delay || f.after < 1 || f.after > 100 || f.wait < 0 || f.wait >= time.Minute {
				t.Errorf("%+v", f)
			}
		})
	})
	t.Run("every kind is met, by as many as are likely to", func(t *testing.T) {
		met := make(map[Kind]int)
		p := Plan{Likely: 0.5}
		for n := range uint64(1000) {
			met[p.fault(n).kind]++
		}
		for _, k := range Kinds() {
			if met[k] < 40 {
				t.Errorf("%s: %d", k, met[k])
			}
		}
		if met[0] < 400 || met[0] > 600 {
			t.Errorf("%d of 1000 have no fault", met[0])
		}
	})
}
