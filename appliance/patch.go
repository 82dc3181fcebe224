package appliance

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
)

// DetectionChange is what a detection is to become. A nil field is left as it is.
type DetectionChange struct {
	TicketID, Assignee, Status, Resolution *string // empty: null
}

func (d DetectionChange) body() map[string]*string {
	b := make(map[string]*string)
	for name, value := range map[string]*string{"ticket_id": d.TicketID, "assignee": d.Assignee, "status": d.Status, "resolution": d.Resolution} {
		if value != nil {
			if b[name] = value; *value == "" {
				b[name] = nil
			}
		}
	}
	return b
}

// PatchDetection changes one detection.
func (c *Client) PatchDetection(ctx context.Context, id int64, change DetectionChange) error {
	return c.patch(ctx, "/detections/"+strconv.FormatInt(id, 10), change.body())
}

// PatchTicket changes all detections that have a ticket.
func (c *Client) PatchTicket(ctx context.Context, ticketID string, change DetectionChange) error {
	b := change.body()
	b["ticket_id"] = &ticketID
	return c.patch(ctx, "/detections/tickets", b)
}

func (c *Client) patch(ctx context.Context, path string, body any) error {
	encoded, err := json.Marshal(body)
	if err != nil {
		return err
	}
	return c.do(ctx, request{method: http.MethodPatch, path: path, body: encoded}, func(resp *http.Response) error {
		if resp.StatusCode != http.StatusNoContent {
			return fmt.Errorf("answered %d", resp.StatusCode)
		}
		return nil
	})
}

// DetectionsWithTicket asks for the detections that have a ticket.
func (c *Client) DetectionsWithTicket(ctx context.Context, ticketID string, page *Page) error {
	filter, err := json.Marshal(map[string][]string{"ticket_id": {ticketID}})
	if err != nil {
		return err
	}
	return c.SearchDetections(ctx, Search{ModTime: 1, Limit: 1000, Filter: filter}, page)
}

// Ticketing tells whether tickets are tracked.
func (c *Client) Ticketing(ctx context.Context) (enabled, known bool, err error) {
	var body []byte
	var answer struct{ Enabled *bool }
	_, err = c.fetch(ctx, request{method: http.MethodGet, path: "/" + c.product + "/ticketing"}, &body, func(b []byte) error {
		json.Unmarshal(b, &answer)
		return nil
	})
	if err != nil || answer.Enabled == nil {
		return false, false, err
	}
	return *answer.Enabled, true, nil
}
