package appliance

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"testing/iotest"

	"pgregory.net/rapid"
)

// skimModTime returns the integer mod_time of an object; 0 for any other value.
func skimModTime(r io.Reader) (modTime, size int64, err error) {
	fields := map[string]string{"mod_time": ""}
	_, size, err = skimJSON(r, nil, fields)
	if n, err := strconv.ParseInt(fields["mod_time"], 10, 64); err == nil {
		modTime = n
	}
	return modTime, size, err
}

func TestSkim(t *testing.T) {
	for body, want := range map[string]int64{
		`{"id":1,"mod_time":1700000000001}`:                        1700000000001,
		" {\n\t\"mod_time\" : 5 ,\r\n \"x\" : [1, {\"y\": 2}] }\n": 5,
		`{"mod_time":5}`:                                   5,
		`{"mod_time":-5}`:                                  -5,
		`{"mod_time":1,"mod_time":2}`:                      2,
		`{"x":{"mod_time":1}}`:                             0,
		`{"x":[{"mod_time":1}],"y":"\"mod_time\":3"}`:      0,
		`{"x":"mod_time","y":7}`:                           0,
		`{"mod_time":"5"}`:                                 0,
		`{"mod_time":null}`:                                0,
		`{"mod_time":[5]}`:                                 0,
		`{"mod_time":{"mod_time":5}}`:                      0,
		`{"mod_time":5.5}`:                                 0,
		`{"mod_time":5e3}`:                                 0,
		`{"mod_time":9223372036854775807}`:                 9223372036854775807,
		`{"mod_time":9223372036854775808}`:                 0,
		`{"mod_time":10000000000000000000000000000000005}`: 0,
		`{"mod_time_and_a_lot_more_than_is_kept":5}`:       0,
		`{"":5,"\\":"\\","a\"":"}","mod_time":8}`:          8,
		`{}`:    0,
		` { } `: 0,
	} {
		modTime, size, err := skimModTime(iotest.OneByteReader(strings.NewReader(body)))
		if err != nil || modTime != want || size != int64(len(body)) {
			t.Errorf("%s: %d of %d bytes: %v", body, modTime, size, err)
		}
		// Every part of it is cut short.
		for i := range strings.TrimRight(body, " \n") {
			if _, _, err := skimModTime(strings.NewReader(body[:i])); err == nil {
				t.Errorf("%s: cut to %s it is accepted", body, body[:i])
			}
		}
	}
	for _, body := range []string{``, `[]`, `null`, `"{"`, `<html>`, `{}{}`, `{}x`, `{"a":1]`, `{a:1}`, `{"a" 1}`, `{"a":1 "b":2}`, `{"a":1,}`} {
		if _, _, err := skimModTime(strings.NewReader(body)); err == nil {
			t.Errorf("%s is accepted", body)
		}
	}
}

func TestSkimReportsWhyReadingFailed(t *testing.T) {
	_, _, err := skimModTime(io.MultiReader(strings.NewReader(`{"a":`), iotest.ErrReader(io.ErrClosedPipe)))
	if !errors.Is(err, io.ErrClosedPipe) {
		t.Error(err)
	}
}

func TestSkimFindsTheObjectAtAPath(t *testing.T) {
	for _, test := range []struct {
		path  []string
		body  string
		found bool
		id    string
	}{
		{nil, `{"id":1,"a":{"id":2}}`, true, "1"},
		{[]string{"a"}, `{"id":1,"a":{"id":2},"b":{"id":3}}`, true, "2"},
		{[]string{"a"}, `{"id":1}`, false, ""},
		{[]string{"a"}, `{"b":{"a":{"id":3}}}`, false, ""},
		{[]string{"a", "b"}, `{"b":{"id":1},"a":{"id":2,"b":{"id":3}}}`, true, "3"},
		{[]string{"a"}, `{"a":{"id":1},"a":{"id":2}}`, true, "2"},
		{[]string{firstElement}, `[{"id":1},{"id":2}]`, true, "1"},
		{[]string{firstElement}, `[]`, false, ""},
		{[]string{firstElement, "a"}, `[{"id":1,"a":{"id":2}},{"a":{"id":3}}]`, true, "2"},
		{[]string{"a", firstElement}, `{"x":[{"id":1}],"a":[{"id":"[\"]"},{"id":3}],"id":4}`, true, `"[\"]"`},
		{[]string{"a", firstElement}, `{"a":[]}`, false, ""},
		{[]string{firstElement, firstElement}, `[[{"id":1},{"id":2}],[{"id":3}]]`, true, "1"},
	} {
		t.Run(fmt.Sprint(test.path, " of ", test.body), func(t *testing.T) {
			fields := map[string]string{"id": ""}
			found, size, err := skimJSON(strings.NewReader(test.body), test.path, fields)
			if err != nil || found != test.found || fields["id"] != test.id || size != int64(len(test.body)) {
				t.Errorf("found %t, id %s, %d bytes: %v", found, fields["id"], size, err)
			}
			for i := range test.body {
				if _, _, err := skimJSON(strings.NewReader(test.body[:i]), test.path, fields); err == nil {
					t.Errorf("cut to %s it is accepted", test.body[:i])
				}
			}
		})
	}
	for _, test := range []struct {
		path []string
		body string
	}{
		{[]string{"a"}, `{"a":1}`}, {[]string{"a"}, `{"a":null}`}, {[]string{"a"}, `{"a":[{"id":1}]}`}, {[]string{"a"}, `[]`},
		{[]string{firstElement}, `{"[0]":{"id":1}}`}, {[]string{firstElement}, `[1]`}, {[]string{firstElement}, `[[{"id":1}]]`}, {[]string{firstElement}, `[{}]x`},
		{[]string{"a", firstElement}, `{"a":{"id":1}}`}, {[]string{"a", firstElement}, `{"a":["id"]}`},
	} {
		if found, _, err := skimJSON(strings.NewReader(test.body), test.path, map[string]string{"id": ""}); err == nil {
			t.Errorf("%s of %s is accepted, found %t", test.path, test.body, found)
		}
	}
}

