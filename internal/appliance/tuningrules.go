package appliance

import (
	"context"
	"encoding/json"
	"net/http"
	"path"
	"strconv"
)

const hidingRules = "/detections/rules/hiding"

// HidingRules fetches the tuning rules that hide detections. page.Date is the appliance's time.
func (c *Client) HidingRules(ctx context.Context, page *Page) error {
	return c.fetchList(ctx, hidingRules, page)
}

// NewRule is a tuning rule to be made.
type NewRule struct {
	Type       string         `json:"detection_type"`
	Offender   json.Marshaler `json:"offender"`
	Victim     json.Marshaler `json:"victim"`
	Expiration int64          `json:"expiration"` // in milliseconds since the epoch
	Text       string         `json:"description"`
}

// CreateRule makes a tuning rule and returns its id, or 0 if the answer does not contain it. The
// request is not repeated: if it fails without an answer, the outcome is unknown.
func (c *Client) CreateRule(ctx context.Context, rule NewRule) (id int64, err error) {
	r := request{method: http.MethodPost, path: hidingRules, notFound: notOffered}
	r.encode("rule", rule)
	err = c.doChange(ctx, r, func(resp *http.Response, answer []byte) {
		var created struct {
			ID int64 `json:"id"`
		}
		// An appliance may answer with the path of the rule or with the rule.
		if id, _ = strconv.ParseInt(path.Base(resp.Header.Get("Location")), 10, 64); id == 0 && json.Unmarshal(answer, &created) == nil {
			id = created.ID
		}
	})
	return id, err
}

// RuleChange is a change of a tuning rule. A nil field is left unchanged.
type RuleChange struct {
	Enabled    *bool  `json:"enabled,omitempty"`
	Expiration *int64 `json:"expiration,omitempty"` // in milliseconds since the epoch
}

// PatchRule changes a tuning rule. It returns an *Error with status 404 if there is none with this
// id. Otherwise it is like CreateRule.
func (c *Client) PatchRule(ctx context.Context, id int64, change RuleChange) error {
	r := request{method: http.MethodPatch, path: hidingRules + "/" + strconv.FormatInt(id, 10)}
	r.encode("change", change)
	return c.doChange(ctx, r, nil)
}

// fetchList fetches all objects under a path that not every appliance has, whose answer does not
// come in pages.
func (c *Client) fetchList(ctx context.Context, path string, page *Page) error {
	return c.fetchPage(ctx, request{method: http.MethodGet, path: path, notFound: notOffered}, page, 0, page.decodeArray)
}
