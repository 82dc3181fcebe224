package pipeline

import (
	"context"
	"crypto/sha256"
	"fmt"
	"os"
	"reflect"
	"slices"
	"time"

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
	heartbeat  *part
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

// build makes the parts of a configuration, except those in current that would be the
// same: these are kept. New parts are not started. It also returns a *PartError for each part that
// cannot be made; the runtime lacks those.
func (p *Pipeline) build(ctx context.Context, config *configs.Config, current *runtime) (*runtime, []error) {
	next := &runtime{config: config}
	var failed []error
	made := func(part string, err error) bool {
		if err != nil {
			failed = append(failed, &PartError{part, err})
		}
		return err == nil
	}
	for _, a := range config.Appliances {
		part, err := p.buildAppliance(ctx, a, config, current.appliance(a.Name))
		if made("appliance "+a.Name, err) {
			next.appliances = append(next.appliances, part)
		}
	}
	for _, s := range config.Sinks {
		part, err := p.buildSink(s, current.sink(s.Name))
		if made("sink "+s.Name, err) {
			next.sinks = append(next.sinks, part)
		}
	}
	next.intakes = p.buildIntakes(config, current, made)
	if next.heartbeat = current.heartbeat; current.config == nil || current.config.Events != config.Events {
		next.heartbeat = p.newHeartbeat(time.Duration(config.Events.Heartbeat))
	}
	var err error
	next.tickets, err = p.buildTickets(config)
	made("tickets", err)
	return next, failed
}

// parts returns all parts, in the order in which their changes are reported. They are started in
// the opposite one. Every sink must have a runner then; see attach.
func (r *runtime) parts() (all []*part) {
	for _, p := range r.appliances {
		all = append(all, &p.part)
	}
	for _, p := range r.intakes {
		all = append(all, &p.part)
	}
	for _, p := range r.sinks {
		all = append(all, &p.part)
	}
	if r.heartbeat != nil {
		all = append(all, r.heartbeat)
	}
	return all
}

// start starts parts of a runtime.
func (p *Pipeline) start(ctx context.Context, all []*part) {
	for _, one := range slices.Backward(all) {
		p.parts.start(ctx, one)
	}
}

// closeParts releases what parts use.
func closeParts(all []*part) {
	for _, p := range all {
		if p.close != nil {
			p.close()
		}
	}
}

// has reports whether r has a part with a name.
func (r *runtime) has(name string) bool { return slices.Contains(names(r.parts()), name) }

// find returns the part with a name, or nil.
func find[P interface{ id() string }](all []P, name string) (found P) {
	for _, p := range all {
		if p.id() == name {
			return p
		}
	}
	return found
}

func (p *part) id() string { return p.name }

func (r *runtime) appliance(name string) *appliancePart {
	return find(r.appliances, "appliance "+name)
}

func (r *runtime) sink(name string) *sinkPart { return find(r.sinks, "sink "+name) }

// without returns the parts of r that other does not have.
func (r *runtime) without(other *runtime) []*part {
	others := other.parts()
	return slices.DeleteFunc(r.parts(), func(p *part) bool { return slices.Contains(others, p) })
}

func names(all []*part) (names []string) {
	for _, p := range all {
		names = append(names, p.name)
	}
	return names
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
