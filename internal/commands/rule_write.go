package commands

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"time"

	"ndrbridge/checkpoint"
	"ndrbridge/internal/appliance"
	"ndrbridge/internal/failure"
	"ndrbridge/internal/hiding"
	"ndrbridge/transform"
)

// until returns when a rule ends, for people.
func until(r hiding.Rule) string {
	if r.Expiration == 0 {
		return "forever"
	}
	return "until " + time.UnixMilli(r.Expiration).UTC().Format(time.RFC3339)
}

// findRule returns the first tuning rule of the appliance with an id that is selected.
func (w *Writer) findRule(ctx context.Context, is func(hiding.Rule) bool) (r hiding.Rule, found bool, err error) {
	var page appliance.Page
	if err := w.client.HidingRules(ctx, &page); err != nil {
		return r, false, fmt.Errorf("read the tuning rules: %w", err)
	}
	for _, o := range page.Objects {
		if r = hiding.Parse(o.Raw); r.ID != 0 && is(r) {
			return r, true, nil
		}
	}
	return hiding.Rule{}, false, nil
}

// slack is by how much the appliance may round the end of a rule.
const slack = time.Second

// writeRule carries out a command on a tuning rule. It reads the rules first, so that what an
// earlier attempt did is not done again, and reads the result back.
func (w *Writer) writeRule(late context.Context, c checkpoint.Command, command Command) error {
	text := command.Extend
	if command.Hide != nil {
		text = command.Hide.Expiration
	}
	var end time.Time
	if !command.End {
		var err error
		if end, err = time.Parse(time.RFC3339, text); err != nil {
			return failure.Errorf(failure.Rejected, "read the end of the rule: %w", err)
		}
	}
	if command.Hide != nil {
		return w.hide(late, c, command, end)
	}
	is := func(r hiding.Rule) bool { return r.ID == command.RuleID }
	before, found, err := w.findRule(late, is)
	switch {
	case err != nil:
		return err
	case !found:
		return failure.Errorf(failure.Rejected, "the appliance has no tuning rule %d", command.RuleID)
	case command.End && !before.Enabled:
		return w.finish(late, c, result{rule: before})
	}
	// Disabling ends a rule whatever the appliance's clock shows, and keeps its expiration.
	change := appliance.RuleChange{Enabled: new(false)}
	if !command.End {
		switch longer := before.Expiration - end.UnixMilli(); {
		case !before.Enabled:
			return failure.Errorf(failure.Rejected, "the tuning rule %d was ended: hide the detection again", before.ID)
		case before.Expiration == 0 || longer > slack.Milliseconds():
			return failure.Errorf(failure.Rejected, "the tuning rule %d lasts %s already", before.ID, until(before))
		case longer >= 0:
			return w.finish(late, c, result{rule: before})
		case !end.After(time.Now()):
			return errPast(end)
		}
		change = appliance.RuleChange{Expiration: new(end.UnixMilli())}
	}
	patch := func(ctx context.Context) error { return w.client.PatchRule(ctx, command.RuleID, change) }
	if err := w.o.Lease.Do(late, patch); err != nil {
		return fmt.Errorf("change the tuning rule %d: %w", command.RuleID, err)
	}
	after, found, err := w.findRule(late, is)
	switch {
	case err != nil:
		return err
	case !found:
		return failure.Errorf(failure.Rejected, "the tuning rule %d is gone", command.RuleID)
	case command.End && after.Enabled:
		return failure.Errorf(failure.Rejected, "the appliance accepted the change, but the tuning rule %d is still enabled: end it there", after.ID)
	case !command.End && !ends(after, end):
		return failure.Errorf(failure.Rejected, "the appliance accepted the change, but the tuning rule %d lasts %s: change it there", after.ID, until(after))
	}
	return w.finish(late, c, result{rule: after})
}

// ends reports whether a rule ends at a time, as far as the appliance may round it.
func ends(r hiding.Rule, at time.Time) bool {
	return time.UnixMilli(r.Expiration).Sub(at).Abs() <= slack
}

func errPast(end time.Time) error {
	return failure.Errorf(failure.Rejected, "the rule would have ended at %s, which is past: send a new command", end.Format(time.RFC3339))
}

