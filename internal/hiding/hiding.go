// Package hiding decides which detections a tuning rule of an appliance hides, as far as the
// bridge knows, and makes the rule that hides a detection.
package hiding

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"ndrbridge/internal/jsonscan"
	"ndrbridge/transform"
)

// Rule is a tuning rule as far as it decides which detections it hides, and what identifies it. It is
// immutable. ParseRule of package transform returns all of a rule, as events show it.
type Rule struct {
	ID                  int64  // 0: it has no valid one
	Description, Author string // the first 500 bytes
	Enabled             bool
	Expiration          int64 // when it ends, in milliseconds since the epoch; 0: never

	Types            []string // of detections; all_security and all_performance are all of a module
	Offender, Victim Criterion
	Properties       bool // it depends on the detection's properties, which are not compared
}

// modules are the modules of detections, by the type of the rules that are for all of one.
var modules = map[string]string{"all_security": "sec", "all_performance": "perf"}

// Parse returns the rule that a JSON object of the appliance describes.
func Parse(object []byte) (r Rule) {
	r.Enabled = true
	for name, value := range jsonscan.Members(object) {
		switch string(name) {
		case "id":
			r.ID, _ = jsonscan.Integer(value)
		case "description":
			r.Description = cut(transform.Text(value))
		case "author":
			r.Author = cut(transform.Text(value))
		case "enabled":
			r.Enabled = string(value) != "false"
		case "expiration":
			r.Expiration, _ = jsonscan.Millis(value) // 0 if it is null
		case "detection_type":
			r.Types = append(r.Types, transform.Text(value))
		case "detection_types":
			for kind := range jsonscan.Elements(value) {
				r.Types = append(r.Types, transform.Text(kind))
			}
		case "offender":
			r.Offender = parseCriterion(value)
		case "victim":
			r.Victim = parseCriterion(value)
		case "properties":
			for range jsonscan.Elements(value) {
				r.Properties = true
			}
		}
	}
	return r
}

// cut bounds a text that an appliance returned.
func cut(text string) string {
	return strings.ToValidUTF8(text[:min(len(text), 500)], "")
}

// Answer says whether a rule hides a detection.
type Answer int

const (
	No    Answer = iota
	Maybe        // it depends on something that is not known
	Yes
)

// Hides reports whether the rule hides a detection while it is active. The answer is Maybe if that
// depends on properties, on something about participants that a detection does not contain, such as
// their device groups, or on participants that are not known.
func (r Rule) Hides(d transform.Detection) Answer {
	if !r.covers(d) {
		return No
	}
	answer := Yes
	if r.Properties {
		answer = Maybe
	}
	return min(answer, r.Offender.matches(d, "offender"), r.Victim.matches(d, "victim"))
}

// covers reports whether the rule is for detections like d.
func (r Rule) covers(d transform.Detection) bool {
	return slices.ContainsFunc(r.Types, func(kind string) bool {
		if module, all := modules[kind]; all {
			return isOf(d, module)
		}
		return kind != "" && kind == d.Type()
	})
}

func isOf(d transform.Detection, module string) bool {
	for category := range d.Categories() {
		if category == module || strings.HasPrefix(category, module+".") {
			return true
		}
	}
	return false
}

// Criterion selects detections by their offenders or their victims. It is immutable.
type Criterion struct {
	written json.RawMessage // in a rule
	text    string          // for people
	any     bool            // whoever takes part
	device  int64           // its id
	blocks  []netip.Prefix  // of addresses; without a device, it depends on what is not known
}

// Any selects every detection.
var Any = Criterion{written: json.RawMessage(`"Any"`), text: "any", any: true}

// MarshalJSON returns the criterion as rules of the appliance have it.
func (c Criterion) MarshalJSON() ([]byte, error) { return c.written, nil }

// String returns the criterion for people: any, device 12, or an address.
func (c Criterion) String() string { return c.text }

func parseCriterion(value []byte) Criterion {
	if strings.EqualFold(transform.Text(value), "any") {
		return Any
	}
	c := Criterion{written: value, text: string(value)}
	switch transform.Text(jsonscan.At(value, "object_type")) {
	case "device":
		c.device, _ = jsonscan.Integer(jsonscan.At(value, "object_id"))
		c.text = fmt.Sprintf("device %d", c.device)
	case "ipaddr":
		values := jsonscan.At(value, "object_value")
		c.text = transform.Text(values)
		if c.text != "" {
			values = slices.Concat([]byte("["), values, []byte("]"))
		}
		for text := range jsonscan.Elements(values) {
			block, err := parseBlock(transform.Text(text))
			if err != nil {
				c.blocks = nil
				break
			}
			c.blocks = append(c.blocks, block)
		}
	}
	return c
}

