package format

import (
	"bytes"
	"iter"
	"strconv"

	"ndrbridge/internal/jsonscan"
	"ndrbridge/transform"
)

// participant is a participant of a detection, as JSON values; one that is no object has
// only itself.
type participant struct {
	json                         []byte
	id, role, endpoint, external []byte
	object, kind, value, host    []byte // the object that it is
	user, usernames              []byte
}

func (p *participant) isObject() bool { return p.json[0] == '{' }

// participants yields the participants of an array that are not null, by their indexes.
func participants(array []byte) iter.Seq2[int, *participant] {
	return func(yield func(int, *participant) bool) {
		i := 0
		for element := range elements(array) {
			if string(element) == "null" {
				continue
			}
			if !yield(i, parseParticipant(element)) {
				return
			}
			i++
		}
	}
}

// parseParticipant returns the values of a participant; those that are null are nil.
func parseParticipant(object []byte) *participant {
	p := &participant{json: object}
	for name, value := range jsonscan.Members(object) {
		if string(value) == "null" {
			continue
		}
		switch string(name) {
		case "id":
			p.id = value
		case "role":
			p.role = value
		case "object_id":
			p.object = value
		case "object_type":
			p.kind = value
		case "object_value":
			p.value = value
		case "hostname":
			p.host = value
		case "username":
			p.user = value
		case "usernames":
			p.usernames = value
		case "external":
			p.external = value
		case "endpoint":
			p.endpoint = value
		}
	}
	return p
}

// side returns the field of an evidence that has the participant.
func (p *participant) side() string {
	switch string(p.role) {
	case `"offender"`:
		return "src_endpoint"
	case `"victim"`:
		return "dst_endpoint"
	}
	return "device"
}

var (
	resourceRole = words(whole, []wordIn{{"offender", choice{"2", "Actor"}}, {"victim", choice{"1", "Target"}}, {"*", choice{"4", "Related"}}})
	networkScope = words(whole, []wordIn{{"true", choice{"2", "External"}}, {"false", choice{"1", "Internal"}}})

	resourceRoleID, resourceRoleName = resourceRole.id(), resourceRole.caption()
	networkScopeID, networkScopeName = networkScope.id(), networkScope.caption()
)

// oneAddress is an address, or the first one of an array.
var oneAddress = firstOf(address)

// evidences converts an array of participants, a client's port and a server's port: each
// participant with its endpoint, and as it is. Ports that belong to none of them are in an
// element of their own.
func evidences(dst, value []byte) ([]byte, fit) {
	values := elementsOf(value) // participants, the ports
	start := len(dst)
	dst = append(dst, '[')
	var placed [2]bool
	if values[0] != nil {
		for _, p := range participants(values[0]) {
			dst = append(transform.AppendComma(dst), '{')
			if p.isObject() {
				dst = appendEvidence(dst, p, values[1:3], &placed)
			}
			dst, _ = appendField(dst, "data", raw, p.json)
			dst = append(dst, '}')
		}
	}
	if values[1] != nil && !placed[0] || values[2] != nil && !placed[1] {
		dst = append(transform.AppendComma(dst), `{"name":"ports","data":{`...)
		dst, _ = appendField(dst, "client_port", raw, values[1])
		dst, _ = appendField(dst, "server_port", raw, values[2])
		dst = append(dst, `}}`...)
	}
	if len(dst) == start+1 {
		return dst, none
	}
	return append(dst, ']'), whole
}

// appendEvidence appends the members of a participant's evidence but data.
func appendEvidence(dst []byte, p *participant, ports [][]byte, placed *[2]bool) []byte {
	dst, _ = appendField(dst, "uid", text, p.id)
	side := p.side()
	dst = appendInner(dst, side, func(dst []byte) []byte {
		start := len(dst)
		dst, _ = appendField(dst, "ip", oneAddress, p.value)
		dst, _ = appendField(dst, "hostname", text, p.host)
		dst, _ = appendField(dst, "uid", text, p.object)
		if len(dst) == start {
			return dst // the others are not enough
		}
		if side == "device" {
			return append(dst, `,"type_id":0,"type":"Unknown"`...)
		}
		dst, _ = appendField(dst, "network_scope_id", networkScopeID, p.external)
		dst, _ = appendField(dst, "network_scope", networkScopeName, p.external)
		for i, of := range []string{`"client"`, `"server"`} {
			if string(p.endpoint) == of {
				var f fit
				dst, f = appendField(dst, "port", port, ports[i])
				placed[i] = placed[i] || f == whole
			}
		}
		return dst
	})
	return appendInner(dst, "user", func(dst []byte) []byte {
		dst, _ = appendField(dst, "name", text, p.user)
		return dst
	})
}