// hide makes the rule of a command, unless there is one with the command's mark.
func (w *Writer) hide(late context.Context, c checkpoint.Command, command Command, end time.Time) error {
	mark := markOf(c)
	made, found, err := w.findRule(late, func(r hiding.Rule) bool { return strings.HasPrefix(r.Description, mark) })
	switch {
	case err != nil:
		return err
	case found:
		return w.finish(late, c, result{rule: made})
	case !end.After(time.Now()):
		return errPast(end)
	}
	rule, err := w.newRule(late, *command.Hide)
	if err != nil {
		return err
	}
	rule.Expiration, rule.Text = end.UnixMilli(), strings.TrimSuffix(mark+" "+command.By+": "+command.Hide.Description, ": ")
	var id int64
	create := func(ctx context.Context) (err error) {
		id, err = w.client.CreateRule(ctx, rule)
		return err
	}
	if err := w.o.Lease.Do(late, create); err != nil {
		return fmt.Errorf("make a tuning rule: %w", err)
	}
	// An appliance may keep another description, or answer without the id.
	made, found, err = w.findRule(late, func(r hiding.Rule) bool { return r.ID == id || strings.HasPrefix(r.Description, mark) })
	switch {
	case err != nil:
		return err
	case !found:
		return failure.Errorf(failure.Rejected, "the appliance accepted a tuning rule, but does not list it: look for %s there before a retry", mark)
	case !ends(made, end):
		return failure.Errorf(failure.Rejected, "the appliance accepted a tuning rule, but rule %d lasts %s: change it there", made.ID, until(made))
	}
	return w.finish(late, c, result{rule: made})
}

// markOf returns the beginning of the description of the rule of a command. It identifies the
// command even if the state is lost and ids begin again.
func markOf(c checkpoint.Command) string {
	return "[ndrbridge " + strconv.FormatUint(c.ID, 10) + "-" + strconv.FormatInt(c.Accepted.UnixMilli(), 10) + "]"
}

// RuleAskedBy returns the person who asked for the rule of an appliance with a description, if that
// begins with the mark of a command that store has.
func RuleAskedBy(ctx context.Context, store *checkpoint.Store, appliance, description string) (by string, err error) {
	var id uint64
	if n, _ := fmt.Sscanf(description, "[ndrbridge %d-", &id); n == 0 {
		return "", nil
	}
	c, found, err := store.Command(ctx, id)
	if err != nil || !found || c.Appliance != appliance || !strings.HasPrefix(description, markOf(c)) {
		return "", err
	}
	var command Command
	if err := json.Unmarshal(c.Body, &command); err != nil || command.Hide == nil {
		return "", nil
	}
	return command.By, nil
}

// newRule returns the rule that hides a detection, as the appliance shows that now.
func (w *Writer) newRule(ctx context.Context, h Hide) (rule appliance.NewRule, err error) {
	var page appliance.Page
	if err := w.client.Detection(ctx, h.DetectionID, &page); err != nil {
		return rule, fmt.Errorf("read the detection to hide: %w", err)
	}
	var d transform.Detection
	for _, o := range page.Objects { // there is one
		if d, err = transform.ParseDetection(o.Raw, o.Repaired); err != nil {
			return rule, failure.Errorf(failure.Rejected, "read the detection to hide: %w", err)
		}
	}
	of, err := h.scope().Of(d)
	if err != nil {
		return rule, &failure.Error{Class: failure.Rejected, Err: err}
	}
	return appliance.NewRule{Type: of.Types[0], Offender: of.Offender, Victim: of.Victim}, nil
}

// reportRule is report for a command on a rule.
func (w *Writer) reportRule(c checkpoint.Command, command Command, r result, now time.Time) (transform.Event, error) {
	rule := transform.RuleCommand{
		Command: c.ID, Action: "hide", ID: r.rule.ID, DetectionID: command.Detection(),
		Expiration: r.rule.Expiration, By: command.By, Reason: r.reason,
	}
	switch {
	case command.End:
		rule.Action, rule.ID = "end", command.RuleID
	case command.Extend != "":
		rule.Action, rule.ID = "extend", command.RuleID
	}
	return w.events.RuleResult(rule, now)
}
