package ticket

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

// JiraOptions say what issues look like.
type JiraOptions struct {
	// URL is that of the site, such as https://example.atlassian.net.
	URL string
	// Project is the project's key, and Type the name of the issue's type.
	Project, Type string
	// Labels are beside the one by which an issue is found again; without blanks.
	Labels []string
	// Priorities are the names of priorities, by the words of severities in lower
	// case. Of a severity that is not among them the project's default is taken.
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

// NewJira returns a Jira. The error tells the option that is wrong.
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

// siteOf reads the address of a system, without credentials.
func siteOf(text string) (*url.URL, error) {
	site, err := url.Parse(text)
	if err != nil {
		return nil, errors.New("url cannot be parsed")
	}
	site.User, site.RawQuery = nil, ""
	return site.JoinPath("/"), nil // what is joined to an empty path would have no slash
}

func (j *Jira) find(e transform.Event) (*webhook.Request, error) {
	body, err := json.Marshal(map[string]any{
		// Names in quotes, as strconv.Quote writes them, are JQL's strings.
		"jql":        "project = " + strconv.Quote(j.o.Project) + " AND labels = " + strconv.Quote(label(e)) + " ORDER BY created ASC",
		"fields":     []string{"summary"}, // without any, the answer has no keys
		"maxResults": 1,
	})
	if err != nil {
		return nil, sinks.Unsendable("encode a search: %w", err)
	}
	return &webhook.Request{URL: j.search, Body: body}, nil
}

func (j *Jira) found(_ transform.Event, a webhook.Answer) (Ticket, bool, error) {
	if a.Status == http.StatusBadRequest { // the project is not there, or not for us
		return Ticket{}, false, a.Error(sinks.Halted)
	}
	var said struct {
		Issues []struct{ Key string }
	}
	if err := decode(a, sinks.Halted, &said); err != nil {
		return Ticket{}, false, err
	}
	switch {
	case said.Issues == nil:
		return Ticket{}, false, sinks.Errorf(sinks.Halted, "the answer to a search has no issues; check url")
	case len(said.Issues) == 0:
		return Ticket{}, false, nil
	case said.Issues[0].Key == "":
		return Ticket{}, false, sinks.Errorf(sinks.Halted, "the answer to a search names no issue; check url")
	}
	return j.ticket(said.Issues[0].Key), true, nil
}

func (j *Jira) ticket(key string) Ticket {
	return Ticket{ID: key, URL: j.site.JoinPath("browse", key).String()}
}

// issue is an issue to be made.
type issue struct {
	Project     named    `json:"project"`
	IssueType   named    `json:"issuetype"`
	Summary     string   `json:"summary"`
	Description node     `json:"description"`
	Labels      []string `json:"labels"`
	Priority    *named   `json:"priority,omitempty"`
}

// named is what Jira knows by a key or by a name.
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

// opened reads the answer to open. Jira refuses by 400 what is wrong with the
// detection's text as well as what is wrong with the configuration, and names the
// fields.
func (j *Jira) opened(a webhook.Answer) (Ticket, error) {
	var said struct {
		Key    string
		Errors map[string]string
	}
	if a.Status == http.StatusBadRequest {
		_ = json.Unmarshal(a.Body, &said) // what is no JSON names no fields
		for _, ours := range []string{"project", "issuetype", "priority", "labels"} {
			if said.Errors[ours] != "" {
				return Ticket{}, a.Error(sinks.Halted)
			}
		}
	}
	if err := decode(a, sinks.Transient, &said); err != nil {
		return Ticket{}, err
	}
	if said.Key == "" {
		return Ticket{}, sinks.Errorf(sinks.Transient, "%w", errNoTicket)
	}
	return j.ticket(said.Key), nil
}
