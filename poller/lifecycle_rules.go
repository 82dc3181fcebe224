package poller

import (
	"context"
	"errors"
	"fmt"

	"ndrbridge/internal/appliance"
	"ndrbridge/internal/hiding"
	"ndrbridge/transform"
)

// hidingRules are the appliance's rules that hide detections now.
type hidingRules struct {
	readable bool // the key may read them
	active   []hiding.Rule
}

// visibilityRule is a rule as events show it.
type visibilityRule struct {
	ID          int64  `json:"id"`
	Description string `json:"description"`
	Author      string `json:"author"`
	Expiration  int64  `json:"expiration,omitzero"` // in milliseconds since the epoch; 0: never
}

// hidingRules fetches the rules that hide detections now. A key may not be allowed to.
func (l *Lifecycle) hidingRules(ctx context.Context) (rules hidingRules, err error) {
	var page appliance.Page
	err = l.client.HidingRules(ctx, &page)
	if e, ok := errors.AsType[*appliance.Error](err); ok && isRefusal(e) {
		return rules, nil
	}
	if err != nil {
		return rules, err
	}
	for _, o := range page.Objects {
		rule := hiding.Parse(o.Raw)
		if rule.Enabled && (rule.Expiration == 0 || page.Date.UnixMilli() < rule.Expiration) {
			rules.active = append(rules.active, rule)
		}
	}
	rules.readable = true
	return rules, nil
}

// maxRules is how many rules an event lists.
const maxRules = 10

// matching returns the rules that hide a detection for certain, or else those that hide it
// depending on who takes part or on its properties, which are not known.
func (h hidingRules) matching(d transform.Detection) (matching []visibilityRule, certain bool) {
	matching = []visibilityRule{}
	for _, r := range h.active {
		answer := r.Hides(d)
		if answer == hiding.No || certain && answer == hiding.Maybe {
			continue
		}
		if answer == hiding.Yes && !certain {
			matching, certain = matching[:0], true
		}
		if len(matching) < maxRules {
			matching = append(matching, visibilityRule{r.ID, r.Description, r.Author, r.Expiration})
		}
	}
	return matching, certain
}

// explain returns the state of a suspect that is missing. absent means that the appliance has no
// detection with its id.
func (h hidingRules) explain(s suspect, k known, absent bool) stateChange {
	matching, certain := h.matching(k.detection(s.id))
	c := stateChange{suspect: s, state: stateHidden, rules: matching}
	why := "hidden by "
	if !certain {
		why = "may be hidden by "
	}
	switch {
	case len(matching) == 1:
		why += fmt.Sprintf("rule %d", matching[0].ID)
	case len(matching) > 1:
		why += "rules "
		for i, rule := range matching {
			if i > 0 {
				why += ", "
			}
			why += fmt.Sprint(rule.ID)
		}
	case !h.readable:
		why = "the key may not read the hiding rules"
	case absent:
		c.state, why = stateGone, "the appliance has no detection with this id"
	default:
		why = "the appliance has it, and no active hiding rule explains it"
	}
	c.explanation = "no longer shown: " + why
	return c
}
