package jsonscan

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"ndrbridge/test/assert"
	"ndrbridge/test/require"
)

func TestValueEndsWhereEncodingJSONSays(t *testing.T) {
	for _, test := range []struct {
		name, json string
		valid      bool
	}{
		{"white space around every token", " { \"a\" :\t[ 1 ,\r\n2 ] , \"b\" : { } } ", true},
		{"every escape", `"\"\\\/\b\f\n\r\t\u00e9\uD83D\uDE00"`, true},
		{"half of a surrogate pair", `"\ud800"`, true},
		{"a string that is not UTF-8", "\"\xff\"", true},
		{"a duplicate name", `{"a":1,"a":2}`, true},
		{"every form of number", `[0,-0,10,1.5,-1.5e+10,1E-2,1e400]`, true},
		{"nothing", ``, false},
		{"only white space", " \n", false},
		{"an unknown escape", `"\x"`, false},
		{"an escape that is cut short", `"\u00e`, false},
		{"a digit that is not hexadecimal", `"\u00g0"`, false},
		{"a backslash at the end", `"\`, false},
		{"a control character in a string", "\"\x1f\"", false},
		{"a control character in a long string", "\"0123456789\x00 0123456789\"", false},
		{"a string that does not end", `"a`, false},
		{"a leading zero", `01`, false},
		{"a plus sign", `+1`, false},
		{"a sign alone", `-`, false},
		{"a number that ends with a dot", `1.`, false},
		{"an exponent without digits", `1e+`, false},
		{"a trailing comma in an array", `[1,]`, false},
		{"a trailing comma in an object", `{"a":1,}`, false},
		{"elements without a comma", `[1 2]`, false},
		{"members without a comma", `{"a":1 "b":2}`, false},
		{"a member without a colon", `{"a" 1}`, false},
		{"a member without a value", `{"a":}`, false},
		{"a member without a name", `{1:2}`, false},
		{"brackets that do not match", `[{"a":1]}`, false},
		{"an array that does not end", `[1`, false},
		{"an object that does not end", `{"a":1`, false},
		{"a word that is cut short", `tru`, false},
		{"two values", `1 2`, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			got := valid([]byte(test.json))
			assert.True(t, got == test.valid && got == json.Valid([]byte(test.json)), test.json, "is valid", got)
		})
	}
}

// valid reports whether b is one JSON value.
func valid(b []byte) bool {
	end := valueEnd(b, space(b, 0), maxDepth)
	return end >= 0 && space(b, end) == len(b)
}

func TestTheDepthOfAValueIsBounded(t *testing.T) {
	for open, closing := range map[string]string{"[": "]", `{"a":`: "}"} {
		nested := func(depth int) []byte {
			return []byte(strings.Repeat(open, depth) + "1" + strings.Repeat(closing, depth))
		}
		for depth, want := range map[int]bool{maxDepth: true, maxDepth + 1: false, 1 << 20: false} {
			if b := nested(depth); valid(b) != want || json.Valid(b) != want {
				t.Errorf("%d times %s: %t", depth, open, valid(b))
			}
		}
		if b := nested(3); valueEnd(b, 0, 3) != len(b) || valueEnd(b, 0, 2) != -1 {
			t.Errorf("3 times %s: %d within 3, %d within 2", open, valueEnd(b, 0, 3), valueEnd(b, 0, 2))
		}
	}
	assert.Equal(t, valueEnd([]byte("1"), 0, 0), 1, "a number needs no depth, an array does")
	assert.Equal(t, valueEnd([]byte("[]"), 0, 0), -1, "a number needs no depth, an array does")
}

func TestMembersAndElementsEndBeforeMalformedJSON(t *testing.T) {
	for text, want := range map[string]string{
		`{"a":1,"b":[2],"c`:    `a=1 b=[2] `,
		`{"a":1,"b":"unfinish`: `a=1 `,
		`{"a":1,"b":[2}`:       `a=1 `,
		`{"a":1;"b":2}`:        `a=1 `,
		`{`:                    ``,
		`[1,{"a":2},[3`:        `1 {"a":2} `,
		`[1,,2]`:               `1 `,
		`7`:                    ``,
		``:                     ``,
		"  ":                   ``,
	} {
		var got strings.Builder
		for name, value := range Members([]byte(text)) {
			got.WriteString(string(name) + "=" + string(value) + " ")
		}
		for value := range Elements([]byte(text)) {
			got.WriteString(string(value) + " ")
		}
		assert.Equal(t, got.String(), want, text)
	}
}

