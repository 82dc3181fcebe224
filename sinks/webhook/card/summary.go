package card

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"ndrbridge/transform"
)

// Few is the maximum number of events with a card each. More at once are a burst, shown
// as one Summary.
const Few = 5

// OfAll returns the cards of at least one event: one for each of up to Few events,
// otherwise one Summary.
func OfAll(events []transform.Event) []Card {
	if len(events) > Few {
		return []Card{Summary(events)}
	}
	cards := make([]Card, len(events))
	for i, e := range events {
		cards[i] = Of(e)
	}
	return cards
}

// Summary returns one card for a burst of events: the counts by kind, detections by
// severity, and the most severe by name. Only the last version of a detection is
// counted, and follow-ups are counted by themselves.
func Summary(events []transform.Event) Card {
	latest := make(map[string]int) // index of each detection's last version
	others, followUps := map[string]int{}, map[string]int{}
	var own []Card // the bridge's own events, except heartbeats
	for i, e := range events {
		if e.IsFollowUp() {
			followUps[e.Action()]++
			continue
		}
		switch e.Stream() {
		case transform.StreamDetections:
			latest[e.Source+" "+e.Subject] = i
		case transform.StreamAudit:
			others["Audit log entries"]++
		case transform.StreamRecords:
			others["Records"]++
		default:
			if kindOf(e) != "heartbeat" {
				own = append(own, Of(e))
			}
		}
	}
	detections := make([]Card, 0, len(latest))
	for i, e := range events {
		if last, found := latest[e.Source+" "+e.Subject]; found && last == i {
			detections = append(detections, Of(e))
		}
	}
	slices.SortStableFunc(detections, func(a, b Card) int {
		return cmp.Or(cmp.Compare(b.Level, a.Level), cmp.Compare(number(b.Score), number(a.Score)))
	})

	c := Card{
		Title:     fmt.Sprintf("%d events at once", len(events)),
		Note:      "Too many to show one by one",
		Appliance: locations(events),
	}
	c.Where = c.Appliance
	if len(detections) > 0 {
		c.Title = fmt.Sprintf("%s in %d events", plural(len(detections), "detection"), len(events))
		c.Level = detections[0].Level
		c.fact("Detections", bySeverity(detections))
	}
	slices.SortStableFunc(own, func(a, b Card) int { return cmp.Compare(b.Level, a.Level) })
	for _, t := range own {
		c.Level = max(c.Level, t.Level)
	}
	for _, t := range own[:min(len(own), 2)] {
		c.fact("From the bridge", t.Title)
	}
	for _, kind := range []string{"Audit log entries", "Records"} {
		if n := others[kind]; n > 0 {
			c.fact(kind, strconv.Itoa(n))
		}
	}
	var counts []string
	for _, action := range slices.Sorted(maps.Keys(followUps)) {
		counts = append(counts, strconv.Itoa(followUps[action])+" "+action)
	}
	c.fact("Follow-ups", strings.Join(counts, ", "))
	for _, d := range detections[:min(len(detections), Few)] {
		name := capitalized(d.Level)
		if d.Score != "" {
			name += " " + d.Score
		}
		c.fact(name, d.Title+" ("+d.Where+")")
	}
	for _, e := range events {
		if e.Time.After(c.Time) {
			c.Time = e.Time
		}
	}
	return c
}

// bySeverity counts detections by level, the most severe first.
func bySeverity(detections []Card) string {
	var counts [transform.SeverityCritical + 1]int
	for _, d := range detections {
		counts[d.Level]++
	}
	var parts []string
	for level := transform.SeverityCritical; level >= transform.SeverityUnknown; level-- {
		if n := counts[level]; n > 0 {
			parts = append(parts, fmt.Sprintf("%d %v", n, level))
		}
	}
	return strings.Join(parts, ", ")
}

// number parses a score; it returns 0 if there is none.
func number(score string) float64 {
	n, _ := strconv.ParseFloat(score, 64)
	return n
}

// locations lists the appliances of the events.
func locations(events []transform.Event) string {
	var names []string
	for _, e := range events {
		if e.Appliance != "" && !slices.Contains(names, e.Appliance) {
			names = append(names, e.Appliance)
		}
	}
	return list(names)
}

func plural(n int, thing string) string {
	if n == 1 {
		return "1 " + thing
	}
	return strconv.Itoa(n) + " " + thing + "s"
}
