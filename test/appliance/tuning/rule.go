// Package tuning decides which detections a tuning rule of the stand-in appliance hides.
package tuning

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"ndrbridge/test/appliance/resource"
)

// The detection types of rules that cover all types of a module.
const (
	AllSecurity    = "all_security"
	AllPerformance = "all_performance"
)

// Subject is a detection as a rule sees it.
type Subject struct {
	Participants []Participant
	// Properties are the detection's properties as encoding/json decodes them, with numbers
	// as json.Number.
	Properties map[string]any
}

// Participant is a participant of a detection.
type Participant struct {
	Role     string     // offender or victim
	Device   int64      // 0: it is not a device
	Address  netip.Addr // invalid: unknown
	External bool
	Scanner  string // the scanner service; empty: none
}

// Rule is a compiled tuning rule. It is immutable.
type Rule struct {
	kind             string
	enabled          bool
	expiration       int64
	offender, victim criterion
	properties       []property
}

// Compile returns the rule that an object of the component TuningRule describes. It returns an
// error if the object fits the description, but has no meaning.
func Compile(object resource.Object) (*Rule, error) {
	r := &Rule{
		kind:       resource.Text(object, "detection_type"),
		enabled:    object["enabled"] == true,
		expiration: resource.Number(object, "expiration"),
	}
	var err error
	if r.offender, err = compileCriterion(object["offender"]); err != nil {
		return nil, fmt.Errorf("offender.%w", err)
	}
	if r.victim, err = compileCriterion(object["victim"]); err != nil {
		return nil, fmt.Errorf("victim.%w", err)
	}
	filters, _ := object["properties"].([]any)
	for i, filter := range filters {
		p, err := compileProperty(filter)
		if err != nil {
			return nil, fmt.Errorf("properties.%d.%w", i, err)
		}
		r.properties = append(r.properties, p)
	}
	return r, nil
}

// Active reports whether the rule hides what it matches at a time in milliseconds.
func (r *Rule) Active(now int64) bool {
	return r.enabled && (r.expiration == 0 || now < r.expiration)
}

// Covers reports whether the rule is for detections of a type with some categories. Only
// these can match.
func (r *Rule) Covers(kind string, categories []string) bool {
	switch r.kind {
	case AllSecurity:
		return slices.ContainsFunc(categories, below("sec"))
	case AllPerformance:
		return slices.ContainsFunc(categories, below("perf"))
	}
	return r.kind == kind
}

func below(module string) func(category string) bool {
	return func(category string) bool { return category == module || strings.HasPrefix(category, module+".") }
}

// Match reports whether a detection that the rule covers matches it, and how many of its
// participants match the offender or the victim. member reports whether a device is in a
// device group.
func (r *Rule) Match(s *Subject, member func(group, device int64) bool) (participants int, ok bool) {
	offenders := r.offender.count(s, "offender", member)
	victims := r.victim.count(s, "victim", member)
	if offenders == 0 && !r.offender.any || victims == 0 && !r.victim.any {
		return 0, false
	}
	for _, p := range r.properties {
		if !p.matches(s.Properties) {
			return 0, false
		}
	}
	return offenders + victims, true
}

// Groups returns the device groups that the rule refers to.
func (r *Rule) Groups() []int64 {
	var groups []int64
	for _, c := range []criterion{r.offender, r.victim} {
		if c.group != 0 {
			groups = append(groups, c.group)
		}
	}
	return groups
}

// criterion is a criterion for participants.
type criterion struct {
	any   bool  // every detection matches
	group int64 // a device group; 0: none
	// matches reports whether a participant matches; nil if group is set.
	matches func(Participant) bool
}

// count returns the number of participants with a role that match.
func (c criterion) count(s *Subject, role string, member func(group, device int64) bool) (n int) {
	for _, p := range s.Participants {
		if p.Role != role {
			continue
		}
		if c.any || c.group != 0 && p.Device != 0 && member(c.group, p.Device) || c.matches != nil && c.matches(p) {
			n++
		}
	}
	return n
}

// localities are the network localities, by id.
var localities = map[int64]netip.Prefix{
	1: netip.MustParsePrefix("10.0.0.0/8"),
	2: netip.MustParsePrefix("172.16.0.0/12"),
	3: netip.MustParsePrefix("192.168.0.0/16"),
}

func compileCriterion(value any) (criterion, error) {
	object, ok := value.(resource.Object)
	if !ok {
		return criterion{any: true}, nil // the only other value is Any
	}
	id := resource.Number(object, "object_id")
	switch resource.Text(object, "object_type") {
	case "device":
		return criterion{matches: func(p Participant) bool { return p.Device == id }}, nil
	case "device_group":
		return criterion{group: id}, nil
	case "network_locality":
		block, ok := localities[id]
		if !ok {
			return criterion{}, fmt.Errorf("object_id: no network locality has the id %d", id)
		}
		return criterion{matches: func(p Participant) bool { return block.Contains(p.Address) }}, nil
	case "ipaddr":
		blocks, err := parseBlocks(texts(object["object_value"]))
		if err != nil {
			return criterion{}, fmt.Errorf("object_value: %w", err)
		}
		return criterion{matches: func(p Participant) bool {
			return slices.ContainsFunc(blocks, func(b netip.Prefix) bool { return b.Contains(p.Address) })
		}}, nil
	case "locality_type":
		external := object["object_locality"] == "external"
		return criterion{matches: func(p Participant) bool { return p.External == external }}, nil
	case "scanner_service":
		scanners := texts(object["object_scanner"])
		return criterion{matches: func(p Participant) bool {
			return p.Scanner != "" && (slices.Contains(scanners, "Any") || slices.Contains(scanners, p.Scanner))
		}}, nil
	}
	return criterion{}, errors.New("object_type: unknown")
}

// texts returns a string, or the strings of an array.
func texts(value any) []string {
	list, ok := value.([]any)
	if !ok {
		list = []any{value}
	}
	var found []string
	for _, element := range list {
		if text, ok := element.(string); ok {
			found = append(found, text)
		}
	}
	return found
}

func parseBlocks(list []string) ([]netip.Prefix, error) {
	blocks := make([]netip.Prefix, len(list))
	for i, text := range list {
		block, ok := parseBlock(text)
		if !ok {
			return nil, fmt.Errorf("%q is neither an IP address nor a CIDR block", text)
		}
		blocks[i] = block
	}
	return blocks, nil
}

// parseBlock parses an address or a block.
func parseBlock(text string) (netip.Prefix, bool) {
	if address, err := netip.ParseAddr(text); err == nil {
		address = address.Unmap()
		return netip.PrefixFrom(address, address.BitLen()), address.Zone() == ""
	}
	block, err := netip.ParsePrefix(text)
	return block.Masked(), err == nil
}
