package jsonscan

import (
	"strings"
	"testing"
)

func TestANumberMayBeWrittenAsAText(t *testing.T) {
	for value, want := range map[string]string{
		`95`: "95", `"95"`: "95", `-1.50`: "-1.50", `"-1.50"`: "-1.50", `"1e3"`: "1e3", `0`: "0",
		`"095"`: "", `"+95"`: "", `" 95"`: "", `"95 "`: "", `"95%"`: "", `"1."`: "", `""`: "", `"-"`: "", `"`: "",
		`null`: "", `true`: "", `[95]`: "", `{"a":95}`: "", ``: "", `"\u0039"`: "",
	} {
		if got := string(Number([]byte(value))); got != want {
			t.Errorf("the number of %s is %q, want %q", value, got, want)
		}
	}
}

func TestATimeIsReadInAnyPrecision(t *testing.T) {
	for value, want := range map[string]int64{
		"1750000000123": 1750000000123, "1750000000123.456": 1750000000123, "1.750000000123e12": 1750000000123,
		"1750000000": 1750000000000, "1750000000.123": 1750000000123, "1750000000.5": 1750000000500,
		"1750000000123456": 1750000000123, "1750000000123000000": 1750000000123, "1750000000123999999": 1750000000123,
		"0": 0, "1": 1, "99999999": 99999999, "253402300799999": 253402300799999,
		"253402300800000": -1, "253402300800000000": -1,
		"-1": -1, "9300000000000000000": -1, "1e400": -1, "soon": -1,
	} {
		for _, written := range []string{value, `"` + value + `"`} {
			if got, ok := Millis([]byte(written)); ok != (want >= 0) || ok && got != want {
				t.Errorf("%s is %d (%t), want %d", written, got, ok, want)
			}
		}
	}
}

func TestATimeInWholeSecondsIsTheSame(t *testing.T) {
	for _, c := range []struct {
		a, b int64
		want bool
	}{
		{1750000000123, 1750000000123, true}, {1750000000123, 1750000000000, true}, {1750000000000, 1750000000999, true},
		{1750000000999, 1750000001000, true}, // rounded
		{1750000000123, 1750000000124, false}, {1750000000000, 1750000001000, false}, {1750000000123, 1750000002000, false},
	} {
		if got := SameMillis(c.a, c.b); got != c.want {
			t.Errorf("%d and %d are the same: %t", c.a, c.b, got)
		}
	}
}

func TestAnErrorAboutAnIntegerShowsItsBeginning(t *testing.T) {
	for _, value := range []string{`1.5`, `"x"`, `null`, `9223372036854775808`, `"` + strings.Repeat("7", 1000) + `"`} {
		if n, err := Integer([]byte(value)); err == nil || len(err.Error()) > 100 {
			t.Errorf("%.40s is %d (%v)", value, n, err)
		}
	}
}
