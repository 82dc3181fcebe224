// Package alerts implements what the stand-in appliance computes about alerts and the
// intervals that suppress them.
package alerts

import (
	"errors"
	"strings"

	"ndrbridge/test/appliance/resource"
	"ndrbridge/test/appliance/rest"
)

// Kind describes alerts.
func Kind() resource.Kind {
	return resource.Kind{
		Path: "/alerts", Name: "alert", Component: "Alert", Unique: []string{"name"},
		Complete: func(r *rest.Request, alert resource.Object) {
			author(r, alert)
			switch {
			case alert["type"] == "threshold":
				fill(alert, resource.Object{"units": "none", "param": resource.Object{}})
			case alert["type"] == "detection":
				fill(alert, resource.Object{"protocols": []any{}, "categories": []any{}})
			}
		},
	}
}

// IntervalKind describes exclusion intervals.
func IntervalKind() resource.Kind {
	return resource.Kind{
		Path: "/exclusionintervals", Name: "exclusion interval", Component: "ExclusionInterval", Unique: []string{"name"},
		Complete: author,
		Check: func(_ *rest.Request, _, interval resource.Object) error {
			start, end := resource.Number(interval, "start"), resource.Number(interval, "end")
			switch {
			case start == end:
				return errors.New("end: must not be start")
			case end < start && interval["interval_type"] == "onetime":
				return errors.New("end: must be after start, unless the interval repeats")
			}
			return nil
		},
	}
}

// author sets the author of a new object that names none.
func author(r *rest.Request, object resource.Object) {
	fill(object, resource.Object{"author": r.Caller.Name})
}

// fill sets the fields of an object that are absent or null.
func fill(object, fields resource.Object) {
	for name, value := range fields {
		if object[name] == nil {
			object[name] = value
		}
	}
}

// Seeds returns the alerts that an appliance has from the start. word is the product's.
func Seeds(word string) []resource.Object {
	const released = 1646092800000
	return []resource.Object{
		{
			"name": "Share of failed web requests", "description": "More than one in twenty responses of a web server is an error.",
			"author": "System", "type": "threshold", "disabled": true, "severity": int64(3), "cc": []any{}, "apply_all": true, "mod_time": int64(released),
			"stat_name": word + ".device.http_server", "field_name": "rsp_error", "field_op": "/", "field_name2": "rsp",
			"operator": ">", "operand": "0.05", "param": resource.Object{}, "param2": resource.Object{},
			"interval_length": int64(300), "units": "none",
		},
		{
			"name": "Signs of ransomware", "description": "A device is part of a detection of ransomware.",
			"author": "System", "type": "detection", "severity": int64(1), "cc": []any{}, "apply_all": true, "mod_time": int64(released),
			"object_type": "device", "protocols": []any{}, "categories": []any{"sec.ransomware"},
		},
	}
}

// AppliesToAll reports whether an alert applies to all objects of a kind, application or
// device, without being assigned to them.
func AppliesToAll(alert resource.Object, kind string) bool {
	if alert["apply_all"] != true {
		return false
	}
	if alert["type"] == "detection" {
		return alert["object_type"] == kind
	}
	_, rest, _ := strings.Cut(resource.Text(alert, "stat_name"), ".")
	object, _, _ := strings.Cut(rest, ".")
	return object == kind
}
