package bridge

import (
	"context"
	"errors"

	"ndrbridge/admin"
	"ndrbridge/configs"
)

// runtime holds the parts made from one configuration. A reload builds a new one that
// takes over the unchanged parts.
type runtime struct {
	config     *configs.Config
	appliances []*appliancePart // in the order of the configuration
	sinks      []*sinkPart
	heartbeat  *heartbeat
	intakes    []*intakePart
	tickets    admin.Tickets
}

// partError reports why a part of the configuration cannot be made.
type partError struct {
	part string // such as "sink lake"
	err  error
}

func (e *partError) Error() string { return e.part + ": " + e.err.Error() }

func (e *partError) Unwrap() error { return e.err }

// partErrors collects the errors of all parts. At a start they are joined into one
// error.
type partErrors []*partError

func (p *partErrors) add(part string, err error) {
	if err != nil {
		*p = append(*p, &partError{part, err})
	}
}

// join returns all errors as one, or nil if there are none.
func (p partErrors) join() error {
	var all []error
	for _, err := range p {
		all = append(all, err)
	}
	return errors.Join(all...)
}

// build makes the parts of a configuration, except those in current that would be the
// same: these are kept. New parts are not started. It also returns the errors of the
// parts that cannot be made; the runtime lacks those.
func (b *Bridge) build(ctx context.Context, config *configs.Config, current *runtime) (*runtime, partErrors) {
	next := &runtime{config: config}
	var failed partErrors
	for _, a := range config.Appliances {
		p, err := b.buildAppliance(ctx, a, config, current.appliance(a.Name))
		failed.add("appliance "+a.Name, err)
		if err == nil {
			next.appliances = append(next.appliances, p)
		}
	}
	for _, s := range config.Sinks {
		p, err := b.buildSink(s, config, current.sink(s.Name))
		failed.add("sink "+s.Name, err)
		if err == nil {
			next.sinks = append(next.sinks, p)
		}
	}
	next.heartbeat = b.buildHeartbeat(config, current.heartbeat)
	next.intakes = b.buildIntakes(config, current, &failed)
	var err error
	next.tickets, err = b.buildTickets(config)
	failed.add("tickets", err)
	return next, failed
}

// intake returns the intake with the given name, or nil.
func (r *runtime) intake(name string) *intakePart {
	for _, p := range r.intakes {
		if p.name == name {
			return p
		}
	}
	return nil
}

// sink returns the sink with the given name, or nil.
func (r *runtime) sink(name string) *sinkPart {
	for _, p := range r.sinks {
		if p.config.Name == name {
			return p
		}
	}
	return nil
}

// appliance returns the appliance with the given name, or nil.
func (r *runtime) appliance(name string) *appliancePart {
	for _, p := range r.appliances {
		if p.config.Name == name {
			return p
		}
	}
	return nil
}

// without returns the parts of r that other does not have.
func (r *runtime) without(other *runtime) *runtime {
	rest := new(runtime)
	for _, p := range r.appliances {
		if other.appliance(p.config.Name) != p {
			rest.appliances = append(rest.appliances, p)
		}
	}
	for _, p := range r.sinks {
		if other.sink(p.config.Name) != p {
			rest.sinks = append(rest.sinks, p)
		}
	}
	for _, p := range r.intakes {
		if other.intake(p.name) != p {
			rest.intakes = append(rest.intakes, p)
		}
	}
	if r.heartbeat != other.heartbeat {
		rest.heartbeat = r.heartbeat
	}
	return rest
}

// names returns the names of all parts.
func (r *runtime) names() []string {
	var all []string
	for _, p := range r.intakes {
		all = append(all, p.partName())
	}
	if r.heartbeat != nil {
		all = append(all, heartbeatName)
	}
	for _, p := range r.appliances {
		all = append(all, p.name())
	}
	for _, p := range r.sinks {
		all = append(all, p.name())
	}
	return all
}
