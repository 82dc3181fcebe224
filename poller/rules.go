package poller

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"ndrbridge/internal/appliance"
	"ndrbridge/internal/jsonscan"
	"ndrbridge/transform"
)

// StreamRules is the name of the stream of Rules.
const StreamRules = "rules"

// NewRules returns a source of the changes in an appliance's tuning rules: a rule is new, differs,
// passed its expiration by the appliance's clock, or is gone. askedBy returns who had the bridge make
// a rule, by the rule's description; empty: nobody.
func NewRules(client *appliance.Client, store FollowUpStore, o StreamOptions, askedBy func(ctx context.Context, description string) (string, error)) Source {
	l := newListing(store, StreamRules, o)
	l.fetch = client.HidingRules
	l.compare = func(ctx context.Context, s snapshot) (listingChanges, error) {
		return compareRules(l.events, s, func(object []byte) (string, error) {
			return askedBy(ctx, transform.Text(jsonscan.At(object, "description")))
		})
	}
	return &l
}

// compareRules returns how the rules of an appliance changed. askedBy returns who had the bridge make
// one.
func compareRules(encoder transform.Encoder, s snapshot, askedBy func(object []byte) (string, error)) (c listingChanges, err error) {
	var changes []transform.RuleChange
	listed := make(map[string]bool, len(s.objects))
	for i, object := range s.objects {
		rule, err := transform.ParseRule(object.Raw)
		switch {
		case err != nil:
			return c, fmt.Errorf("tuning rule %d: %w", i, err)
		case i == maxListed:
			return c, fmt.Errorf("there are more than %d tuning rules", maxListed)
		case listed[rule.ID]:
			return c, fmt.Errorf("two tuning rules have the id %s", rule.ID)
		}
		listed[rule.ID] = true
		var before transform.Rule
		remembered, known := s.known[rule.ID]
		if known {
			if before, err = transform.ParseRule(remembered); err != nil {
				return c, fmt.Errorf("the remembered tuning rule %s: %w", rule.ID, err)
			}
		}
		switch {
		case !known:
			by, err := askedBy(object.Raw)
			if err != nil {
				return c, err
			}
			changes = append(changes, transform.RuleChange{Action: "created", Rule: rule, By: by})
			c.remember(rule.ID, rule.Fields)
		case rule.Differs(before):
			changes = append(changes, transform.RuleChange{Action: "updated", Rule: rule, Before: before})
			c.remember(rule.ID, rule.Fields)
		}
		// What had expired when the rules were last seen was reported then.
		if isExpired(rule, s.at) && !(known && isExpired(before, s.seen)) {
			changes = append(changes, transform.RuleChange{Action: "expired", Rule: rule})
		}
	}
	var gone []string
	for _, id := range slices.Sorted(maps.Keys(s.known)) {
		if !listed[id] {
			gone = append(gone, id)
			c.forget(id)
		}
	}
	if len(listed) == 0 && len(gone) > 1 {
		event, err := encoder.RulesRemoved(gone, s.recorded)
		c.events = []transform.Event{event}
		return c, err
	}
	for _, id := range gone {
		rule, err := transform.ParseRule(s.known[id])
		if err != nil {
			return c, fmt.Errorf("the remembered tuning rule %s: %w", id, err)
		}
		changes = append(changes, transform.RuleChange{Action: "removed", Rule: rule})
	}
	c.events = make([]transform.Event, len(changes))
	for i, change := range changes {
		if c.events[i], err = encoder.Rule(change, s.recorded); err != nil {
			return c, err
		}
	}
	return c, nil
}

// isExpired reports whether a rule has ended at a time of the appliance's clock.
func isExpired(r transform.Rule, at time.Time) bool {
	return r.Expiration != 0 && r.Expiration <= at.UnixMilli()
}
