package ticketopener

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"ndrbridge/internal/failure"
	"ndrbridge/sinks/webhook"
	"ndrbridge/sinks/webhook/card"
	"ndrbridge/transform"
)

// RedmineOptions configure the issues of Redmine.
type RedmineOptions struct {
	// URL is Redmine's, such as https://redmine.example.
	URL string
	// Project is the project's identifier, and Tracker the id of the tracker; empty: the
	// project's first.
	Project, Tracker string
	// Priorities are ids of priorities by severity in lower case. For a severity without one,
	// Redmine's default applies.
	Priorities map[string]string
	// Fields are the values of other attributes of an issue, such as category_id; cf_3 is the
	// custom field with the id 3.
	Fields map[string]string
}

// redmine creates issues in Redmine. The last line of the description finds them again.
type redmine struct {
	RedmineOptions
	site *url.URL
}

// NewRedmine returns a System that creates issues in Redmine 5, by its REST API
// (https://www.redmine.org/projects/redmine/wiki/Rest_Issues). The error names the faulty option.
func NewRedmine(o RedmineOptions) (System, error) {
	site, err := siteOf(o.URL)
	if err != nil {
		return nil, fmt.Errorf("redmine: %w", err)
	}
	return redmine{o, site}, nil
}

func (redmine) secrets() []string { return nil }

func (redmine) bearer() string { return "X-Redmine-API-Key: " }

func (redmine) searchable() bool { return true }

// redmineIssue is an issue as Redmine shows it.
type redmineIssue struct {
	ID          int64
	Description string
	Status      struct {
		Name     string
		IsClosed bool `json:"is_closed"`
	}
	AssignedTo struct{ ID int64 } `json:"assigned_to"`
	Journals   []struct {
		ID        int64
		User      struct{ Name string }
		Notes     string
		Private   bool      `json:"private_notes"`
		CreatedOn time.Time `json:"created_on"`
		Details   []struct{ Name string }
	}
	AllowedStatuses []redmineName `json:"allowed_statuses"`
}

// redmineName is a status, a role or a person as Redmine shows it.
type redmineName struct {
	ID   int64
	Name string
}

func (n redmineName) id() string { return strconv.FormatInt(n.ID, 10) }

func (n redmineName) String() string { return n.Name + " (" + n.id() + ")" }

// is reports whether a status is configured by its id or name.
func (n redmineName) is(to string) bool { return to == n.id() || strings.EqualFold(to, n.Name) }

// redmineNames returns names for people.
func redmineNames(of []redmineName) (all []string) {
	for _, n := range of {
		all = append(all, n.String())
	}
	return all
}

// mark is the line of a description by which an issue is found again.
func mark(e transform.Event) string { return "[" + label(e) + "]" }

func (r redmine) find(ctx context.Context, c *webhook.Conversation, e transform.Event) (Ticket, error) {
	target := r.site.JoinPath("issues.json")
	target.RawQuery = url.Values{
		"project_id": {r.Project}, "status_id": {"*"}, "description": {"~" + mark(e)}, "sort": {"id"}, "limit": {"1"},
	}.Encode()
	a, err := c.Do(ctx, webhook.Request{Method: http.MethodGet, URL: target})
	if err != nil {
		return Ticket{}, err
	}
	var reply struct{ Issues []redmineIssue }
	if err := decode(a, failure.Halted, &reply); err != nil {
		return Ticket{}, err
	}
	switch {
	case reply.Issues == nil:
		return Ticket{}, failure.Errorf(failure.Halted, "the answer to a search has no issues; check url")
	case len(reply.Issues) == 0:
		return Ticket{}, nil
	// Redmine ignores an unknown filter and returns all issues.
	case !strings.Contains(reply.Issues[0].Description, mark(e)), reply.Issues[0].ID == 0:
		return Ticket{}, failure.Errorf(failure.Halted, "issues cannot be searched by their description; check url")
	}
	return r.ticket(reply.Issues[0]), nil
}

func (r redmine) ticket(i redmineIssue) Ticket {
	id := strconv.FormatInt(i.ID, 10)
	return Ticket{ID: id, URL: r.site.JoinPath("issues", id).String(), status: i.Status.Name}
}

func (r redmine) open(e transform.Event) (webhook.Request, error) {
	const maxSubject, maxDescription = 255, 15_000 // 64 KiB in some databases
	c := card.Of(e)
	issue := map[string]any{
		"project_id": r.Project, "subject": card.Fit(c.Headline(), maxSubject, card.Plain),
		"description": card.Fit(plainText(c), maxDescription, card.Plain) + "\n\n" + mark(e),
	}
	if r.Tracker != "" {
		issue["tracker_id"] = r.Tracker
	}
	if priority := r.Priorities[c.Level.String()]; priority != "" {
		issue["priority_id"] = priority
	}
	setAttributes(issue, r.Fields)
	body, err := json.Marshal(map[string]any{"issue": issue})
	if err != nil {
		return webhook.Request{}, failure.Unsendable("encode an issue: %w", err)
	}
	return webhook.Request{URL: r.site.JoinPath("issues.json"), Body: body}, nil
}