// parseBlock parses an address or a CIDR block.
func parseBlock(text string) (netip.Prefix, error) {
	if strings.Contains(text, "/") {
		return netip.ParsePrefix(text)
	}
	address, err := netip.ParseAddr(text)
	address = address.Unmap()
	return netip.PrefixFrom(address, address.BitLen()), err
}

// matches reports whether one of a detection's participants with a role matches.
func (c Criterion) matches(d transform.Detection, role string) Answer {
	participants := d.Participants()
	switch {
	case c.any:
		return Yes
	case participants == nil:
		return Maybe
	}
	answer := No
	for participant := range jsonscan.Elements(participants) {
		if p := parseParticipant(participant); p.role == role {
			answer = max(answer, c.selects(p))
		}
	}
	return answer
}

func (c Criterion) selects(p participant) Answer {
	var matches bool
	switch {
	case c.device != 0:
		matches = p.device == c.device
	case c.blocks != nil:
		matches = slices.ContainsFunc(c.blocks, func(b netip.Prefix) bool { return b.Contains(p.address) })
	default:
		return Maybe
	}
	if matches {
		return Yes
	}
	return No
}

// participant is a participant of a detection.
type participant struct {
	role    string     // offender or victim
	device  int64      // 0: it is not a device
	address netip.Addr // invalid: unknown
}

func parseParticipant(object []byte) (p participant) {
	kind := ""
	for name, value := range jsonscan.Members(object) {
		switch string(name) {
		case "role":
			p.role = transform.Text(value)
		case "object_type":
			kind = transform.Text(value)
		case "object_id":
			p.device, _ = jsonscan.Integer(value)
		case "object_value":
			address, _ := netip.ParseAddr(transform.Text(value))
			p.address = address.Unmap()
		}
	}
	if kind != "device" {
		p.device = 0
	}
	return p
}

// Scope is how much a rule hides that is made to hide a detection.
type Scope struct {
	AnyOffender, AnyVictim bool // instead of the detection's
	AllTypes               bool // of the detection's module, instead of its type
}

// ErrEverything is the error of a scope that limits nothing.
var ErrEverything = errors.New("would hide everything: limit the types, the offender or the victim")

// Check returns ErrEverything if the scope limits nothing.
func (s Scope) Check() error {
	if s.AnyOffender && s.AnyVictim && s.AllTypes {
		return ErrEverything
	}
	return nil
}

// Of returns the rule of this scope that hides d, and others with the same participant: the first
// device with the role or, without one, the first address. The error says what d lacks for it.
func (s Scope) Of(d transform.Detection) (r Rule, err error) {
	if err := s.Check(); err != nil {
		return r, err
	}
	kind := d.Type()
	switch {
	case !s.AllTypes:
	case isOf(d, modules["all_security"]):
		kind = "all_security"
	case isOf(d, modules["all_performance"]):
		kind = "all_performance"
	default:
		return r, fmt.Errorf("detection %d is neither of security nor of performance: hide its type instead", d.ID)
	}
	if kind == "" {
		return r, fmt.Errorf("detection %d has no type", d.ID)
	}
	r.Types = []string{kind}
	if r.Offender, err = asDetected(d, "offender", s.AnyOffender); err == nil {
		r.Victim, err = asDetected(d, "victim", s.AnyVictim)
	}
	return r, err
}

// asDetected returns the criterion that selects a participant of d.
func asDetected(d transform.Detection, role string, anyone bool) (c Criterion, err error) {
	if anyone {
		return Any, nil
	}
	var device, address string
	for participant := range jsonscan.Elements(d.Participants()) {
		p := parseParticipant(participant)
		switch {
		case p.role != role:
		case p.device != 0 && device == "":
			device = fmt.Sprintf(`{"object_type":"device","object_id":%d}`, p.device)
		case p.address.IsValid() && p.address.Zone() == "" && address == "":
			address = fmt.Sprintf(`{"object_type":"ipaddr","object_value":%q}`, p.address)
		}
	}
	written := cmp.Or(device, address)
	if written == "" {
		return c, fmt.Errorf("detection %d has no %s that is a device or has an address: let the %[2]s be any", d.ID, role)
	}
	return parseCriterion([]byte(written)), nil
}
