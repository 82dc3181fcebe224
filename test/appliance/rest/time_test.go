package rest

import (
	"encoding/json"
	"testing"
	"time"

	"ndrbridge/test/assert"
	"ndrbridge/test/require"
)

func TestParseTime(t *testing.T) {
	now := time.Date(2026, 3, 31, 12, 0, 0, 0, time.UTC)
	before := func(d time.Duration) int64 { return now.Add(-d).UnixMilli() }
	tests := []struct {
		raw  string
		want int64
	}{
		{`1750000000000`, 1750000000000},
		{`"1750000000000"`, 1750000000000},
		{`1.75e12`, 1750000000000},
		{`0`, now.UnixMilli()},
		{`"0"`, now.UnixMilli()},
		{`-1500`, before(1500 * time.Millisecond)},
		{`"-1500"`, before(1500 * time.Millisecond)},
		{`"-250ms"`, before(250 * time.Millisecond)},
		{`"-90s"`, before(90 * time.Second)},
		{`"-30m"`, before(30 * time.Minute)},
		{`"-2h"`, before(2 * time.Hour)},
		{`"-3d"`, before(72 * time.Hour)},
		{`"-2w"`, before(14 * 24 * time.Hour)},
		{`"-2M"`, time.Date(2026, 1, 31, 12, 0, 0, 0, time.UTC).UnixMilli()},
		{`"-1y"`, time.Date(2025, 3, 31, 12, 0, 0, 0, time.UTC).UnixMilli()},
	}
	for _, test := range tests {
		t.Run(test.raw+" is a time", func(t *testing.T) {
			got := require.Value(ParseTime(json.RawMessage(test.raw), now))(t)
			assert.Equal(t, got, test.want)
		})
	}
	for _, raw := range []string{`"30m"`, `"-3x"`, `"-m"`, `""`, `"m"`, `1.5`, `true`, `{}`, `"-1mm"`, `"-1.5h"`, `"-9999999999999999y"`, `"-999999999999999w"`} {
		t.Run(raw+" is not a time", func(t *testing.T) {
			got, err := ParseTime(json.RawMessage(raw), now)
			assert.Error(t, err, "it", got)
		})
	}
}
