package configs

import (
	"maps"
	"slices"
	"strings"
	"time"

	"ndrbridge/sinks/webhook/ticketopener"
)

// TicketGroup configures one ticket for many detections of an appliance: the first opens it, and
// each other one with the same values becomes a comment and is linked with it, until it is closed.
// It is moved to closed once all of its detections are, and reopened with one of them.
//
//	sinks:
//	  - name: tickets
//	    webhook:
//	      url: https://corp.atlassian.net
//	      auth: {username: bridge@corp.example, password_file: /run/secrets/jira-token}
//	      ticket: {system: jira, project: SEC, group: {by: [type, offender], window: 24h, max: 200}}
//	tickets: {enabled: true}
type TicketGroup struct {
	// By are the fields whose values are the same: all offenders, for example. A detection
	// without any value of one of them has a ticket of its own.
	By []string `yaml:"by" required:"true" oneof:"type,categories,offender,victim"`
	// Window is how far the time of a detection may be from that of the first one.
	Window Duration `yaml:"window" default:"24h" min:"1m"`
	// Max is how many detections a ticket has at most; the next one opens another.
	Max int `yaml:"max" default:"200" min:"2" max:"1000"`
}

// Grouping returns how detections are grouped; nil if each has a ticket of its own.
func (t TicketOpener) Grouping() *ticketopener.Group {
	if t.Group == nil {
		return nil
	}
	return &ticketopener.Group{By: t.Group.By, Window: time.Duration(t.Group.Window), Max: t.Group.Max}
}

// needs reports whether detections are grouped by values of a path of redaction.
func (g *TicketGroup) needs(path string) bool {
	if g == nil {
		return false
	}
	return slices.ContainsFunc(g.By, func(field string) bool {
		if field == "offender" || field == "victim" {
			field = "participants"
		}
		return path == "detection."+field || strings.HasPrefix(path, "detection."+field+".")
	})
}

// TicketFollow configures how a ticket follows its detection. A change becomes at most one
// comment. A person's later move of the ticket is kept, and reported as ticket.conflict.
//
//	sinks:
//	  - name: tickets
//	    webhook:
//	      url: https://corp.atlassian.net
//	      auth: {username: bridge@corp.example, password_file: /run/secrets/jira-token}
//	      ticket:
//	        system: jira
//	        project: SEC
//	        follow:
//	          comment: [status, assignee, risk_score, noted, hidden]
//	          states: {closed: {to: Done, fields: {resolution: Done}}, reopened: {to: To Do}}
//	          people: {ana: 5b10ac8d82e05b22cc7d4ef5}
//	tickets: {enabled: true}
type TicketFollow struct {
	// Comment lists what becomes a comment: fields of a detection that change, the note of a
	// person (noted), the end and return of its visibility (hidden), and evidence.
	Comment []string `yaml:"comment" oneof:"status,resolution,assignee,risk_score,participants,title,categories,noted,hidden,evidence"`
	// States are the moves of the ticket by the detection's status; reopened is that of one
	// that was closed, and takes precedence.
	States TicketMoves `yaml:"states"`
	// KeepClosed are statuses that the ticket is never moved out of.
	KeepClosed []string `yaml:"keep_closed"`
	// People are the ticket system's accounts by those of the appliance: account ids with jira,
	// sys_ids with servicenow, names with rt, ids with redmine. An assignee without one is not
	// assigned.
	People map[string]string `yaml:"people"`
	// OpenAgain opens another ticket for one that was deleted.
	OpenAgain bool `yaml:"open_again"`
}

// TicketMoves are the moves of a ticket by the detection's status.
type TicketMoves struct {
	InProgress   TicketMove `yaml:"in_progress"`
	Acknowledged TicketMove `yaml:"acknowledged"`
	Closed       TicketMove `yaml:"closed"`
	Reopened     TicketMove `yaml:"reopened"`
}

// TicketMove is how a ticket gets another status.
type TicketMove struct {
	// To is a status; with jira, also a transition by its id or name; with servicenow, a value of
	// the column state. Absent: the ticket is not moved.
	To string `yaml:"to"`
	// Fields are set with the move, by their names.
	Fields map[string]string `yaml:"fields"`
}

// Following returns how tickets follow; nil if they do not.
func (t TicketOpener) Following() *ticketopener.Follow {
	f := t.Follow
	if f == nil {
		return nil
	}
	states := map[string]ticketopener.Move{}
	for status, m := range f.States.all() {
		if m.To != "" {
			states[status] = ticketopener.Move{To: m.To, Fields: m.Fields}
		}
	}
	return &ticketopener.Follow{Comment: f.Comment, States: states, KeepClosed: f.KeepClosed, People: f.People, OpenAgain: f.OpenAgain}
}

func (m TicketMoves) all() map[string]TicketMove {
	return map[string]TicketMove{"in_progress": m.InProgress, "acknowledged": m.Acknowledged, "closed": m.Closed, "reopened": m.Reopened}
}

// ticketFollow checks the follow block of tickets at a path.
func (c checks) ticketFollow(path string, t *TicketOpener) {
	f := t.Follow
	if f == nil {
		return
	}
	states := f.States.all()
	for _, status := range slices.Sorted(maps.Keys(states)) {
		switch m := states[status]; {
		case m.To == "" && len(m.Fields) > 0:
			c.missing(join(path+".states", status) + ".to")
		case t.System == systemServiceNow && strings.Trim(m.To, "0123456789") != "":
			c.wrong(join(path+".states", status)+".to", "%q is not a value of the column state; write the number, such as \"6\" for Resolved", m.To)
		}
	}
	if t.System == systemRedmine {
		for _, name := range slices.Sorted(maps.Keys(f.People)) {
			c.redmineID(join(path+".people", printable(name)), f.People[name])
		}
	}
	if f.States.Reopened.To != "" && f.States.Closed.To == "" {
		c.wrong(path+".states.reopened", "is set without closed: no ticket would be closed that could be reopened; set both")
	}
}
