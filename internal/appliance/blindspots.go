package appliance

import (
	"context"
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
