package appliance

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"
)

// object is the JSON object of a request's body. Decoding a field removes it; the
// remaining fields are unknown ones. Unlike a struct it distinguishes null from absent.
type object struct {
	fields map[string]json.RawMessage
	err    error // the first
}

func parseObject(b []byte) (*object, error) {
	o := new(object)
	if err := json.Unmarshal(b, &o.fields); err != nil || o.fields == nil {
		return nil, errors.New("the body is not a JSON object")
	}
	return o, nil
}

// UnmarshalJSON implements json.Unmarshaler.
func (o *object) UnmarshalJSON(b []byte) error { return json.Unmarshal(b, &o.fields) }

// take decodes a field, into a pointer if null is allowed, and reports whether the field
// is present and has the right type.
func (o *object) take(name string, into any) bool {
	raw, ok := o.fields[name]
	if !ok {
		return false
	}
	delete(o.fields, name)
	if err := json.Unmarshal(raw, into); err != nil {
		o.fail("%s: wrong type", name)
		return false
	}
	return true
}

// takeOptional is like take, but null counts as absent.
func (o *object) takeOptional(name string, into any) bool {
	if bytes.Equal(o.fields[name], []byte("null")) {
		delete(o.fields, name)
	}
	return o.take(name, into)
}

// takeTime decodes a time of a request received at the time now, in milliseconds.
func (o *object) takeTime(name string, now time.Time, into *int64) bool {
	var raw json.RawMessage
	if !o.takeOptional(name, &raw) {
		return false
	}
	at, err := parseTime(raw, now)
	if err != nil {
		o.fail("%s: %w", name, err)
		return false
	}
	*into = at
	return true
}

// fail makes the object invalid, unless it is already.
func (o *object) fail(format string, args ...any) {
	if o.err == nil {
		o.err = fmt.Errorf(format, args...)
	}
}

// end returns the first error: a field was invalid, or not taken. where precedes the name of
// the latter.
func (o *object) end(where string) error {
	if len(o.fields) > 0 {
		o.fail("unknown field %s%s", where, slices.Sorted(maps.Keys(o.fields))[0])
	}
	return o.err
}
