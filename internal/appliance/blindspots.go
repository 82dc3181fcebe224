package appliance

import (
	"context"
	"encoding/json"
	"net/http"
)

// ExclusionIntervals fetches all intervals in which alerts are suppressed.
func (c *Client) ExclusionIntervals(ctx context.Context, page *Page) error {
	return c.fetchList(ctx, "/exclusionintervals", page)
}

// Alerts fetches all alerts, enabled or not.
func (c *Client) Alerts(ctx context.Context, page *Page) error {
	return c.fetchList(ctx, "/alerts", page)
}

// Cluster fetches the settings of the record store's cluster, the only object of page then.
func (c *Client) Cluster(ctx context.Context, page *Page) error {
	r := request{method: http.MethodGet, path: "/" + c.product + "/cluster", notFound: notOffered, small: true}
	return c.fetchPage(ctx, r, page, 1, page.decodeObject)
}

// TicketTracking fetches the settings of ticket tracking, the only object of page then. The shape is
// not documented: JSON that is no object is an empty one.
func (c *Client) TicketTracking(ctx context.Context, page *Page) error {
	r := request{method: http.MethodGet, path: "/" + c.product + "/ticketing", notFound: notOffered, small: true}
	return c.fetchPage(ctx, r, page, 1, func(body []byte) error {
		err := page.decodeObject(body)
		if err != nil && json.Valid(body) {
			page.clear()
			page.append([]byte("{}"), false)
			return nil
		}
		return err
	})
}
