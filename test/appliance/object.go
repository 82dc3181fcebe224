package appliance

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
)

// object is the JSON object of a request's body. Decoding a field removes it; the
// remaining fields are unknown ones. Unlike a struct it distinguishes null from absent.
type object map[string]json.RawMessage

func parseObject(b []byte) (object, error) {
	var o object
	if err := json.Unmarshal(b, &o); err != nil || o == nil {
		return nil, errors.New("the body is not a JSON object")
	}
	return o, nil
}

// take decodes a field, into a pointer if null is allowed, and reports whether the field
// is present.
func (o object) take(name string, into any) (bool, error) {
	raw, ok := o[name]
	if !ok {
		return false, nil
	}
	delete(o, name)
	if err := json.Unmarshal(raw, into); err != nil {
		return true, fmt.Errorf("%s: wrong type", name)
	}
	return true, nil
}

// takeOptional is like take, but null counts as absent.
func (o object) takeOptional(name string, into any) (bool, error) {
	if bytes.Equal(o[name], []byte("null")) {
		delete(o, name)
	}
	return o.take(name, into)
}

// end returns an error if a field was not taken.
func (o object) end(where string) error {
	if len(o) == 0 {
		return nil
	}
	return fmt.Errorf("unknown field %s%s", where, slices.Sorted(maps.Keys(o))[0])
}

// firstOf returns the first error that is not nil.
func firstOf(errs []error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}
