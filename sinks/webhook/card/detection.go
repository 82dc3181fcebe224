package card

import (
	"cmp"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"time"

	"ndrbridge/internal/jsonscan"
	"ndrbridge/transform"
)

// text is the content of a JSON string as one line, or a JSON number as written. Any
// other value decodes as "" without an error: ticket ids occur as both, and most fields
// may be null.
type text string

// UnmarshalJSON never fails.
func (t *text) UnmarshalJSON(b []byte) error {
	*t = ""
	switch {
	case b[0] == '"':
		var s string
		if json.Unmarshal(b, &s) == nil {
			*t = text(line(s))
		}
	case b[0] == '-' || '0' <= b[0] && b[0] <= '9':
		*t = text(b)
	}
	return nil
}

// millis is a time in milliseconds since the epoch; 0 if the value is not one.
type millis float64

// UnmarshalJSON never fails.
func (m *millis) UnmarshalJSON(b []byte) error {
	ms, _ := jsonscan.Millis(b) // 0 if it is no time
	*m = millis(ms)
	return nil
}

// clock formats the time for a card.
func (m millis) clock() string {
	if m == 0 {
		return ""
	}
	return time.UnixMilli(int64(m)).UTC().Format("2006-01-02 15:04:05 UTC")
}

// detectionData holds the fields of a detection event that a card shows.
type detectionData struct {
	Detection struct {
		Title        text          `json:"title"`
		Type         text          `json:"type"`
		RiskScore    text          `json:"risk_score"`
		Categories   []text        `json:"categories"`
		Participants []participant `json:"participants"`
		Tactics      []attack      `json:"mitre_tactics"`
		Techniques   []attack      `json:"mitre_techniques"`
		Status       text          `json:"status"`
		Resolution   text          `json:"resolution"`
		Assignee     text          `json:"assignee"`
		TicketID     text          `json:"ticket_id"`
		Start        millis        `json:"start_time"`
		End          millis        `json:"end_time"`
		URL          text          `json:"url"`
	} `json:"detection"`
	Changes map[string]change `json:"changes"`
	Devices []device          `json:"devices"`
	Format  text              `json:"format"`
	Link    text              `json:"link"`
}

type change struct {
	From json.RawMessage `json:"from"`
	To   json.RawMessage `json:"to"`
	// Which participants differ.
	Added   []participant `json:"added"`
	Removed []participant `json:"removed"`
	Changed []participant `json:"changed"`
}

type attack struct {
	ID   text `json:"id"`
	Name text `json:"name"`
}

type participant struct {
	Role       text `json:"role"`
	ObjectType text `json:"object_type"`
	ObjectID   text `json:"object_id"`
	Value      text `json:"object_value"`
	Hostname   text `json:"hostname"`
	Username   text `json:"username"`
}

type device struct {
	ID   text `json:"id"`
	Name text `json:"display_name"`
}

// unpack decodes the fields that have the expected shape and leaves the others zero: an
// incomplete card is better than none.
func unpack(data []byte, into any) { _ = json.Unmarshal(data, into) }

func (c *Card) detection(e transform.Event) {
	var data detectionData
	unpack(e.Data(), &data)
	d := &data.Detection
	c.Score = score(d.RiskScore)
	c.Level, _ = e.Severity()
	c.Title = string(cmp.Or(d.Title, data.Format, d.Type, text("Detection "+e.Subject)))
	c.Status = string(d.Status)
	if c.Link = link(string(data.Link)); c.Link == "" {
		c.Link = link(string(d.URL))
	}
	c.Note = fmt.Sprintf("Detection %s at %s, %s", e.Subject, e.Appliance, e.Action())
	if e.IsFollowUp() {
		c.followUp(e)
		return
	}

	names := make(map[text]text, len(data.Devices))
	for _, device := range data.Devices {
		names[device.ID] = device.Name
	}
	offenders, victims := endpoints(d.Participants, "offender", names), endpoints(d.Participants, "victim", names)
	switch {
	case len(offenders) > 0 && len(victims) > 0:
		c.fact("Offender → victim", list(offenders)+" → "+list(victims))
	case len(offenders) > 0:
		c.fact("Offender", list(offenders))
	default:
		c.fact("Victim", list(victims))
	}
	if all := append(offenders, victims...); len(all) > 0 {
		c.Where = all[0].short()
	}
	c.fact("Devices", e.ContextSummary())
	c.fact("Changed", changed(data.Changes, names))
	c.fact("Status", joined(", ", d.Status, d.Resolution))
	c.fact("Ticket", string(d.TicketID))
	c.fact("Assignee", string(d.Assignee))
	c.fact("ATT&CK", attacks(d.Tactics, d.Techniques))
	c.fact("Categories", list(d.Categories))
	c.fact("Time", joined(" to ", text(d.Start.clock()), text(d.End.clock())))
}

