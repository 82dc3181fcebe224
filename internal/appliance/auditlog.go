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

// AuditEntry reads the entry at offset, of any size, and keeps only its id and its time
// in milliseconds since the epoch, each 0 if it cannot be read. size is the size of the
// answer in bytes. found is false if the log has no such entry.
// Options.Timeout applies, Options.MaxAnswer does not.
func (c *Client) AuditEntry(ctx context.Context, offset int) (id, time, size int64, found bool, err error) {
	fields := map[string]string{"id": "", "time": ""}
	found, size, err = c.skim(ctx, auditRequest(1, offset), []string{firstElement}, fields)
	id, _ = jsonscan.Integer([]byte(fields["id"])) // 0 after an error
	time, _ = jsonscan.Millis([]byte(fields["time"]))
	return id, time, size, found, err
}

func auditRequest(limit, offset int) request {
	query := url.Values{"limit": {strconv.Itoa(limit)}, "offset": {strconv.Itoa(offset)}}
	return request{method: http.MethodGet, path: "/auditlog", query: query, notFound: wrongAddress}
}
