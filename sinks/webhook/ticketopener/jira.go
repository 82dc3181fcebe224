package ticketopener

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"ndrbridge/sinks"
	"ndrbridge/sinks/webhook"
	"ndrbridge/sinks/webhook/card"
	"ndrbridge/transform"
)

// JiraOptions configure the issues.
type JiraOptions struct {
	// URL is the site's URL, such as https://example.atlassian.net.
	URL string
	// Project is the project's key, and Type the name of the issue type.
	Project, Type string
	// Labels are set in addition to the label that identifies the detection; they must
	// not contain spaces.
	Labels []string
	// Priorities are the names of priorities by severity in lower case. For a severity
	// without one, the project's default applies.
	Priorities map[string]string
}

// Jira opens issues in Jira Cloud, by its REST API, version 3
// (https://developer.atlassian.com/cloud/jira/platform/rest/v3/).
type Jira struct {
	o              JiraOptions
	site           *url.URL
	issues, search *url.URL
}

var _ System = (*Jira)(nil)

// NewJira returns a Jira. The error names the faulty option.
func NewJira(o JiraOptions) (*Jira, error) {
	site, err := siteOf(o.URL)
	if err != nil {
		return nil, fmt.Errorf("jira: %w", err)
	}
	if o.Project == "" || o.Type == "" {
		return nil, errors.New("jira: project or type is missing")
	}
	return &Jira{o: o, site: site, issues: site.JoinPath("rest/api/3/issue"), search: site.JoinPath("rest/api/3/search/jql")}, nil
}

// siteOf parses the base URL of a system and removes its credentials.
func siteOf(text string) (*url.URL, error) {
	site, err := url.Parse(text)
	if err != nil {
		return nil, errors.New("url cannot be parsed")
	}
	site.User, site.RawQuery = nil, ""
	return site.JoinPath("/"), nil // JoinPath to an empty path would omit the slash
}

func (j *Jira) find(e transform.Event) (*webhook.Request, error) {
	body, err := json.Marshal(map[string]any{
		// strconv.Quote produces valid JQL strings.
		"jql":        "project = " + strconv.Quote(j.o.Project) + " AND labels = " + strconv.Quote(label(e)) + " ORDER BY created ASC",
		"fields":     []string{"summary"}, // without a field, the answer has no keys
		"maxResults": 1,
	})
	if err != nil {
		return nil, sinks.Unsendable("encode a search: %w", err)
	}
	return &webhook.Request{URL: j.search, Body: body}, nil
}

func (j *Jira) found(_ transform.Event, a webhook.Answer) (Ticket, bool, error) {
	if a.Status == http.StatusBadRequest { // the project does not exist or is not accessible
		return Ticket{}, false, a.Error(sinks.Halted)
	}
	var reply struct {
		Issues []struct{ Key string }
	}
	if err := decode(a, sinks.Halted, &reply); err != nil {
		return Ticket{}, false, err
	}
	switch {
	case reply.Issues == nil:
		return Ticket{}, false, sinks.Errorf(sinks.Halted, "the answer to a search has no issues; check url")
	case len(reply.Issues) == 0:
		return Ticket{}, false, nil
	case reply.Issues[0].Key == "":
		return Ticket{}, false, sinks.Errorf(sinks.Halted, "the answer to a search has an issue without a key; check url")
	}
	return j.ticket(reply.Issues[0].Key), true, nil
}

func (j *Jira) ticket(key string) Ticket {
	return Ticket{ID: key, URL: j.site.JoinPath("browse", key).String()}
}

// issue is the body of a request that creates an issue.
type issue struct {
	Project     named    `json:"project"`
	IssueType   named    `json:"issuetype"`
	Summary     string   `json:"summary"`
	Description node     `json:"description"`
	Labels      []string `json:"labels"`
	Priority    *named   `json:"priority,omitempty"`
}

// named refers to an object by key or name.
type named struct {
	Key  string `json:"key,omitempty"`
	Name string `json:"name,omitempty"`
}

func (j *Jira) open(e transform.Event) (webhook.Request, error) {
	const maxSummary = 254
	c := card.Of(e)
	i := issue{
		Project: named{Key: j.o.Project}, IssueType: named{Name: j.o.Type},
		Summary:     card.Fit(c.Headline(), maxSummary, card.Plain),
		Description: document(c),
		Labels:      append(slices.Clone(j.o.Labels), label(e)),
	}
	if priority := j.o.Priorities[strings.ToLower(c.Level.String())]; priority != "" {
		i.Priority = &named{Name: priority}
	}
	body, err := json.Marshal(map[string]issue{"fields": i})
	if err != nil {
		return webhook.Request{}, sinks.Unsendable("encode an issue: %w", err)
	}
	return webhook.Request{URL: j.issues, Body: body}, nil
}

// opened parses the answer to open. Jira answers 400 to an invalid text as well as to
// an invalid configuration; the fields it names distinguish them.
func (j *Jira) opened(a webhook.Answer) (Ticket, error) {
	var reply struct {
		Key    string
		Errors map[string]string
	}
	if a.Status == http.StatusBadRequest {
		_ = json.Unmarshal(a.Body, &reply) // if it is not JSON, no field is named
		for _, field := range []string{"project", "issuetype", "priority", "labels"} {
			if reply.Errors[field] != "" {
				return Ticket{}, a.Error(sinks.Halted)
			}
		}
	}
	if err := decode(a, sinks.Transient, &reply); err != nil {
		return Ticket{}, err
	}
	if reply.Key == "" {
		return Ticket{}, sinks.Errorf(sinks.Transient, "%w", errNoTicket)
	}
	return j.ticket(reply.Key), nil
}
