package bridge

import (
	"context"
	"fmt"

	"ndrbridge/admin"
	"ndrbridge/configs"
)

// arrangement is what there is by one configuration. A reload makes another, which
// takes over the parts that stay as they are.
type arrangement struct {
	config     *configs.Config
	appliances []*appliancePart // in the order of the configuration
	sinks      []*sinkPart
	heart      *heart
	doors      []*doorPart
	tickets    admin.Tickets
}

// arrange makes the parts that a configuration asks for, but those of now that
// would be made alike: these are kept. Nothing runs yet of what is new. The error
// says which part cannot be made.
func (b *Bridge) arrange(ctx context.Context, config *configs.Config, now *arrangement) (*arrangement, error) {
	next := &arrangement{config: config}
	for _, s := range config.Sinks {
		p, err := b.arrangeSink(s, config, now.sink(s.Name))
		if err != nil {
			return nil, fmt.Errorf("sink %s: %w", s.Name, err)
		}
		next.sinks = append(next.sinks, p)
	}
	for _, a := range config.Appliances {
		p, err := b.arrangeAppliance(ctx, a, config, now.appliance(a.Name))
		if err != nil {
			return nil, fmt.Errorf("appliance %s: %w", a.Name, err)
		}
		next.appliances = append(next.appliances, p)
	}
	next.heart = b.arrangeHeart(config, now.heart)
	var err error
	if next.doors, err = b.arrangeDoors(config, now); err != nil {
		return nil, err
	}
	next.tickets, err = b.arrangeTickets(config)
	return next, err
}

// door returns the part of a name; nil where there is none.
func (a *arrangement) door(name string) *doorPart {
	for _, p := range a.doors {
		if p.name == name {
			return p
		}
	}
	return nil
}

// sink returns the part of a name; nil where there is none.
func (a *arrangement) sink(name string) *sinkPart {
	for _, p := range a.sinks {
		if p.config.Name == name {
			return p
		}
	}
	return nil
}

// appliance returns the part of a name; nil where there is none.
func (a *arrangement) appliance(name string) *appliancePart {
	for _, p := range a.appliances {
		if p.config.Name == name {
			return p
		}
	}
	return nil
}

// less returns the parts of a that other does not have.
func (a *arrangement) less(other *arrangement) *arrangement {
	rest := new(arrangement)
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
	for _, p := range a.doors {
		if other.door(p.name) != p {
			rest.doors = append(rest.doors, p)
		}
	}
	if a.heart != other.heart {
		rest.heart = a.heart
	}
	return rest
}

// names are those of its parts.
func (a *arrangement) names() []string {
	var all []string
	for _, p := range a.doors {
		all = append(all, p.partName())
	}
	if a.heart != nil {
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
