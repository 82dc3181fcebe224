package preflight

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"

	"ndrbridge/configs"
	"ndrbridge/internal/appliance"
	"ndrbridge/internal/finding"
)

// need is a privilege that a section of an appliance's configuration requires.
type need struct {
	section          string // as findings name it
	step             string // of the findings of the section's trial, or their first word
	privilege, level string
	// documented means that the interface documents the requirement; otherwise the
	// privilege is only known to be required if the trial was refused.
	documented bool
	instead    string // what to do if the privilege is not granted
}

// needs returns the privileges that the configuration requires.
func (t *applianceTrial) needs() []need {
	var all []need
	if d := t.config.Detections; d.Enabled {
		module := "ndr"
		if onlyPerformance(d.Filter) {
			module = "npm"
		}
		all = append(all, need{"detections", "detections", module, "full", true, "set detections.enabled to false"})
	}
	if t.config.Audit.Enabled {
		all = append(all, need{"audit", "audit log", "system", "full", false, "set audit.enabled to false"})
	}
	if len(t.config.Records) > 0 {
		all = append(all, need{"records", "records", "write", "full", true, "remove records"})
	}
	if t.tickets {
		all = append(all, need{"tickets", "write", "write", "limited", true, "set tickets.enabled to false"})
	}
	return all
}

// onlyPerformance reports whether a filter selects no detections of other modules.
func onlyPerformance(f configs.DetectionFilter) bool {
	categories := f.Categories
	if f.Category != "" {
		categories = []string{f.Category}
	}
	return len(categories) > 0 && !slices.ContainsFunc(categories, func(c string) bool { return c != "perf" && !strings.HasPrefix(c, "perf.") })
}

// privileges returns findings about the privileges of the key's owner: a warning for each
// one that the configuration requires and that the appliance does not report. The trials of
// the sections were made before: what works is not reported as missing.
func (t *applianceTrial) privileges(ctx context.Context) []finding.Finding {
	const step = "privileges"
	remark := func(format string, args ...any) []finding.Finding {
		return []finding.Finding{{Step: step, Result: finding.Remark, Detail: fmt.Sprintf(format, args...)}}
	}
	if ctx.Err() != nil {
		return nil // the findings of the trials show why
	}
	users, known, err := t.client.Users(ctx)
	e, _ := errors.AsType[*appliance.Error](err)
	switch {
	case e != nil && (e.Refused() || e.Status == http.StatusNotFound):
		return remark("they could not be read: asked for its users, the appliance %s", answerText(e))
	case err != nil:
		return remark("they could not be read: %v", err)
	case !known || len(users) == 0:
		return remark("the appliance's answer does not show them")
	case len(users) > 1:
		return remark("the appliance lists %d users, as for a key with system and access administration privileges, which include all others", len(users))
	}
	user := users[0]
	if user.Levels == nil {
		return remark("the appliance does not show those of the user %s", user.Name)
	}
	var found []finding.Finding
	for _, n := range t.needs() {
		if user.Has(n.privilege, n.level) || !t.lacks(n, user) {
			continue
		}
		has := "does not have " + n.privilege
		if level := user.Levels[n.privilege]; level != "" {
			has = "has " + n.privilege + ": " + level
		}
		found = append(found, finding.Finding{
			Step: step, Result: finding.Warning,
			Detail: fmt.Sprintf("%s requires %s: %s, and the user %s %s", n.section, n.privilege, n.level, user.Name, has),
			Advice: fmt.Sprintf("grant %s: %s to the user %s on the appliance, or %s", n.privilege, n.level, user.Name, n.instead),
		})
	}
	if len(found) == 0 {
		var levels []string
		for _, privilege := range slices.Sorted(maps.Keys(user.Levels)) {
			levels = append(levels, privilege+": "+user.Levels[privilege])
		}
		has := cmp.Or(strings.Join(levels, ", "), "none, and needs none for what was tried")
		found = []finding.Finding{{Step: step, Result: finding.OK, Detail: fmt.Sprintf("the user %s has %s", user.Name, has)}}
	}
	return found
}

// lacks reports whether a privilege that the appliance does not report is required: if the
// section's trial was refused, or did not succeed and the interface documents it. A module
// that is reported as none is required even if the trial succeeded, because the appliance
// then shows only what belongs to the other modules.
func (t *applianceTrial) lacks(n need, user appliance.User) bool {
	of := func(step string) bool { return strings.HasPrefix(step+" ", n.step+" ") }
	works, refused := true, false
	for _, f := range t.found {
		if of(f.Step) {
			works = works && f.Result == finding.OK
		}
	}
	for step := range t.refused {
		refused = refused || of(step)
	}
	return refused || n.documented && (!works || user.Levels[n.privilege] == "none")
}
