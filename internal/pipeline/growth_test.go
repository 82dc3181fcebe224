package pipeline

import (
	"testing"
	"time"
)

func TestTimeUntilTheJournalIsFull(t *testing.T) {
	const every = 5 * time.Second
	for _, c := range []struct {
		name  string
		bytes []int64 // sampled every 5 seconds
		limit int64
		want  float64
	}{
		{"without a sample it is not foreseeable", nil, 100, 0},
		{"nor with one", []int64{50}, 100, 0},
		{"what does not grow does not fill it", []int64{50, 50, 50}, 100, 0},
		{"nor what shrinks", []int64{50, 40}, 100, 0},
		{"what grows fills it at its rate", []int64{0, 10, 20}, 100, 40},
		{"what is full is not filled", []int64{0, 100}, 100, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			var g growth
			now := time.Now()
			for i, bytes := range c.bytes {
				g.add(now.Add(time.Duration(i)*every), bytes)
			}
			if got := g.secondsUntil(c.limit); got != c.want {
				t.Errorf("%v seconds, want %v", got, c.want)
			}
		})
	}
	t.Run("old samples do not count", func(t *testing.T) {
		var g growth
		now := time.Now()
		g.add(now, 0)
		for at := growthOver / 2; at < 2*growthOver; at += every {
			g.add(now.Add(at), 50)
		}
		if got := g.secondsUntil(100); got != 0 {
			t.Errorf("%v seconds", got)
		}
	})
}