// repeated is an endless stream of one byte.
type repeated byte

func (r repeated) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = byte(r)
	}
	return len(p), nil
}

func TestSkimKeepsNothing(t *testing.T) {
	const much = 512 << 10
	allocated := func(n int64) uint64 {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		body := io.MultiReader(
			strings.NewReader(`{"`), io.LimitReader(repeated('x'), n),
			strings.NewReader(`":"`), io.LimitReader(repeated('x'), n),
			strings.NewReader(`","a":[[`), io.LimitReader(repeated('['), n), io.LimitReader(repeated(']'), n),
			strings.NewReader(`]],"b":1`), io.LimitReader(repeated('0'), n),
			strings.NewReader(`,"mod_time":3}`), io.LimitReader(repeated(' '), n))
		modTime, size, err := skimModTime(body)
		if err != nil || modTime != 3 || size < 6*n {
			t.Fatalf("%d of %d bytes: %v", modTime, size, err)
		}
		runtime.ReadMemStats(&after)
		return after.TotalAlloc - before.TotalAlloc
	}
	if few, many := allocated(1), allocated(much); many > few+much/8 {
		t.Errorf("%d bytes were allocated for little, %d for much", few, many)
	}
}

// modTimeOf is what encoding/json makes of the top-level mod_time.
func modTimeOf(t interface{ Fatal(...any) }, body []byte) int64 {
	var fields map[string]json.RawMessage
	if err := json.Unmarshal(body, &fields); err != nil {
		t.Fatal(err)
	}
	n, err := strconv.ParseInt(string(fields["mod_time"]), 10, 64)
	if err != nil {
		return 0
	}
	return n
}

func TestSkimAgreesWithEncodingJSON(t *testing.T) {
	names := rapid.OneOf(rapid.SampledFrom([]string{"mod_time", "Mod_time", "mod_time ", "id", ""}), rapid.String())
	var value func(depth int) *rapid.Generator[any]
	value = func(depth int) *rapid.Generator[any] {
		scalars := []*rapid.Generator[any]{
			rapid.Just[any](nil), rapid.Bool().AsAny(), rapid.Int64().AsAny(), rapid.Float64().AsAny(), rapid.String().AsAny(),
		}
		if depth == 0 {
			return rapid.OneOf(scalars...)
		}
		inner := rapid.Deferred(func() *rapid.Generator[any] { return value(depth - 1) })
		return rapid.OneOf(append(scalars,
			rapid.SliceOfN(inner, 0, 4).AsAny(), rapid.MapOfN(names, inner, 0, 4).AsAny())...)
	}
	rapid.Check(t, func(t *rapid.T) {
		body, err := json.Marshal(rapid.MapOfN(names, value(3), 0, 6).Draw(t, "object"))
		if err != nil {
			t.Fatal(err)
		}
		if rapid.Bool().Draw(t, "indented") {
			var b bytes.Buffer
			json.Indent(&b, body, " ", "\t")
			body = b.Bytes()
		}
		modTime, size, err := skimModTime(bytes.NewReader(body))
		if err != nil || modTime != modTimeOf(t, body) || size != int64(len(body)) {
			t.Fatalf("%s: %d of %d bytes: %v", body, modTime, size, err)
		}
	})
}

func FuzzSkim(f *testing.F) {
	for _, seed := range []string{`{"mod_time":5}`, `{"a":[{"mod_time":1}],"mod_time": 2 }`, `{"mod_time":"5\\"}`, `{"mod_time":1,"mod_time":[]}`} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		modTime, size, err := skimModTime(bytes.NewReader(body))
		if !json.Valid(body) || bytes.TrimLeft(body, " \t\r\n")[0] != '{' {
			return
		}
		if err != nil || size != int64(len(body)) {
			t.Fatalf("%q: %d bytes, %v", body, size, err)
		}
		// Names that are written with escapes are left alone.
		if !bytes.Contains(body, []byte(`\u`)) && modTime != modTimeOf(t, body) {
			t.Fatalf("%q: %d, want %d", body, modTime, modTimeOf(t, body))
		}
	})
}