// setAttributes sets configured attributes of an issue.
func setAttributes(issue map[string]any, fields map[string]string) {
	var custom []map[string]string
	for name, value := range fields {
		if id, ok := strings.CutPrefix(name, "cf_"); ok {
			custom = append(custom, map[string]string{"id": id, "value": value})
			issue["custom_fields"] = custom
		} else {
			issue[name] = value
		}
	}
}

func (r redmine) opened(a webhook.Answer) (Ticket, error) {
	var reply struct{ Issue redmineIssue }
	if err := decode(a, failure.Transient, &reply); err != nil {
		return Ticket{}, err
	}
	if reply.Issue.ID == 0 {
		return Ticket{}, failure.Errorf(failure.Transient, "%w", errNoTicket)
	}
	return r.ticket(reply.Issue), nil
}

// issueURL returns the address of an issue.
func (r redmine) issueURL(t Ticket) *url.URL { return r.site.JoinPath("issues", t.ID+".json") }

// get reads an issue with what include names.
func (r redmine) get(ctx context.Context, c *webhook.Conversation, t Ticket, include string) (redmineIssue, error) {
	target := r.issueURL(t)
	target.RawQuery = url.Values{"include": {include}}.Encode()
	a, err := c.Do(ctx, webhook.Request{Method: http.MethodGet, URL: target})
	if err != nil {
		return redmineIssue{}, err
	}
	if a.Status == http.StatusNotFound || a.Status == http.StatusForbidden {
		return redmineIssue{}, errLost
	}
	var reply struct{ Issue redmineIssue }
	if err := decode(a, failure.Transient, &reply); err != nil {
		return redmineIssue{}, err
	}
	if reply.Issue.Status.Name == "" {
		return redmineIssue{}, failure.Errorf(failure.Transient, "the issue has no status: %s", a.QuoteBody())
	}
	return reply.Issue, nil
}

func (r redmine) read(ctx context.Context, c *webhook.Conversation, t Ticket) (Standing, error) {
	i, err := r.get(ctx, c, t, "journals")
	if err != nil {
		return Standing{}, err
	}
	now := Standing{Status: i.Status.Name, Closed: i.Status.IsClosed}
	if i.AssignedTo.ID != 0 {
		now.Assignee = strconv.FormatInt(i.AssignedTo.ID, 10)
	}
	for _, journal := range i.Journals {
		for _, detail := range journal.Details {
			if detail.Name == "status_id" && journal.CreatedOn.After(now.Moved) {
				now.Moved = journal.CreatedOn
			}
		}
	}
	return now, nil
}

// step finds a status among those that the account may set now: Redmine ignores others.
func (r redmine) step(ctx context.Context, c *webhook.Conversation, t Ticket, to string) (Step, error) {
	i, err := r.get(ctx, c, t, "allowed_statuses")
	if err != nil {
		return Step{}, err
	}
	if n := slices.IndexFunc(i.AllowedStatuses, func(s redmineName) bool { return s.is(to) }); n >= 0 {
		return Step{ID: i.AllowedStatuses[n].id(), Status: i.AllowedStatuses[n].Name}, nil
	}
	return Step{}, failure.Errorf(failure.Rejected, "the account may not set the status %q now; it may set %s", to, c.Quote(strings.Join(redmineNames(i.AllowedStatuses), ", ")))
}

func (r redmine) move(ctx context.Context, c *webhook.Conversation, t Ticket, s Step, fields map[string]string) error {
	issue := map[string]any{"status_id": s.ID}
	setAttributes(issue, marked(fields, "notes"))
	return r.update(ctx, c, t, issue)
}

func (r redmine) assign(ctx context.Context, c *webhook.Conversation, t Ticket, account string) error {
	return r.update(ctx, c, t, map[string]any{"assigned_to_id": account})
}

func (r redmine) comment(ctx context.Context, c *webhook.Conversation, t Ticket, text string) error {
	return r.update(ctx, c, t, map[string]any{"notes": text})
}

func (r redmine) comments(ctx context.Context, c *webhook.Conversation, t Ticket, skip int) ([]Comment, error) {
	i, err := r.get(ctx, c, t, "journals")
	if err != nil {
		return nil, err
	}
	var all []Comment
	for _, journal := range slices.Backward(i.Journals) {
		if journal.Notes == "" {
			continue
		}
		one := Comment{ID: strconv.FormatInt(journal.ID, 10), Author: journal.User.Name, Time: journal.CreatedOn}
		if !journal.Private {
			one.Text = journal.Notes
		}
		all = append(all, one)
	}
	slices.SortStableFunc(all, func(a, b Comment) int { return b.Time.Compare(a.Time) }) // accounts choose the order
	skip = min(skip, len(all))
	return all[skip:min(skip+maxComments, len(all))], nil
}

// update changes attributes of an issue.
func (r redmine) update(ctx context.Context, c *webhook.Conversation, t Ticket, issue map[string]any) error {
	_, err := change(ctx, c, http.MethodPut, r.issueURL(t), map[string]any{"issue": issue})
	return err
}