// resources converts participants: what they are in an inventory.
func resources(dst, value []byte) ([]byte, fit) {
	start := len(dst)
	dst = append(dst, '[')
	for _, p := range participants(value) {
		if !p.isObject() {
			continue
		}
		object := len(dst)
		dst = append(transform.AppendComma(dst), '{')
		empty := len(dst)
		dst, _ = appendField(dst, "uid", text, p.object)
		var name fit
		if dst, name = appendField(dst, "name", text, p.host); name == none {
			dst, _ = appendField(dst, "name", oneAddress, p.value)
		}
		if len(dst) == empty {
			dst = dst[:object]
			continue
		}
		dst, _ = appendField(dst, "hostname", text, p.host)
		dst, _ = appendField(dst, "ip", oneAddress, p.value)
		dst, _ = appendField(dst, "type", text, p.kind)
		dst = appendInner(dst, "owner", func(dst []byte) []byte {
			dst, _ = appendField(dst, "name", text, p.user)
			return dst
		})
		dst, _ = appendField(dst, "role_id", resourceRoleID, p.role)
		dst, _ = appendField(dst, "role", resourceRoleName, p.role)
		dst = append(dst, '}')
	}
	if len(dst) == start+1 {
		return dst, none
	}
	return append(dst, ']'), part
}

// observables converts participants: the addresses and names that one searches for.
func observables(dst, value []byte) ([]byte, fit) {
	start := len(dst)
	dst = append(dst, '[')
	for i, p := range participants(value) {
		if !p.isObject() {
			continue
		}
		side := p.side()
		dst = appendObservable(dst, start, i, side, "ip", 2, "IP Address", oneAddress, p.value)
		dst = appendObservable(dst, start, i, side, "hostname", 1, "Hostname", text, p.host)
		dst = appendObservable(dst, start, i, "user", "name", 4, "User Name", text, p.user)
		if p.usernames != nil && string(p.usernames) != "null" {
			for name := range elements(p.usernames) {
				dst = appendObservable(dst, start, i, "data", "usernames", 4, "User Name", text, name)
			}
		}
	}
	if len(dst) == start+1 {
		return dst, none
	}
	return append(dst, ']'), part
}

// appendObservable appends an observable to the array that begins at first, unless it is
// there already. The element is the i-th evidence.
func appendObservable(dst []byte, first, i int, object, field string, id int, kind string, as conversion, value []byte) []byte {
	if value == nil || string(value) == "null" {
		return dst
	}
	start := len(dst)
	dst = append(transform.AppendComma(dst), `{"type_id":`...)
	dst = strconv.AppendInt(dst, int64(id), 10)
	dst = append(append(append(dst, `,"type":"`...), kind...), `","value":`...)
	kindAndValue := start + 1
	if start == first+1 {
		kindAndValue = start // without a comma
	}
	dst, f := as(dst, value)
	if f == none || start-first < maxSearched && bytes.Contains(dst[first:start], dst[kindAndValue:]) {
		return dst[:start]
	}
	dst = append(dst, `,"name":"evidences[`...)
	dst = strconv.AppendInt(dst, int64(i), 10)
	return append(append(append(append(append(dst, `].`...), object...), '.'), field...), `"}`...)
}

// maxSearched is the longest array that is searched for every element, in bytes.
const maxSearched = 8 << 10

// appendInner appends a member that is an object, if members appends any to it.
func appendInner(object []byte, name string, members func(dst []byte) []byte) []byte {
	start := len(object)
	object = append(append(append(transform.AppendComma(object), '"'), name...), `":{`...)
	empty := len(object)
	if object = members(object); len(object) == empty {
		return object[:start]
	}
	return append(object, '}')
}
