package appliance

import (
	"context"
	"net/http"
	"net/url"
	"strconv"

	"ndrbridge/internal/jsonscan"
)

// AuditLog fetches up to limit entries of the audit log, skipping the first offset. The
// interface does not document their order: both newest first and oldest first occur.
func (c *Client) AuditLog(ctx context.Context, limit, offset int, page *Page) error {
	return c.fetchPage(ctx, auditRequest(limit, offset), page, limit, page.decodeArray)
}

// AuditEntry reads the beginning of the entry at offset, which may have any size, and returns
// its id and its time in milliseconds since the epoch, each 0 if the beginning does not have
// it. found is false if the log has no such entry.
func (c *Client) AuditEntry(ctx context.Context, offset int) (id, time int64, found bool, err error) {
	entry, err := c.skim(ctx, auditRequest(1, offset), true, "")
	id, _ = jsonscan.Integer(member(entry, "id")) // 0 after an error
	time, _ = jsonscan.Millis(member(entry, "time"))
	return id, time, entry != nil && err == nil, err
}

func auditRequest(limit, offset int) request {
	query := url.Values{"limit": {strconv.Itoa(limit)}, "offset": {strconv.Itoa(offset)}}
	return request{method: http.MethodGet, path: "/auditlog", query: query, notFound: wrongAddress}
}
