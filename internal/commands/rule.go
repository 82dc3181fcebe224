package commands

import (
	"cmp"
	"fmt"
	"time"

	"ndrbridge/internal/hiding"
)

// Hide makes a tuning rule from a detection: detections like it are hidden until Expiration.
type Hide struct {
	DetectionID int64 `json:"detection_id"`
	// Offender and Victim are the participants that the rule matches: AsDetected, the default,
	// or Any. They cannot both be Any if Types is AllTypes.
	Offender string `json:"offender,omitempty"`
	Victim   string `json:"victim,omitempty"`
	// Types are the types that the rule hides: OneType, the default, is the detection's; AllTypes
	// are all of security or of performance, by the detection's categories.
	Types string `json:"types,omitempty"`
	// Expiration is when the rule ends: a duration from the acceptance of the command, such as
	// 24h, or a time in RFC 3339. It is required.
	Expiration  string `json:"expiration"`
	Description string `json:"description,omitempty"`
}

// The values of Hide.Offender, Hide.Victim and Hide.Types.
const (
	Any        = "any"
	AsDetected = "as_detected"
	OneType    = "type"
	AllTypes   = "all"
)

// checkRule is Check for a command on rules.
func (c Command) checkRule() error {
	ticket := c
	ticket.Appliance, ticket.By, ticket.Hide, ticket.RuleID, ticket.Extend, ticket.End = "", "", nil, 0, "", false
	changes := 0
	for _, is := range []bool{c.Hide != nil, c.Extend != "", c.End} {
		if is {
			changes++
		}
	}
	switch {
	case ticket != Command{}:
		return &FieldError{Problem: "the command is about a rule and about a ticket: send two commands"}
	case c.By == "":
		return &FieldError{Field: "by", Problem: "is missing: name the person who asks for it"}
	case changes != 1:
		return &FieldError{Problem: "the command must contain one of hide, extend and end"}
	case c.Hide != nil && c.RuleID != 0:
		return &FieldError{Field: "rule_id", Problem: "cannot be sent with hide, which makes a rule"}
	case c.Hide != nil:
		return c.Hide.check()
	case c.RuleID <= 0:
		return &FieldError{Field: "rule_id", Problem: "is missing or not a rule's id: write a number above 0"}
	case c.Extend != "":
		return checkEnd("extend", c.Extend)
	}
	return nil
}

func (h Hide) check() error {
	if h.DetectionID <= 0 {
		return &FieldError{Field: "hide.detection_id", Problem: "is missing or not a detection id: write a number above 0"}
	}
	for _, of := range []struct {
		field, value string
		allowed      [2]string
	}{
		{"offender", h.Offender, [2]string{AsDetected, Any}}, {"victim", h.Victim, [2]string{AsDetected, Any}}, {"types", h.Types, [2]string{OneType, AllTypes}},
	} {
		if of.value != "" && of.value != of.allowed[0] && of.value != of.allowed[1] {
			return &FieldError{Field: "hide." + of.field, Problem: fmt.Sprintf("cannot be %.80q", of.value), Allowed: of.allowed[:]}
		}
	}
	if err := h.scope().Check(); err != nil {
		return &FieldError{Field: "hide", Problem: err.Error()}
	}
	if h.Expiration == "" {
		return &FieldError{Field: "hide.expiration", Problem: "is missing: every rule must end; write a duration such as 24h, or a time such as 2026-03-14T09:26:53Z"}
	}
	return cmp.Or(checkEnd("hide.expiration", h.Expiration), checkText("hide.description", h.Description))
}

func (h Hide) scope() hiding.Scope {
	return hiding.Scope{AnyOffender: h.Offender == Any, AnyVictim: h.Victim == Any, AllTypes: h.Types == AllTypes}
}

// checkEnd checks the syntax of a rule's end.
func checkEnd(field, text string) error {
	_, err := parseEnd(field, text, time.Time{})
	return err
}

// parseEnd returns a rule's end, in whole milliseconds.
func parseEnd(field, text string, now time.Time) (time.Time, error) {
	end, err := time.Parse(time.RFC3339, text)
	if err != nil {
		var after time.Duration
		if after, err = time.ParseDuration(text); err == nil {
			end = now.Add(after)
		}
	}
	if err != nil {
		return end, &FieldError{Field: field, Problem: fmt.Sprintf("cannot be %.80q: write a duration such as 24h, or a time such as 2026-03-14T09:26:53Z", text)}
	}
	return end.UTC().Truncate(time.Millisecond), nil
}

// within returns the command with the time at which its rule ends in place of a duration from
// now. It returns a *FieldError if that is past, or more than most from now.
func (c Command) within(now time.Time, most time.Duration) (Command, error) {
	field, text := "extend", &c.Extend
	if c.Hide != nil {
		hide := *c.Hide
		c.Hide = &hide
		field, text = "hide.expiration", &hide.Expiration
	}
	if *text == "" {
		return c, nil
	}
	end, err := parseEnd(field, *text, now)
	switch {
	case err != nil:
		return c, err
	case !end.After(now):
		return c, &FieldError{Field: field, Problem: "is not in the future"}
	case end.After(now.Add(most)):
		return c, &FieldError{Field: field, Problem: fmt.Sprintf("is more than %s from now, which rules.max_expiration does not allow", most)}
	}
	*text = end.Format(time.RFC3339Nano)
	return c, nil
}
