// Package topology computes which devices of the stand-in appliance's network talk to which,
// and the walks of activity maps through them. The network is simulated: its activity depends
// on nothing but the devices and the time.
package topology

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"time"
)

// Limits of a query and its result.
const (
	// MaxSteps is the number of steps that the walks of a query may have in all.
	MaxSteps = 50
	// MaxGroups is the number of different device groups that they may refer to.
	MaxGroups   = 20
	maxEdges    = 10_000
	kept        = 30 * 24 * time.Hour // how long activity is known
	maxWarnings = 100
)

// Device is a device of the network.
type Device struct {
	ID          int64    // its upper 32 bits are the sensor's
	Categories  []string // of its metrics, as in http_server
	From, Until int64    // when it was there, in milliseconds since the epoch
}

// Network is what walks go through. It must be safe for concurrent use.
type Network interface {
	// Devices returns the devices whose activity is known. The caller owns them.
	Devices() []Device
	// HasDevice reports whether there is a device with an id.
	HasDevice(id int64) bool
	// HasGroup reports whether there is a device group with an id.
	HasGroup(id int64) bool
	// Members returns the ids of the devices of a group.
	Members(group int64) []int64
}

// Query is a question for a topology.
type Query struct {
	From, Until int64    // milliseconds since the epoch; Until is at most the present
	Weighting   string   // bytes, connections or turns
	Annotations []string // protocols, appearances
	Walks       []Walk
}

// Walk starts from devices and expands to their peers, step by step.
type Walk struct {
	Origins []Source `json:"origins"`
	Steps   []Step   `json:"steps"`
}

// Step is an expansion of a walk.
type Step struct {
	Relationships []Relationship `json:"relationships"`
	PeerIn        []Source       `json:"peer_in"`
	PeerNotIn     []Source       `json:"peer_not_in"`
}

// Source is a device, a device_group, or all_devices.
type Source struct {
	ObjectType string `json:"object_type"`
	ObjectID   int64  `json:"object_id"`
}

// Relationship is a kind of activity between a device and its peer.
type Relationship struct {
	Protocol string `json:"protocol"` // of any layer; empty: any protocol
	Role     string `json:"role"`     // of the peer: client, server or any; empty: any
}

// Result is the answer to a query.
type Result struct {
	From     int64     `json:"from"`
	Until    int64     `json:"until"`
	Warnings []Warning `json:"warnings"`
	Edges    []Edge    `json:"edges"`
}

// Warning is a reason why a result is not complete.
type Warning struct {
	Type    string `json:"type"`
	Message string `json:"message"`
}

// Edge is the activity between two devices.
type Edge struct {
	From        int64        `json:"from"` // the client
	To          int64        `json:"to"`   // the server
	Weight      int64        `json:"weight"`
	Annotations *Annotations `json:"annotations,omitempty"`
}

// Annotations are what a query asks for in addition.
type Annotations struct {
	Protocols   []Protocol   `json:"protocols,omitempty"`
	Appearances []Appearance `json:"appearances,omitempty"`
}

// Protocol is what a protocol contributes to an edge.
type Protocol struct {
	Protocol []string `json:"protocol"`
	Weight   int64    `json:"weight"`
}

// Appearance is a step that found an edge.
type Appearance struct {
	Walk int `json:"walk"`
	Step int `json:"step"`
}

// Run answers a query at the time now.
func Run(n Network, q Query, now int64) Result {
	// A range is at most as long as activity is known, which bounds the weights.
	q.Until = min(q.Until, now)
	q.From = min(max(q.From, now-kept.Milliseconds()), q.Until)
	w := walker{
		query: q, network: n, graph: newGraph(n.Devices()),
		members: make(map[int64]set), edges: make(map[pair]*edge),
	}
	w.result = Result{From: q.From, Until: q.Until, Warnings: []Warning{}, Edges: []Edge{}}
	for i, walk := range q.Walks {
		reached := w.resolve(walk.Origins)
		for j, step := range walk.Steps {
			reached = w.expand(reached, step, Appearance{i, j})
		}
	}
	return w.finish()
}

// Check returns an error if a source of a walk does not exist, or there are too many steps or
// groups.
func Check(n Network, walks []Walk) error {
	c := checker{network: n, groups: make(set)}
	for i, walk := range walks {
		c.check(walk.Origins, fmt.Sprintf("walks.%d.origins", i))
		c.steps += len(walk.Steps)
		for j, step := range walk.Steps {
			where := fmt.Sprintf("walks.%d.steps.%d.", i, j)
			c.check(step.PeerIn, where+"peer_in")
			c.check(step.PeerNotIn, where+"peer_not_in")
		}
	}
	switch {
	case c.err != nil:
		return c.err
	case c.steps > MaxSteps:
		return fmt.Errorf("walks: they have %d steps, which is more than %d", c.steps, MaxSteps)
	case len(c.groups) > MaxGroups:
		return fmt.Errorf("walks: they refer to %d device groups, which is more than %d", len(c.groups), MaxGroups)
	}
	return nil
}

// checker checks the walks of a query.
type checker struct {
	network Network
	steps   int
	groups  set
	err     error // the first
}

