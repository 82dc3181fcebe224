package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"ndrbridge/cmd/internal/terminal"
	"ndrbridge/internal/admin"
	"ndrbridge/internal/hiding"
	"ndrbridge/internal/jsonscan"
	"ndrbridge/transform"
)

// hideCount says which detections of the journal a rule would have hidden, by their last versions.
// Its JSON is stable.
type hideCount struct {
	Appliance    string         `json:"appliance"`
	Rule         shownRule      `json:"rule"`
	JournalSince time.Time      `json:"journal_since,omitzero"` // when the oldest event was journalled
	Detections   int            `json:"detections"`             // of the appliance, in the journal
	Hidden       int            `json:"hidden"`                 // of these, by the rule
	Open         int            `json:"open"`                   // of the hidden: neither closed nor hidden or gone already
	Unknown      int            `json:"unknown"`                // not counted, because their participants are not known
	ByStatus     map[string]int `json:"by_status"`
	BySeverity   map[string]int `json:"by_severity"`
	Newest       []hiddenShown  `json:"newest"`
	Wider        []widerRule    `json:"wider"`
}

type shownRule struct {
	DetectionType string           `json:"detection_type"`
	Offender      hiding.Criterion `json:"offender"`
	Victim        hiding.Criterion `json:"victim"`
}

// hiddenShown is a detection that the rule would have hidden.
type hiddenShown struct {
	ID       int64     `json:"id"`
	ModTime  time.Time `json:"mod_time"`
	Status   string    `json:"status"`
	Severity string    `json:"severity"`
	Title    string    `json:"title"`
}

// widerRule is what the rule would hide with other flags.
type widerRule struct {
	Flags string `json:"flags"`
	More  int    `json:"more"` // detections that the rule does not hide
}

// newestHidden is how many detections are shown.
const newestHidden = 5

// hideCounter counts the detections that rules would have hidden.
type hideCounter struct {
	hideCount
	rules   []hiding.Rule // the rule, and those of Wider
	seen    map[int64]bool
	covered map[int64]*coveredDetection // by one of the rules for certain, or else perhaps by the first
}

// coveredDetection is a detection that a rule covers.
type coveredDetection struct {
	hiddenShown
	away  bool            // the appliance does not show it any more
	rules []hiding.Answer // by rule
}

func newHideCounter(appliance string, scope hiding.Scope, d transform.Detection) (*hideCounter, error) {
	rule, err := scope.Of(d)
	if err != nil {
		return nil, err
	}
	c := &hideCounter{rules: []hiding.Rule{rule}, seen: make(map[int64]bool), covered: make(map[int64]*coveredDetection)}
	c.Appliance, c.Rule = appliance, shownRule{rule.Types[0], rule.Offender, rule.Victim}
	for _, wider := range []struct {
		flags            string
		offender, victim bool
	}{{"--offender any", true, false}, {"--victim any", false, true}, {"--offender any --victim any", true, true}} {
		if wider.offender && scope.AnyOffender || wider.victim && scope.AnyVictim {
			continue
		}
		with := scope
		with.AnyOffender, with.AnyVictim = scope.AnyOffender || wider.offender, scope.AnyVictim || wider.victim
		if rule, err := with.Of(d); err == nil {
			c.rules, c.Wider = append(c.rules, rule), append(c.Wider, widerRule{Flags: wider.flags})
		}
	}
	return c, nil
}

// add counts an event of the journal. Events come in the order of the journal.
func (c *hideCounter) add(e transform.Event) error {
	if c.JournalSince.IsZero() {
		c.JournalSince = e.RecordedTime
	}
	if e.Appliance != c.Appliance || e.Stream() != transform.StreamDetections {
		return nil
	}
	d, err := transform.ParseDetection(jsonscan.At(e.Data(), "detection"), false)
	if err != nil {
		return fmt.Errorf("event %s: %w", e.ID, err)
	}
	if e.IsFollowUp() {
		if known := c.covered[d.ID]; known != nil {
			switch e.Action() {
			case "hidden", "gone":
				known.away = true
			case "shown":
				known.away = false
			}
		}
		return nil
	}
	c.seen[d.ID] = true
	delete(c.covered, d.ID)
	answers, most := make([]hiding.Answer, len(c.rules)), hiding.No
	for i, rule := range c.rules {
		answers[i] = rule.Hides(d)
		most = max(most, answers[i])
	}
	if most == hiding.No {
		return nil
	}
	const maxTitle = 200
	title := transform.Text(jsonscan.At(e.Data(), "detection.title"))
	c.covered[d.ID] = &coveredDetection{rules: answers, hiddenShown: hiddenShown{
		ID: d.ID, ModTime: time.UnixMilli(d.ModTime).UTC(), Severity: e.SeverityWord(),
		Status: cmp.Or(transform.Text(jsonscan.At(e.Data(), "detection.status")), "none"),
		Title:  strings.ToValidUTF8(title[:min(len(title), maxTitle)], ""),
	}}
	return nil
}

