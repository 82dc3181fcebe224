package ticketopener

import (
	"cmp"
	"context"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"ndrbridge/internal/failure"
	"ndrbridge/sinks/webhook"
)

// Statuses of ServiceNow are the values of the column state. The instance does not tell when that
// changed; sys_updated_on is not before it.

// recordURL returns the address of a record.
func (s serviceNow) recordURL(t Ticket) *url.URL { return s.table.JoinPath(cmp.Or(t.Key, t.ID)) }

func (s serviceNow) read(ctx context.Context, c *webhook.Conversation, t Ticket) (Standing, error) {
	target := s.recordURL(t)
	target.RawQuery = url.Values{"sysparm_fields": {ticketColumns + ",active,assigned_to,sys_updated_on"}, "sysparm_exclude_reference_link": {"true"}}.Encode()
	a, err := c.Do(ctx, webhook.Request{Method: http.MethodGet, URL: target})
	if err != nil {
		return Standing{}, err
	}
	if a.Status == http.StatusNotFound {
		return Standing{}, errLost
	}
	var reply struct {
		Result struct {
			record
			Active     string `json:"active"`
			AssignedTo string `json:"assigned_to"`
			UpdatedOn  string `json:"sys_updated_on"`
		}
	}
	if err := decode(a, failure.Transient, &reply); err != nil {
		return Standing{}, err
	}
	r := reply.Result
	if r.State == "" {
		return Standing{}, failure.Errorf(failure.Transient, "the record has no state: %s", a.QuoteBody())
	}
	// A resolved incident, of state 6, is still active.
	now := Standing{Ticket: s.ticket(r.record), Status: r.State, Assignee: r.AssignedTo, Closed: r.Active == "false" || s.Table == "incident" && r.State >= "6"}
	now.Moved, _ = time.Parse(time.DateTime, r.UpdatedOn) // in UTC; zero if it is in a format of the account
	return now, nil
}

// comments returns the comments and the work notes of a record.
func (s serviceNow) comments(ctx context.Context, c *webhook.Conversation, t Ticket, skip int) ([]Comment, error) {
	target := s.site.JoinPath("api/now/table/sys_journal_field")
	target.RawQuery = url.Values{
		"sysparm_query":  {"element_id=" + t.Key + "^elementINcomments,work_notes^ORDERBYDESCsys_created_on"},
		"sysparm_fields": {"sys_id,element_id,value,sys_created_by,sys_created_on"}, "sysparm_limit": {strconv.Itoa(maxComments)}, "sysparm_offset": {strconv.Itoa(skip)},
	}.Encode()
	a, err := c.Do(ctx, webhook.Request{Method: http.MethodGet, URL: target})
	if err != nil {
		return nil, err
	}
	var reply struct {
		Result []struct {
			SysID     string `json:"sys_id"`
			ElementID string `json:"element_id"`
			Value     string `json:"value"`
			CreatedBy string `json:"sys_created_by"`
			CreatedOn string `json:"sys_created_on"`
		}
	}
	if err := decode(a, failure.Halted, &reply); err != nil {
		return nil, err
	}
	var all []Comment
	for _, o := range reply.Result {
		if o.ElementID != t.Key { // an instance ignores a term that the account may not query by
			return nil, failure.Errorf(failure.Halted, "the table sys_journal_field cannot be queried; give the account a role that reads it, such as itil")
		}
		at, err := time.Parse(time.DateTime, o.CreatedOn) // in UTC
		if err != nil {
			return nil, failure.Errorf(failure.Halted, "the time of a comment cannot be read: %s", a.Quote(o.CreatedOn))
		}
		all = append(all, Comment{ID: o.SysID, Author: o.CreatedBy, Text: o.Value, Time: at})
	}
	return all, nil
}

func (s serviceNow) step(_ context.Context, _ *webhook.Conversation, _ Ticket, to string) (Step, error) {
	return Step{ID: to, Status: to}, nil
}

func (s serviceNow) move(ctx context.Context, c *webhook.Conversation, t Ticket, to Step, fields map[string]string) error {
	columns := map[string]string{"state": to.ID}
	maps.Copy(columns, marked(fields, "comments", "work_notes"))
	written, err := s.write(ctx, c, t, columns)
	if err != nil {
		return err
	}
	// A business rule may leave the state as it is, without an error.
	if got := written["state"]; got != "" && got != to.ID {
		return failure.Errorf(failure.Rejected, "the record has state %s, not %s", c.Quote(got), to.ID)
	}
	return nil
}

func (s serviceNow) assign(ctx context.Context, c *webhook.Conversation, t Ticket, account string) error {
	written, err := s.write(ctx, c, t, map[string]string{"assigned_to": account})
	if err == nil && written["assigned_to"] == "" {
		err = failure.Errorf(failure.Rejected, "the instance knows no user %q", account) // which it ignores
	}
	return err
}

func (s serviceNow) comment(ctx context.Context, c *webhook.Conversation, t Ticket, text string) error {
	_, err := s.write(ctx, c, t, map[string]string{"work_notes": text})
	return err
}

// write sets columns of a record, and returns their values after that.
func (s serviceNow) write(ctx context.Context, c *webhook.Conversation, t Ticket, columns map[string]string) (map[string]string, error) {
	target := s.recordURL(t)
	target.RawQuery = url.Values{
		"sysparm_fields": {strings.Join(slices.Sorted(maps.Keys(columns)), ",")}, "sysparm_exclude_reference_link": {"true"},
	}.Encode()
	a, err := change(ctx, c, http.MethodPatch, target, columns)
	if err != nil {
		return nil, err
	}
	var reply struct{ Result map[string]string }
	err = decode(a, failure.Transient, &reply)
	return reply.Result, err
}
