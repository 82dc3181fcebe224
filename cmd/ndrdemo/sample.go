package main

import (
	"encoding/json"
	"fmt"
	"strings"
	"unicode"

	"ndrbridge/internal/jsonscan"
	"ndrbridge/sinks/webhook/card"
	"ndrbridge/transform"
)

// sample formats an event on one line. For a detection, the line contains the time, the
// severity, the action, the title, the participants and the changed fields.
func sample(e transform.Event) (string, error) {
	when := e.Time.Local().Format("15:04:05")
	switch e.Stream() {
	case transform.StreamAudit:
		var data struct {
			Audit struct {
				Body struct{ Operation, Component, User string }
			}
		}
		if err := json.Unmarshal(e.Data(), &data); err != nil {
			return "", fmt.Errorf("event %s: %w", e.ID, err)
		}
		b := data.Audit.Body
		return printable(fmt.Sprintf("%s audit    %-7s %s, %s, by %s", when, e.Action(), b.Operation, b.Component, b.User)), nil
	case transform.StreamRecords:
		return printable(fmt.Sprintf("%s          %-7s record %s, %s", when, e.Action(), e.Subject, e.ID)), nil
	}
	if e.Stream() == transform.StreamEvents {
		var data struct {
			Ticket struct {
				ID     string `json:"ticket_id"`
				Status string
			}
		}
		if err := json.Unmarshal(e.Data(), &data); err != nil {
			return "", fmt.Errorf("event %s: %w", e.ID, err)
		}
		return printable(strings.TrimSpace(fmt.Sprintf("%s ticket   %-8s %s %s", when, e.Action(), data.Ticket.ID, data.Ticket.Status))), nil
	}
	var data struct {
		Detection struct {
			Title        string
			Participants []participant
		}
		Changes changes
	}
	if err := json.Unmarshal(e.Data(), &data); err != nil {
		return "", fmt.Errorf("event %s: %w", e.ID, err)
	}
	line := fmt.Sprintf("%s %-8s %-7s %-37s %s", when, card.SeverityOf(e), e.Action(),
		data.Detection.Title, between(data.Detection.Participants))
	if len(data.Changes) > 0 {
		line += " (" + strings.Join(data.Changes, ", ") + ")"
	}
	return printable(line), nil
}

// changes holds the names of the changed fields, in the order of the JSON object.
type changes []string

// UnmarshalJSON appends the names of an object's fields.
func (c *changes) UnmarshalJSON(object []byte) error {
	for name := range jsonscan.Members(object) {
		*c = append(*c, string(name))
	}
	return nil
}

type participant struct {
	Role     string
	Hostname string
	Address  string `json:"object_value"`
}

// name returns the short host name, or the address if there is none.
func (p participant) name() string {
	if host, _, _ := strings.Cut(p.Hostname, "."); host != "" {
		return host
	}
	return p.Address
}

// between formats the participants as offender → victim. It names the first of each and
// the number of others.
func between(participants []participant) string {
	var offenders, victims []string
	for _, p := range participants {
		if p.Role == "offender" {
			offenders = append(offenders, p.name())
		} else {
			victims = append(victims, p.name())
		}
	}
	switch {
	case len(victims) == 0:
		return firstOf(offenders)
	case len(offenders) == 0:
		return "→ " + firstOf(victims)
	}
	return firstOf(offenders) + " → " + firstOf(victims)
}

func firstOf(names []string) string {
	if len(names) < 2 {
		return strings.Join(names, "")
	}
	return fmt.Sprintf("%s +%d", names[0], len(names)-1)
}

// printable replaces characters that could control a terminal.
func printable(line string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsPrint(r) {
			return r
		}
		return unicode.ReplacementChar
	}, line)
}
