package appliance

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
)

// DetectionChange is what a detection is to become. A nil field is left as it is,
// an empty text becomes null.
type DetectionChange struct {
	TicketID   *string
	Assignee   *string
	Status     *string // new, in_progress, closed or acknowledged
	Resolution *string // action_taken or no_action_taken, of what is closed alone
}

// members is the body of a PATCH, with nil for null.
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

// PatchDetection changes one detection. An *Error with status 404 where there is
// none with this id. It is not repeated: of a call that failed without an answer it
// is not known whether it was carried out.
func (c *Client) PatchDetection(ctx context.Context, id int64, change DetectionChange) error {
	return c.patch(ctx, "/detections/"+strconv.FormatInt(id, 10), change.members())
}

// PatchTicket changes all detections that have a ticket; change.TicketID is not
// read. An *Error with status 422 where the appliance does not track tickets.
// Otherwise it is like PatchDetection.
func (c *Client) PatchTicket(ctx context.Context, ticketID string, change DetectionChange) error {
	body := change.members()
	body["ticket_id"] = ticketID
	return c.patch(ctx, "/detections/tickets", body)
}

func (c *Client) patch(ctx context.Context, path string, members map[string]any) error {
	r := request{method: http.MethodPatch, path: path}
	var err error
	if r.body, err = json.Marshal(members); err != nil {
		return c.wrap(r, fmt.Errorf("encode the change: %w", err))
	}
	return c.do(ctx, r, func(resp *http.Response) error {
		answer, err := io.ReadAll(io.LimitReader(resp.Body, maxDrain))
		answer = bytes.TrimSpace(answer)
		// Whoever answers with JSON where nothing is due has carried it out all the
		// same; a page to sign in at has not.
		if err == nil && len(answer) > 0 && answer[0] != '{' && answer[0] != '[' {
			err = &contentError{excerpt: excerpt(answer), err: errNotAChange}
		}
		return err
	})
}

var errNotAChange = errors.New("a change that was carried out is answered with nothing, or with JSON: is url the appliance's own address?")

// TicketPage is how many detections DetectionsWithTicket returns at most.
const TicketPage = 1000

// DetectionsWithTicket asks for the detections that have a ticket, behind the first
// offset of them. An appliance may return less than TicketPage of them although there
// are more: a page without any is the end.
func (c *Client) DetectionsWithTicket(ctx context.Context, ticketID string, offset int, page *Page) error {
	s := Search{ModTime: 1, Limit: TicketPage, Offset: offset}
	var err error
	if s.Filter, err = json.Marshal(map[string][]string{"ticket_id": {ticketID}}); err != nil {
		page.clear()
		return c.wrap(request{method: http.MethodPost, path: "/detections/search"}, fmt.Errorf("encode the search: %w", err))
	}
	return c.SearchDetections(ctx, s, page)
}

// Ticketing asks whether the appliance tracks tickets. known is false where the
// answer does not say so in a way that is known.
func (c *Client) Ticketing(ctx context.Context) (enabled, known bool, err error) {
	r := request{method: http.MethodGet, path: "/" + c.product + "/ticketing", small: true}
	_, err = c.fetch(ctx, r, func(body []byte) error {
		// The interface does not show the shape: any other is no error.
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
