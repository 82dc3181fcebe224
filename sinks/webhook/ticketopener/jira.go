package ticketopener

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"

	"ndrbridge/internal/failure"
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

// jira opens issues.
type jira struct {
	JiraOptions
	site *url.URL
}

// NewJira returns a System that opens issues in Jira Cloud, by its REST API, version 3
// (https://developer.atlassian.com/cloud/jira/platform/rest/v3/). The error names the
// faulty option.
func NewJira(o JiraOptions) (System, error) {
	site, err := siteOf(o.URL)
	if err != nil {
		return nil, fmt.Errorf("jira: %w", err)
	}
	return jira{o, site}, nil
}

func (jira) secrets() []string { return nil }

// siteOf parses the base URL of a system and removes its credentials.
func siteOf(text string) (*url.URL, error) {
	site, err := url.Parse(text)
	if err != nil {
		return nil, errors.New("url cannot be parsed")
	}
	site.User, site.RawQuery = nil, ""
	return site.JoinPath("/"), nil // JoinPath to an empty path would omit the slash
}

func (jira) searchable() bool { return true }

func (j jira) find(ctx context.Context, c *webhook.Conversation, e transform.Event) (Ticket, error) {
	body, err := json.Marshal(map[string]any{
		// strconv.Quote produces valid JQL strings.
		"jql":        "project = " + strconv.Quote(j.Project) + " AND labels = " + strconv.Quote(label(e)) + " ORDER BY created ASC",
		"fields":     []string{"summary"}, // without a field, the answer has no keys
		"maxResults": 1,
	})
	if err != nil {
		return Ticket{}, failure.Unsendable("encode a search: %w", err)
	}
	a, err := c.Do(ctx, webhook.Request{URL: j.site.JoinPath("rest/api/3/search/jql"), Body: body})
	if err != nil {
		return Ticket{}, err
	}
	return j.found(a)
}

// found parses the answer to find.
func (j jira) found(a webhook.Answer) (Ticket, error) {
	if a.Status == http.StatusBadRequest { // the project does not exist or is not accessible
		return Ticket{}, a.Error(failure.Halted)
	}
	var reply struct {
		Issues []struct{ ID, Key string }
	}
	if err := decode(a, failure.Halted, &reply); err != nil {
		return Ticket{}, err
	}
	switch {
	case reply.Issues == nil:
		return Ticket{}, failure.Errorf(failure.Halted, "the answer to a search has no issues; check url")
	case len(reply.Issues) == 0:
		return Ticket{}, nil
	case reply.Issues[0].Key == "":
		return Ticket{}, failure.Errorf(failure.Halted, "the answer to a search has an issue without a key; check url")
	}
	return j.ticket(reply.Issues[0].ID, reply.Issues[0].Key), nil
}

func (j jira) ticket(id, key string) Ticket {
	return Ticket{ID: key, Key: id, URL: j.site.JoinPath("browse", key).String()}
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

func (j jira) open(e transform.Event) (webhook.Request, error) {
	const maxSummary = 254
	c := card.Of(e)
	i := issue{
		Project: named{Key: j.Project}, IssueType: named{Name: j.Type},
		Summary:     card.Fit(c.Headline(), maxSummary, card.Plain),
		Description: document(c),
		Labels:      append(slices.Clone(j.Labels), label(e)),
	}
	if priority := j.Priorities[c.Level.String()]; priority != "" {
		i.Priority = &named{Name: priority}
	}
	body, err := json.Marshal(map[string]issue{"fields": i})
	if err != nil {
		return webhook.Request{}, failure.Unsendable("encode an issue: %w", err)
	}
	return webhook.Request{URL: j.site.JoinPath("rest/api/3/issue"), Body: body}, nil
}

// opened parses the answer to open. Jira answers 400 to an invalid text as well as to
// an invalid configuration; the fields it names distinguish them.
func (j jira) opened(a webhook.Answer) (Ticket, error) {
	var reply struct {
		ID, Key string
		Errors  map[string]string
	}
	if a.Status == http.StatusBadRequest {
		_ = json.Unmarshal(a.Body, &reply) // if it is not JSON, no field is named
		for _, field := range []string{"project", "issuetype", "priority", "labels"} {
			if reply.Errors[field] != "" {
				return Ticket{}, a.Error(failure.Halted)
			}
		}
	}
	if err := decode(a, failure.Transient, &reply); err != nil {
		return Ticket{}, err
	}
	if reply.Key == "" {
		return Ticket{}, failure.Errorf(failure.Transient, "%w", errNoTicket)
	}
	return j.ticket(reply.ID, reply.Key), nil
}

// node is a node of Atlassian's document format
// (https://developer.atlassian.com/cloud/jira/platform/apis/document/structure/).
type node struct {
	Type    string         `json:"type"`
	Version int            `json:"version,omitempty"`
	Text    string         `json:"text,omitempty"`
	Attrs   map[string]any `json:"attrs,omitempty"`
	Marks   []node         `json:"marks,omitempty"`
	Content []node         `json:"content,omitempty"`
}

// document formats a card. All texts are literal.
func document(c card.Card) node {
	doc := node{Type: "doc", Version: 1}
	if c.Note != "" {
		doc.Content = append(doc.Content, paragraph(text(c.Note)))
	}
	list := node{Type: "bulletList"}
	for _, f := range c.Facts {
		name := text(f.Name + ":")
		name.Marks = []node{{Type: "strong"}}
		list.Content = append(list.Content, node{Type: "listItem", Content: []node{paragraph(name, text(" "+f.Value))}})
	}
	if len(list.Content) > 0 {
		doc.Content = append(doc.Content, list)
	}
	if c.Link != "" {
		link := text("Open the detection")
		link.Marks = []node{{Type: "link", Attrs: map[string]any{"href": c.Link}}}
		doc.Content = append(doc.Content, paragraph(link))
	}
	if len(doc.Content) == 0 {
		doc.Content = []node{paragraph(text(c.Title))}
	}
	return doc
}

func paragraph(content ...node) node { return node{Type: "paragraph", Content: content} }

// text returns a text node, truncated so that the whole document stays within the limit
// of a field.
func text(s string) node {
	const maxText = 1000
	return node{Type: "text", Text: card.Fit(s, maxText, card.Plain)}
}