func (c *checker) check(sources []Source, where string) {
	for i, s := range sources {
		exists := true
		switch s.ObjectType {
		case "device":
			exists = c.network.HasDevice(s.ObjectID)
		case "device_group":
			exists = c.network.HasGroup(s.ObjectID)
			c.groups[s.ObjectID] = true
		}
		if !exists && c.err == nil {
			c.err = fmt.Errorf("%s.%d: there is no %s %d", where, i, s.ObjectType, s.ObjectID)
		}
	}
}

type (
	set  map[int64]bool
	pair struct{ from, to int64 }
	// edge is what walks found between two devices.
	edge struct {
		conversations map[int]bool
		appearances   map[Appearance]bool
	}
)

// walker answers one query.
type walker struct {
	query   Query
	network Network
	graph   graph
	members map[int64]set // of groups that were resolved
	edges   map[pair]*edge
	result  Result
}

// resolve returns the devices of sources.
func (w *walker) resolve(sources []Source) set {
	found := make(set)
	for _, s := range sources {
		switch s.ObjectType {
		case "device":
			if !w.network.HasDevice(s.ObjectID) {
				w.missing(s)
			}
			found[s.ObjectID] = true
		case "device_group":
			maps.Copy(found, w.group(s.ObjectID))
		case "all_devices":
			for id := range w.graph.of {
				found[id] = true
			}
		}
	}
	return found
}

func (w *walker) group(id int64) set {
	if members, ok := w.members[id]; ok {
		return members
	}
	members := make(set)
	if w.network.HasGroup(id) {
		for _, device := range w.network.Members(id) {
			members[device] = true
		}
	} else {
		w.missing(Source{"device_group", id})
	}
	w.members[id] = members
	return members
}

func (w *walker) missing(s Source) {
	w.warn("missing_object", fmt.Sprintf("there is no %s %d", s.ObjectType, s.ObjectID))
}

func (w *walker) warn(kind, message string) {
	warning := Warning{kind, message}
	if len(w.result.Warnings) < maxWarnings && !slices.Contains(w.result.Warnings, warning) {
		w.result.Warnings = append(w.result.Warnings, warning)
	}
}

// expand adds the edges of a step and returns the peers that it reached.
func (w *walker) expand(from set, step Step, at Appearance) set {
	reached := make(set)
	in, notIn := w.resolve(step.PeerIn), w.resolve(step.PeerNotIn)
	for _, device := range slices.Sorted(maps.Keys(from)) {
		for _, i := range w.graph.of[device] {
			c := &w.graph.conversations[i]
			peer := c.from + c.to - device
			switch {
			case len(step.PeerIn) > 0 && !in[peer], notIn[peer]:
				continue
			case len(step.Relationships) > 0 && !slices.ContainsFunc(step.Relationships, func(r Relationship) bool { return c.matches(r, device) }):
				continue
			case c.weight(w.query.Weighting, w.query.From, w.query.Until) == 0:
				continue
			}
			if w.found(i, at) {
				reached[peer] = true
			}
		}
	}
	return reached
}

// found adds a conversation to its edge. It reports false if there are too many edges.
func (w *walker) found(i int, at Appearance) bool {
	c := w.graph.conversations[i]
	key := pair{c.from, c.to}
	e := w.edges[key]
	if e == nil {
		if len(w.edges) >= maxEdges {
			w.warn("too_many_edges", fmt.Sprintf("there are more than %d edges", maxEdges))
			return false
		}
		e = &edge{conversations: make(map[int]bool), appearances: make(map[Appearance]bool)}
		w.edges[key] = e
	}
	e.conversations[i], e.appearances[at] = true, true
	return true
}

// finish returns the result, the heaviest edges first.
func (w *walker) finish() Result {
	for key, e := range w.edges {
		made := Edge{From: key.from, To: key.to}
		protocols := w.protocols(e)
		for _, p := range protocols {
			made.Weight += p.Weight
		}
		for _, annotation := range w.query.Annotations {
			if made.Annotations == nil {
				made.Annotations = new(Annotations)
			}
			switch annotation {
			case "protocols":
				made.Annotations.Protocols = protocols
			case "appearances":
				made.Annotations.Appearances = slices.SortedFunc(maps.Keys(e.appearances), func(a, b Appearance) int {
					return cmp.Or(a.Walk-b.Walk, a.Step-b.Step)
				})
			}
		}
		w.result.Edges = append(w.result.Edges, made)
	}
	slices.SortFunc(w.result.Edges, func(a, b Edge) int {
		return cmp.Or(cmp.Compare(b.Weight, a.Weight), cmp.Compare(a.From, b.From), cmp.Compare(a.To, b.To))
	})
	return w.result
}

// protocols returns the weights of an edge's protocols, of which each is there once.
func (w *walker) protocols(e *edge) []Protocol {
	var found []Protocol
	for _, i := range slices.Sorted(maps.Keys(e.conversations)) {
		c := &w.graph.conversations[i]
		weight := c.weight(w.query.Weighting, w.query.From, w.query.Until)
		at := slices.IndexFunc(found, func(p Protocol) bool { return slices.Equal(p.Protocol, c.protocol.layers) })
		if at < 0 {
			found = append(found, Protocol{Protocol: c.protocol.layers, Weight: weight})
		} else {
			found[at].Weight += weight
		}
	}
	return found
}
