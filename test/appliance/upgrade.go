package appliance

import (
	"bytes"
	"slices"
	"strconv"

	"ndrbridge/internal/jsonscan"
	"ndrbridge/test/appliance/rest"
)

// Upgrade selects how an appliance shows detections, audit log entries and records after an
// upgrade of its firmware: every object has another field and its members in another order,
// and every number is a text. The objects themselves, and what searches find, stay the same.
type Upgrade string

// The upgrades differ in the precision of times.
const (
	NoUpgrade       Upgrade = ""
	UpgradeFraction Upgrade = "fraction" // milliseconds with a fraction
	UpgradeMillis   Upgrade = "millis"   // milliseconds of whole seconds
	UpgradeSeconds  Upgrade = "seconds"  // seconds
)

// Upgrades returns the upgrades, without NoUpgrade.
func Upgrades() []Upgrade { return []Upgrade{UpgradeFraction, UpgradeMillis, UpgradeSeconds} }

// upgraded are the operations whose answers an upgrade changes.
var upgraded = []string{
	"POST /detections/search", "GET /detections", "GET /detections/{id}", "GET /detections/{id}/related",
	"GET /auditlog", "POST /records/search", "POST /records/cursor",
}

// of returns the answer to an operation after the upgrade.
func (u Upgrade) of(operation string, ans rest.Answer) rest.Answer {
	if u == NoUpgrade || ans.ContentType != rest.TypeJSON || !slices.Contains(upgraded, operation) {
		return ans
	}
	ans.Parts = [][]byte{u.append(nil, "", bytes.Join(ans.Parts, nil))}
	return ans
}

// times are the members that are times in milliseconds.
var times = []string{"mod_time", "create_time", "start_time", "end_time", "update_time", "time", "occur_time", "timestamp", "sort"}

// append appends a JSON value, which is the member with a name.
func (u Upgrade) append(dst []byte, name string, value []byte) []byte {
	switch value[0] {
	case '{':
		return u.appendObject(dst, value)
	case '[':
		dst = append(dst, '[')
		for element := range jsonscan.Elements(value) {
			if dst[len(dst)-1] != '[' {
				dst = append(dst, ',')
			}
			dst = u.append(dst, name, element)
		}
		return append(dst, ']')
	}
	if value[0] == '"' || jsonscan.Number(value) == nil {
		return append(dst, value...)
	}
	dst = append(dst, '"')
	if ms, ok := jsonscan.Millis(value); ok && slices.Contains(times, name) {
		dst = u.appendTime(dst, ms, value)
	} else {
		dst = append(dst, value...)
	}
	return append(dst, '"')
}

func (u Upgrade) appendTime(dst []byte, ms int64, value []byte) []byte {
	switch u {
	case UpgradeMillis:
		return strconv.AppendInt(dst, ms/1000*1000, 10)
	case UpgradeSeconds:
		return strconv.AppendInt(dst, ms/1000, 10)
	}
	if dst = append(dst, value...); bytes.IndexByte(value, '.') < 0 {
		dst = append(dst, ".25"...)
	}
	return dst
}

// appendObject appends an object with its members in reverse and another one, unless it is
// a typed value of a record.
func (u Upgrade) appendObject(dst, value []byte) []byte {
	var members [][]byte
	typed := false
	for name, value := range jsonscan.Members(value) {
		typed = typed || string(name) == "value"
		members = append(members, u.append(append(append([]byte{'"'}, name...), `":`...), string(name), value))
	}
	if !typed {
		members = append(members, []byte(`"since_upgrade":{"reviewed":false,"weight":"0.5"}`))
	}
	slices.Reverse(members)
	return append(append(append(dst, '{'), bytes.Join(members, []byte{','})...), '}')
}
