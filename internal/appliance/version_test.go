package appliance

import (
	"testing"

	"pgregory.net/rapid"

	"ndrbridge/test/assert"
	"ndrbridge/test/require"
)

func TestVersionsAreComparedByNumber(t *testing.T) {
	for _, test := range []struct {
		v, w string
		want int
	}{
		{"26.3.0.1234", "9.3", 1},
		{"9.3", "26.3.0.1234", -1},
		{"9.10", "9.9.9.9", 1},
		{"9.3", "9.3.0.0", 0},
		{"9.3.0.1", "9.3", 1},
		{"09.3", "9.03", 0},
		{"8.9.9.99999", "9.3", -1},
	} {
		v := require.Value(parseVersion(test.v))(t)
		w := require.Value(parseVersion(test.w))(t)
		assert.Equal(t, v.Compare(w), test.want, v, "and", w)
	}
	assert.Equal(t, (Version{9, 3}).String(), "9.3")
}

func TestInvalidVersions(t *testing.T) {
	for _, text := range []string{"", ".", "9.", ".9", "9..3", "v9.3", "9.3-1", "-9.3", "+9.3", "9.3 ", "9.99999999999", "9_0.3", "0x9.3"} {
		v, err := parseVersion(text)
		assert.Error(t, err, text, v)
	}
	for _, body := range []string{`{}`, `{"version": ""}`, `{"version": null}`, `{"version": 9.3}`, `{"version": "new"}`, `"9.3"`, `[]`, `{"version": "9.3"`} {
		c := newClient(t, answer(200, "application/json", body))
		v, err := c.Firmware(t.Context())
		assert.True(t, failureOf(t, err).Status == 200 && v == nil, body, v, err)
	}
}

func TestTheFirmwareIsRead(t *testing.T) {
	c := newClient(t, answer(200, "application/json", `{"version": "26.3.0.1234"}`))
	assert.Equal(t, require.Value(c.Firmware(t.Context()))(t).String(), "26.3.0.1234")
}

func TestVersionsAreOrdered(t *testing.T) {
	versions := rapid.Custom(func(t *rapid.T) Version {
		return rapid.SliceOfN(rapid.IntRange(0, 3), 1, 4).Draw(t, "numbers")
	})
	rapid.Check(t, func(t *rapid.T) {
		u, v, w := versions.Draw(t, "u"), versions.Draw(t, "v"), versions.Draw(t, "w")
		require.Equal(t, u.Compare(v), -v.Compare(u), "not antisymmetric")
		require.Equal(t, u.Compare(u), 0, "not antisymmetric")
		require.True(t, u.Compare(v) > 0 || v.Compare(w) > 0 || u.Compare(w) <= 0, "not transitive")
	})
}

func FuzzParseVersion(f *testing.F) {
	f.Add("26.3.0.1234")
	f.Add("9..3")
	f.Fuzz(func(t *testing.T, text string) {
		v, err := parseVersion(text)
		if err != nil {
			return
		}
		w, err := parseVersion(v.String())
		assert.True(t, err == nil && v.Compare(w) == 0 && w.String() == v.String(), text, "became", v, "then", w, err)
	})
}
