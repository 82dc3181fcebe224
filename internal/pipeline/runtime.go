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
	others     []*part
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
	for _, a := range config.Appliances {
		var files []string
		if a.TLS.CAFile != "" {
			files = append(files, a.TLS.CAFile) // the others are read again on each use
		}
		add(&next.appliances, &failed, current.appliances, "appliance "+a.Name, files, []any{a, config.Tickets.Enabled, config.WritesNotes(a)}, func(previous *appliancePart) (*appliancePart, error) {
			return p.newAppliance(ctx, a, config, previous)
		})
	}
	for _, s := range config.Sinks {
		add(&next.sinks, &failed, current.sinks, "sink "+s.Name, configs.FilesIn(s), []any{s, config.Tickets.Notes}, func(*sinkPart) (*sinkPart, error) {
			return p.newSink(s, config.Tickets.Notes)
		})
	}
	if n := config.Tickets.NATS; config.Tickets.Enabled && n.URL.Value() != "" {
		add(&next.intakes, &failed, current.intakes, IntakeTarget(NATSIntake), configs.FilesIn(n), n, func(*intakePart) (*intakePart, error) {
			return p.newNATSIntake(n)
		})
	}
	if k := config.Tickets.Kafka; config.Tickets.Enabled && len(k.Brokers) > 0 {
		add(&next.intakes, &failed, current.intakes, IntakeTarget(KafkaIntake), configs.FilesIn(k), k, func(*intakePart) (*intakePart, error) {
			return p.newKafkaIntake(k)
		})
	}
	add(&next.others, &failed, current.others, "events.heartbeat", nil, config.Events, func(*part) (*part, error) {
		return p.newHeartbeat(time.Duration(config.Events.Heartbeat)), nil
	})
	var err error
	if next.tickets, err = p.buildTickets(config); err != nil {
		failed = append(failed, &PartError{"tickets", err})
	}
	return next, failed
}

// kindOfPart is a part with what its kind adds to it.
type kindOfPart interface{ common() *part }

func (p *part) common() *part { return p }

// add adds the part of current that has the name, if it was made from the same settings and files,
// or the one that make returns. make receives the part of current that the new one replaces, if
// there is one. An error is added to failed.
func add[P kindOfPart](all *[]P, failed *[]error, current []P, name string, files []string, settings any, make func(previous P) (P, error)) {
	previous, found := find(current, name)
	fp, err := newFingerprint(files, settings)
	if err == nil && found && reflect.DeepEqual(previous.common().fingerprint, fp) {
		*all = append(*all, previous)
		return
	}
	var next P
	if err == nil {
		next, err = make(previous)
	}
	if err != nil {
		*failed = append(*failed, &PartError{name, err})
		return
	}
	next.common().name, next.common().fingerprint = name, fp
	*all = append(*all, next)
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
	return append(all, r.others...)
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

// find returns the part with a name.
func find[P kindOfPart](all []P, name string) (of P, found bool) {
	i := slices.IndexFunc(all, func(p P) bool { return p.common().name == name })
	if i < 0 {
		return of, false
	}
	return all[i], true
}

// appliance returns the part of an appliance, or nil.
func (r *runtime) appliance(name string) *appliancePart {
	p, _ := find(r.appliances, "appliance "+name)
	return p
}

// sink returns the part of a sink, or nil.
func (r *runtime) sink(name string) *sinkPart {
	p, _ := find(r.sinks, "sink "+name)
	return p
}

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
	settings any
	files    map[string][sha256.Size]byte // hashes of the files that are read only once
}

// newFingerprint hashes the files, so that a change of their content is noticed.
func newFingerprint(files []string, settings any) (fingerprint, error) {
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