// score returns a risk score as written if it is a number of reasonable length;
// otherwise "".
func score(riskScore text) string {
	if _, err := strconv.ParseFloat(string(riskScore), 64); err != nil || len(riskScore) > len("99.9999") {
		return ""
	}
	return string(riskScore)
}

// endpoint is a participating machine or person, identified by a name, an address or
// both.
type endpoint struct{ name, address string }

func (e endpoint) String() string {
	if e.name == "" || e.address == "" || e.name == e.address {
		return e.short()
	}
	return e.name + " (" + e.address + ")"
}

func (e endpoint) short() string { return cmp.Or(e.name, e.address) }

// endpoints returns the participants with a role.
func endpoints(participants []participant, role text, devices map[text]text) []endpoint {
	var found []endpoint
	for _, p := range participants {
		if e := p.endpoint(devices); p.Role == role && e.short() != "" {
			found = append(found, e)
		}
	}
	return found
}

// endpoint returns the participant's endpoint, given the names of devices.
func (p participant) endpoint(devices map[text]text) endpoint {
	e := endpoint{name: string(p.Hostname), address: string(p.Value)}
	if e.name == "" && p.ObjectType == "device" {
		e.name = string(devices[p.ObjectID])
	}
	if e.short() == "" {
		e.name = string(p.Username)
	}
	if e.short() == "" && p.ObjectID != "" {
		e.name = joined(" ", p.ObjectType, p.ObjectID)
	}
	return e
}

// moved describes the participants that differ, given the names of devices; "" if these are not
// known.
func (c change) moved(devices map[text]text) string {
	var parts []string
	for _, of := range []struct {
		verb         string
		participants []participant
	}{{"joined", c.Added}, {"left", c.Removed}, {"changed", c.Changed}} {
		n := len(of.participants)
		if n == 0 {
			continue
		}
		noun := "participants"
		if n == 1 {
			noun = "participant"
		}
		part := fmt.Sprintf("%d %s %s", n, noun, of.verb)
		var names []string
		for _, p := range of.participants {
			if e := p.endpoint(devices); e.short() != "" {
				names = append(names, e.short())
			}
		}
		if len(names) > 0 {
			part += ": " + list(names)
		}
		parts = append(parts, part)
	}
	return strings.Join(parts, ", ")
}

// changed describes the changed fields in the order of transform.TrackedFields, given the names of
// devices.
func changed(changes map[string]change, devices map[text]text) string {
	var parts []string
	for _, field := range transform.TrackedFields() {
		change, ok := changes[field]
		if !ok {
			continue
		}
		name := strings.ReplaceAll(field, "_", " ")
		var from, to text
		unpack(change.From, &from)
		unpack(change.To, &to)
		moved := change.moved(devices)
		switch {
		case moved != "":
			parts = append(parts, moved)
		case field == "end_time" || from == "" && to == "":
			parts = append(parts, name)
		case field == "participants":
			parts = append(parts, fmt.Sprintf("%s from %s to %s", name, from, to))
		case to == "":
			parts = append(parts, name+" removed")
		case from == "":
			parts = append(parts, name+" "+string(to))
		default:
			parts = append(parts, fmt.Sprintf("%s from %s to %s", name, from, to))
		}
	}
	return strings.Join(parts, ", ")
}

// attacks lists tactics, then techniques.
func attacks(tactics, techniques []attack) string {
	var names []string
	for _, a := range append(tactics[:len(tactics):len(tactics)], techniques...) {
		if name := joined(" ", a.ID, a.Name); name != "" {
			names = append(names, name)
		}
	}
	return list(names)
}

// maxListed is the number of names shown of a list.
const maxListed = 5

// list joins names with commas; if there are more than maxListed it adds how many.
func list[T any](names []T) string {
	var b strings.Builder
	for i, name := range names {
		switch {
		case i == maxListed:
			fmt.Fprintf(&b, " and %d more", len(names)-maxListed)
			return b.String()
		case i > 0:
			b.WriteString(", ")
		}
		fmt.Fprint(&b, name)
	}
	return b.String()
}

// joined joins the values that are not empty.
func joined(separator string, values ...text) string {
	var parts []string
	for _, value := range values {
		if value != "" {
			parts = append(parts, string(value))
		}
	}
	return strings.Join(parts, separator)
}
