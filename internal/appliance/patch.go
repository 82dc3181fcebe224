package appliance

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strconv"
)

// DetectionChange is a change of a detection. A nil field is left unchanged, an empty
// string becomes null.
type DetectionChange struct {
	TicketID   *string
	Assignee   *string
	Status     *string // new, in_progress, closed or acknowledged
	Resolution *string // action_taken or no_action_taken, for closed detections only
}

// members returns the body of a PATCH, with nil for null.
func (d DetectionChange) members() map[string]any {
	body := make(map[string]any)
	for name, text := range map[string]*string{"ticket_id": d.TicketID, "assignee": d.Assignee, "status": d.Status, "resolution": d.Resolution} {
		switch {
		case text == nil:
		case *text == "":
			body[name] = nil
		default:
			body[name] = *text
		}
	}
	return body
}

// PatchDetection changes one detection. It returns an *Error with status 404 if there
// is none with this id. The request is not repeated: if it fails without an answer, the
// outcome is unknown.
func (c *Client) PatchDetection(ctx context.Context, id int64, change DetectionChange) error {
	return c.change(ctx, http.MethodPatch, "/detections/"+strconv.FormatInt(id, 10), change.members())
}

// PatchTicket changes all detections with a ticket; change.TicketID is ignored. It
// returns an *Error with status 422 if the appliance does not track tickets. Otherwise
// it is like PatchDetection.
func (c *Client) PatchTicket(ctx context.Context, ticketID string, change DetectionChange) error {
	body := change.members()
	body["ticket_id"] = ticketID
	return c.change(ctx, http.MethodPatch, "/detections/tickets", body)
}

// change sends a change, whose answer has no content.
func (c *Client) change(ctx context.Context, method, path string, members map[string]any) error {
	r := request{method: method, path: path}
	r.encode("change", members)
	return c.doChange(ctx, r, nil)
}

// doChange sends a request that changes something, and passes the beginning of the answer to read
// unless that is nil.
func (c *Client) doChange(ctx context.Context, r request, read func(resp *http.Response, answer []byte)) error {
	return c.do(ctx, r, func(resp *http.Response) error {
		answer, err := io.ReadAll(io.LimitReader(resp.Body, maxDrain))
		answer = bytes.TrimSpace(answer)
		// Unexpected JSON still means that the change was made; a login page does not.
		if err == nil && len(answer) > 0 && answer[0] != '{' && answer[0] != '[' {
			err = &contentError{excerpt: excerpt(answer), err: errNotAChange}
		}
		if err == nil && read != nil {
			read(resp, answer)
		}
		return err
	})
}

var errNotAChange = errors.New("the answer to a change is neither empty nor JSON: check that url is the appliance's own address")

// ticketPage is the maximum number of detections that DetectionsWithTicket returns.
const ticketPage = 1000

// DetectionsWithTicket fetches detections that have a ticket, skipping the first
// offset. An appliance may return fewer than 1000 although there are more: only
// an empty page is the end.
func (c *Client) DetectionsWithTicket(ctx context.Context, ticketID string, offset int, page *Page) error {
	filter, err := json.Marshal(map[string][]string{"ticket_id": {ticketID}})
	if err != nil {
		panic(err) // strings
	}
	return c.SearchDetections(ctx, Search{ModTime: 1, Limit: ticketPage, Offset: offset, Filter: filter}, page)
}

// Ticketing reports whether the appliance tracks tickets. known is false if the answer
// does not have the expected shape.
func (c *Client) Ticketing(ctx context.Context) (enabled, known bool, err error) {
	r := request{method: http.MethodGet, path: "/" + c.product + "/ticketing", small: true}
	err = c.fetch(ctx, r, func(body []byte) error {
		// The shape is not documented: a different one is not an error.
		var answer struct {
			Enabled *bool `json:"enabled"`
		}
		if json.Unmarshal(body, &answer) == nil && answer.Enabled != nil {
			enabled, known = *answer.Enabled, true
		}
		return nil
	})
	return enabled, known, err
}
