package applications

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"ndrbridge/test/appliance/devices"
	"ndrbridge/test/appliance/expression"
	"ndrbridge/test/appliance/resource"
)

// Query selects applications.
type Query struct {
	From, Until *int64 // in milliseconds; nil: at any time
	SearchType  string // any, name, node, discovery_id or service-id with the product's word; empty: any
	Value       string // that the field must match; empty: anything
	Offset      int64
	Limit       *int64 // nil: none
}

// Find returns the ids of the applications among objects that a query selects, in the same
// order. It returns an error if the value is not a regular expression though it is between
// slashes.
func (q Query) Find(word string, objects []resource.Object, now int64) ([]int64, error) {
	matches, err := q.matcher(word)
	if err != nil {
		return nil, err
	}
	var ids []int64
	for _, object := range objects {
		id := resource.Number(object, "id")
		always := q.From == nil && q.Until == nil
		if matches(object) && (always || slices.ContainsFunc(ActivityOf(word, id, now), q.during)) {
			ids = append(ids, id)
		}
	}
	ids = ids[min(q.Offset, int64(len(ids))):]
	if q.Limit != nil {
		ids = ids[:min(*q.Limit, int64(len(ids)))]
	}
	return ids, nil
}

// during reports whether there was activity in the time of the query.
func (q Query) during(a Activity) bool {
	return (q.From == nil || a.UntilTime >= *q.From) && (q.Until == nil || a.FromTime <= *q.Until)
}

// matcher returns a function that reports whether an application has the value.
func (q Query) matcher(word string) (func(resource.Object) bool, error) {
	equals := func(text string) bool { return text == q.Value }
	contains := func(text string) bool { return strings.Contains(strings.ToLower(text), strings.ToLower(q.Value)) }
	if inner, ok := strings.CutPrefix(q.Value, "/"); ok && strings.HasSuffix(inner, "/") {
		compiled, _, err := expression.Compile(strings.TrimSuffix(inner, "/"))
		if err != nil {
			return nil, fmt.Errorf("value: %w", err)
		}
		equals, contains = compiled.MatchString, compiled.MatchString
	}
	fields := map[string]func(resource.Object) bool{
		"name": func(o resource.Object) bool { return contains(resource.Text(o, "display_name")) },
		"node": func(o resource.Object) bool {
			sensor := resource.Number(o, "node_id")
			return equals(strconv.FormatInt(sensor, 10)) || equals(devices.NodeUUID(sensor))
		},
		"discovery_id": func(o resource.Object) bool { return equals(resource.Text(o, "discovery_id")) },
		word + "-id":   func(o resource.Object) bool { return equals(resource.Text(o, word+"_id")) },
	}
	matches, ok := fields[q.SearchType]
	switch {
	case q.Value == "":
		return func(resource.Object) bool { return true }, nil
	case ok:
		return matches, nil
	}
	return func(o resource.Object) bool {
		for _, matches := range fields {
			if matches(o) {
				return true
			}
		}
		return false
	}, nil
}
