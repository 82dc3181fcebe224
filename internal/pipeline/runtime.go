package pipeline

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"reflect"
	"slices"

	"ndrbridge/configs"
	"ndrbridge/internal/admin"
)

// runtime holds the parts made from one configuration. A reload builds a new one that
// takes over the unchanged parts.
type runtime struct {
	config     *configs.Config
	appliances []*appliancePart // in the order of the configuration
	sinks      []*sinkPart
	intakes    []*intakePart
	tickets    admin.Tickets
}

// PartError reports why a part of the configuration cannot be made.
type PartError struct {
	Part string // such as "sink lake"
	Err  error
}

// Error implements error.
func (e *PartError) Error() string { return e.Part + ": " + e.Err.Error() }

// Unwrap returns Err.
func (e *PartError) Unwrap() error { return e.Err }

// PartErrors collects the errors of all parts. At a start they are joined into one
// error.
type PartErrors []*PartError

func (p *PartErrors) add(part string, err error) {
	if err != nil {
		*p = append(*p, &PartError{part, err})
	}
}

// Join returns all errors as one, or nil if there are none.
func (p PartErrors) Join() error {
	var all []error
	for _, err := range p {
		all = append(all, err)
	}
	return errors.Join(all...)
}

// build makes the parts of a configuration, except those in current that would be the
// same: these are kept. New parts are not started. It also returns the errors of the
// parts that cannot be made; the runtime lacks those.
func (p *Pipeline) build(ctx context.Context, config *configs.Config, current *runtime) (*runtime, PartErrors) {
	next := &runtime{config: config}
	var failed PartErrors
	for _, a := range config.Appliances {
		part, err := p.buildAppliance(ctx, a, config, current.appliance(a.Name))
		failed.add("appliance "+a.Name, err)
		if err == nil {
			next.appliances = append(next.appliances, part)
		}
	}
	for _, s := range config.Sinks {
		part, err := p.buildSink(s, current.sink(s.Name))
		failed.add("sink "+s.Name, err)
		if err == nil {
			next.sinks = append(next.sinks, part)
		}
	}
	next.intakes = p.buildIntakes(config, current, &failed)
	var err error
	next.tickets, err = p.buildTickets(config)
	failed.add("tickets", err)
	return next, failed
}

// part is a component of a pipeline that is started and stopped on its own.
type part interface {
	comparable
	name() string // for log and error messages, such as "sink lake"
	start(l lifetimes, ps *partSet)
}

// find returns the part with a name, or nil.
func find[P part](parts []P, name string) (none P) {
	for _, p := range parts {
		if p.name() == name {
			return p
		}
	}
	return none
}

func (r *runtime) appliance(name string) *appliancePart { return find(r.appliances, "appliance "+name) }

func (r *runtime) sink(name string) *sinkPart { return find(r.sinks, "sink "+name) }

// start starts all parts. Every sink must have a runner; see attach.
func (r *runtime) start(l lifetimes, ps *partSet) {
	startAll(r.sinks, l, ps)
	startAll(r.appliances, l, ps)
	startAll(r.intakes, l, ps)
}

func startAll[P part](parts []P, l lifetimes, ps *partSet) {
	for _, p := range parts {
		p.start(l, ps)
	}
}

// close closes the connections to appliances.
func (r *runtime) close() {
	for _, a := range r.appliances {
		a.client.Close()
	}
}

// without returns the parts of r that other does not have.
func (r *runtime) without(other *runtime) *runtime {
	return &runtime{
		appliances: without(r.appliances, other.appliances),
		sinks:      without(r.sinks, other.sinks),
		intakes:    without(r.intakes, other.intakes),
	}
}

func without[P part](parts, others []P) []P {
	return slices.DeleteFunc(slices.Clone(parts), func(p P) bool { return slices.Contains(others, p) })
}

// names returns the names of all parts.
func (r *runtime) names() []string {
	return slices.Concat(names(r.intakes), names(r.appliances), names(r.sinks))
}

func names[P part](parts []P) []string {
	var all []string
	for _, p := range parts {
		all = append(all, p.name())
	}
	return all
}

// fingerprint identifies everything a part is made from: parts with equal fingerprints
// are interchangeable.
type fingerprint struct {
	settings []any
	files    map[string][sha256.Size]byte // hashes of the files that are read only once
}

// newFingerprint hashes the files, so that a change of their content is noticed.
func newFingerprint(files []string, settings ...any) (fingerprint, error) {
	fp := fingerprint{settings: settings, files: make(map[string][sha256.Size]byte)}
	for _, name := range files {
		content, err := os.ReadFile(name)
		if err != nil {
			return fingerprint{}, fmt.Errorf("read a file that the configuration names: %w", err)
		}
		fp.files[name] = sha256.Sum256(content)
	}
	return fp, nil
}

func (f fingerprint) equal(other fingerprint) bool { return reflect.DeepEqual(f, other) }
