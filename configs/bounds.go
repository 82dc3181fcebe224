package configs

import (
	"cmp"
	"fmt"
	"math"
	"reflect"
)

// bounds holds the limits of a number, a duration or a size in the form of the tags. An
// empty limit is none.
type bounds struct {
	min, max string // inclusive
	above    string // exclusive
}

// bounds checks a value. A nil pointer is not checked.
func (c checks) bounds(path string, b bounds, value reflect.Value) {
	if b == (bounds{}) {
		return
	}
	if value.Kind() == reflect.Pointer {
		if value.IsNil() {
			return
		}
		value = value.Elem()
	}
	against := func(limit string) int { return compare(value, parsed(value.Type(), limit)) }
	under := b.min != "" && against(b.min) < 0
	over := b.max != "" && against(b.max) > 0
	switch {
	case value.Kind() == reflect.Float64 && (math.IsNaN(value.Float()) || math.IsInf(value.Float(), 0)):
		c.wrong(path, "is %v; write a number", value)
	case b.above != "" && against(b.above) <= 0:
		c.wrong(path, "is %v; it must be above %s", value, b.above)
	case (under || over) && b.min != "" && b.max != "":
		c.wrong(path, "is %v; it must be between %s and %s", value, b.min, b.max)
	case over:
		c.wrong(path, "is %v; it must be at most %s", value, b.max)
	case under && b.min == "0":
		c.wrong(path, "is %v; it must be 0 or more", value)
	case under:
		c.wrong(path, "is %v; it must be at least %s", value, b.min)
	}
}

// parsed returns the limit as a value of type t.
func parsed(t reflect.Type, limit string) reflect.Value {
	value := reflect.New(t).Elem()
	if err := setText(value, limit); err != nil {
		panic(fmt.Sprintf("configs: bound %s: %v", limit, err))
	}
	return value
}

func compare(a, b reflect.Value) int {
	if a.Kind() == reflect.Float64 {
		return cmp.Compare(a.Float(), b.Float())
	}
	return cmp.Compare(a.Int(), b.Int())
}
