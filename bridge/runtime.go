package bridge

import (
	"context"
	"errors"

	"ndrbridge/admin"
	"ndrbridge/configs"
)

// runtime is what there is by one configuration. A reload makes another, which
// takes over the parts that stay as they are.
type runtime struct {
	config     *configs.Config
	appliances []*appliancePart // in the order of the configuration
	sinks      []*sinkPart
	heartbeat  *heartbeat
	intakes    []*intakePart
	tickets    admin.Tickets
}

// partError is the reason why a part of the configuration cannot be made.
type partError struct {
	part string // such as "sink lake"
	err  error
}

func (e *partError) Error() string { return e.part + ": " + e.err.Error() }

func (e *partError) Unwrap() error { return e.err }

// partErrors are those of all parts. They are one error for a start.
type partErrors []*partError

func (p *partErrors) add(part string, err error) {
	if err != nil {
		*p = append(*p, &partError{part, err})
	}
}

// join returns all of them; nil if there is none.
func (p partErrors) join() error {
	var all []error
	for _, err := range p {
		all = append(all, err)
	}
	return errors.Join(all...)
}

// build makes the parts that a configuration asks for, but those of now that
// would be made alike: these are kept. Nothing runs yet of what is new. The errors
// are those of all parts that cannot be made, which the arrangement is without.
func (b *Bridge) build(ctx context.Context, config *configs.Config, now *runtime) (*runtime, partErrors) {
	next := &runtime{config: config}
	var failed partErrors
	for _, a := range config.Appliances {
		p, err := b.buildAppliance(ctx, a, config, now.appliance(a.Name))
		failed.add("appliance "+a.Name, err)
		if err == nil {
			next.appliances = append(next.appliances, p)
		}
	}
	for _, s := range config.Sinks {
		p, err := b.buildSink(s, config, now.sink(s.Name))
		failed.add("sink "+s.Name, err)
		if err == nil {
			next.sinks = append(next.sinks, p)
		}
	}
	next.heartbeat = b.buildHeartbeat(config, now.heartbeat)
	next.intakes = b.buildIntakes(config, now, &failed)
	var err error
	next.tickets, err = b.buildTickets(config)
	failed.add("tickets", err)
	return next, failed
}

// intake returns the part of a name; nil where there is none.
func (a *runtime) intake(name string) *intakePart {
	for _, p := range a.intakes {
		if p.name == name {
			return p
		}
	}
	return nil
}

// sink returns the part of a name; nil where there is none.
func (a *runtime) sink(name string) *sinkPart {
	for _, p := range a.sinks {
		if p.config.Name == name {
			return p
		}
	}
	return nil
}

// appliance returns the part of a name; nil where there is none.
func (a *runtime) appliance(name string) *appliancePart {
	for _, p := range a.appliances {
		if p.config.Name == name {
			return p
		}
	}
	return nil
}

// less returns the parts of a that other does not have.
func (a *runtime) less(other *runtime) *runtime {
	rest := new(runtime)
	for _, p := range a.appliances {
		if other.appliance(p.config.Name) != p {
			rest.appliances = append(rest.appliances, p)
		}
	}
	for _, p := range a.sinks {
		if other.sink(p.config.Name) != p {
			rest.sinks = append(rest.sinks, p)
		}
	}
	for _, p := range a.intakes {
		if other.intake(p.name) != p {
			rest.intakes = append(rest.intakes, p)
		}
	}
	if a.heartbeat != other.heartbeat {
		rest.heartbeat = a.heartbeat
	}
	return rest
}

// names are those of its parts.
func (a *runtime) names() []string {
	var all []string
	for _, p := range a.intakes {
		all = append(all, p.partName())
	}
	if a.heartbeat != nil {
		all = append(all, heartbeatName)
	}
	for _, p := range a.appliances {
		all = append(all, p.name())
	}
	for _, p := range a.sinks {
		all = append(all, p.name())
	}
	return all
}