// result returns the counts.
func (c *hideCounter) result() hideCount {
	c.Detections, c.ByStatus, c.BySeverity, c.Newest = len(c.seen), make(map[string]int), make(map[string]int), []hiddenShown{}
	for _, d := range c.covered {
		if d.rules[0] == hiding.Maybe {
			c.Unknown++
		}
		for i := range c.Wider {
			if d.rules[0] == hiding.No && d.rules[i+1] == hiding.Yes {
				c.Wider[i].More++
			}
		}
		if d.rules[0] != hiding.Yes {
			continue
		}
		c.Hidden++
		c.ByStatus[d.Status]++
		c.BySeverity[d.Severity]++
		if d.Status != "closed" && !d.away {
			c.Open++
		}
		c.Newest = append(c.Newest, d.hiddenShown)
	}
	slices.SortFunc(c.Newest, func(a, b hiddenShown) int { return cmp.Or(b.ModTime.Compare(a.ModTime), cmp.Compare(b.ID, a.ID)) })
	c.Newest = slices.Clip(c.Newest[:min(len(c.Newest), newestHidden)])
	return c.hideCount
}

// countHidden counts what a rule that hides a detection would have hidden.
func (c *command) countHidden(ctx context.Context, control *admin.Client, appliance string, id int64, scope hiding.Scope) (hideCount, error) {
	d, err := journalled(ctx, control, appliance, id)
	if err != nil {
		return hideCount{}, err
	}
	counter, err := newHideCounter(appliance, scope, d)
	if err != nil {
		return hideCount{}, err
	}
	var n atomic.Int64
	err = terminal.NewProgress(c.stderr).While(func(time.Duration) string {
		return terminal.Count(n.Load(), "event") + " of the journal counted"
	}, func() error {
		return control.Tail(ctx, admin.From{Since: time.UnixMilli(0), Live: func() error { return errTailed }}, func(e transform.Event) error {
			n.Add(1)
			return counter.add(e)
		})
	})
	if ctx.Err() != nil {
		return hideCount{}, context.Cause(ctx)
	}
	if !errors.Is(err, errTailed) {
		return hideCount{}, err
	}
	return counter.result(), nil
}

// journalled returns the last version of a detection that the state holds.
func journalled(ctx context.Context, control *admin.Client, appliance string, id int64) (d transform.Detection, err error) {
	found, err := admin.API.GetDetection.Call(ctx, control, admin.DetectionRequest{Appliance: appliance, ID: id})
	if err != nil {
		return d, err
	}
	for _, version := range found.Versions {
		if e, err := transform.Parse(version.Event); err == nil && !e.IsFollowUp() {
			return transform.ParseDetection(jsonscan.At(e.Data(), "detection"), false)
		}
	}
	searched := ""
	if !found.WholeJournal {
		searched = " since " + readable(found.SearchedSince)
	}
	return d, fmt.Errorf("the journal holds no version of detection %d%s, so who takes part in it is not known: read it again with ndrbridge rewind %s detections", id, searched, appliance)
}

// printHidden prints what a rule would have hidden.
func (c *command) printHidden(h hideCount, now time.Time) error {
	if c.asJSON {
		return c.printJSON(h)
	}
	line := func(name, format string, args ...any) {
		fmt.Fprintf(c.stdout, "%-11s %s\n", name, terminal.Printable(fmt.Sprintf(format, args...)))
	}
	line("rule", "%s, offender %s, victim %s", h.Rule.DetectionType, h.Rule.Offender, h.Rule.Victim)
	line("journal", "%s of %s; it reaches back %s", terminal.Count(h.Detections, "detection"), h.Appliance, terminal.Duration(now.Sub(h.JournalSince)))
	line("would hide", "%s, %d of them open", terminal.Count(h.Hidden, "detection"), h.Open)
	if h.Hidden > 0 {
		line("status", "%s", counts(h.ByStatus, slices.Sorted(maps.Keys(h.ByStatus))))
		severities := transform.SeverityTexts()
		slices.Reverse(severities)
		line("severity", "%s", counts(h.BySeverity, severities))
	}
	if h.Unknown > 0 {
		line("not counted", "%s whose participants are not known", terminal.Count(h.Unknown, "detection"))
	}
	for i, wider := range h.Wider {
		name := ""
		if i == 0 {
			name = "and more"
		}
		line(name, "%d with %s", wider.More, wider.Flags)
	}
	fmt.Fprintln(c.stdout)
	t := terminal.NewTable("ID", "MODIFIED", "STATUS", "SEVERITY", "TITLE")
	for _, d := range h.Newest {
		t.Add(d.ID, d.ModTime.Format(time.RFC3339), d.Status, severityColour(d.Severity).Cell(d.Severity), d.Title)
	}
	if h.Hidden > 0 {
		t.Print(c.stdout, c.width(), c.colours())
		fmt.Fprintln(c.stdout)
	}
	_, err := fmt.Fprintln(c.stdout, `These are the last versions in the journal. Not known are detections that the bridge has not
read, or no longer holds. The rule hides a detection whatever its properties are.`)
	return err
}

// counts returns the counts of some names, without those of 0.
func counts(of map[string]int, names []string) string {
	var parts []string
	for _, name := range names {
		if n := of[name]; n > 0 {
			parts = append(parts, fmt.Sprintf("%s %d", name, n))
		}
	}
	return strings.Join(parts, ", ")
}