// FuzzScan compares with encoding/json.
func FuzzScan(f *testing.F) {
	for _, seed := range []string{
		`{"a":1,"b":[true,false,null,"x\u0000\ud800"],"c":{"a":1,"a":2}}`, ` [ {} , [] , -0.5e+7 ] `, "{\"\xff\":\"\xff\"}", `{"\u0061\\\"":"0123456789\\\""}`,
		`[1,]`, `{"a":`, `01`, `"\`, "\"\x00\"", `nul`, `{}x`, "\ufeff[]", strings.Repeat("[", 100) + strings.Repeat("]", 100),
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		require.Equal(t, valid(b), json.Valid(b), b, "is valid")
		var elements [][]byte
		for element := range Elements(b) {
			elements = append(elements, element)
		}
		var names []string
		var values [][]byte
		for name, value := range Members(b) {
			names, values = append(names, string(name)), append(values, value)
		}
		for _, value := range slices.Concat(elements, values) {
			require.True(t, json.Valid(value), string(b), string(value), "is not a value")
		}
		if !json.Valid(b) {
			return
		}
		want := decodedElements(b)
		require.True(t, slices.EqualFunc(elements, want, bytes.Equal), string(b), "elements", elements, want)
		wantNames, wantValues := decodedMembers(t, b)
		require.True(t, slices.EqualFunc(values, wantValues, bytes.Equal), string(b), "values", values, "want", wantValues)
		for i, name := range names {
			var text string
			err := json.Unmarshal([]byte(`"`+name+`"`), &text)
			require.True(t, err == nil && text == wantNames[i], string(b), "name", text, wantNames, err)
		}
	})
}

// decodedElements returns the elements of an array, nil for any other value.
func decodedElements(b []byte) (elements [][]byte) {
	var raw []json.RawMessage
	if json.Unmarshal(b, &raw) != nil {
		return nil
	}
	for _, element := range raw {
		elements = append(elements, element)
	}
	return elements
}

// decodedMembers returns the decoded names and the values of an object in order, nil for
// any other value.
func decodedMembers(t *testing.T, b []byte) (names []string, values [][]byte) {
	d := json.NewDecoder(bytes.NewReader(b))
	if token, err := d.Token(); err != nil || token != json.Delim('{') {
		return nil, nil
	}
	for d.More() {
		name := require.Value(d.Token())(t)
		var value json.RawMessage
		require.NoError(t, d.Decode(&value))
		names, values = append(names, name.(string)), append(values, value)
	}
	return names, values
}

func TestANumberMayBeWrittenAsAText(t *testing.T) {
	for value, want := range map[string]string{
		`95`: "95", `"95"`: "95", `-1.50`: "-1.50", `"-1.50"`: "-1.50", `"1e3"`: "1e3", `0`: "0",
		`"095"`: "", `"+95"`: "", `" 95"`: "", `"95 "`: "", `"95%"`: "", `"1."`: "", `""`: "", `"-"`: "", `"`: "",
		`null`: "", `true`: "", `[95]`: "", `{"a":95}`: "", ``: "", `"\u0039"`: "",
	} {
		assert.Equal(t, string(Number([]byte(value))), want, "the number of", value, "is")
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
			got, ok := Millis([]byte(written))
			assert.True(t, ok == (want >= 0) && (!ok || got == want), written, got, ok, want)
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
		assert.Equal(t, SameMillis(c.a, c.b), c.want, c.a, "and", c.b, "are the same")
	}
}

func TestAnErrorAboutAnIntegerShowsItsBeginning(t *testing.T) {
	for _, value := range []string{`1.5`, `"x"`, `null`, `9223372036854775808`, `"` + strings.Repeat("7", 1000) + `"`} {
		n, err := Integer([]byte(value))
		assert.True(t, err != nil && len(err.Error()) <= 100, value, n, err)
	}
}

func TestSkipEndsWhereAValidValueDoes(t *testing.T) {
	for _, value := range []string{
		`7`, `-1.5e+7`, `null`, `true`, `""`, `"a"`, `"\""`, `"\\"`, `"\\\" , ]"`, `[]`, `{}`, `[1,[2,"]"],{}]`, `{"a":{"b":"}\\"},"c":[ ]}`,
	} {
		for _, rest := range []string{"", ",", "}", "]", " ,1", "\n}", `,"b":"c"}`} {
			assert.Equal(t, Skip([]byte(value+rest)), len(value), value+rest)
		}
	}
	for _, cut := range []string{``, `"`, `"a\`, `"a\"`, `[`, `[1`, `{"a"`, `{"a":"`} {
		assert.Equal(t, Skip([]byte(cut)), len(cut), cut)
	}
}
