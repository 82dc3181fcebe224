package elasticsearch

import (
	"net/http"

	"github.com/go-json-experiment/json"

	"ndrbridge/sinks"
	"ndrbridge/sinks/webhook"
)

// reply is the answer to a bulk request, reduced by filter_path.
type reply struct {
	Errors *bool             `json:"errors"`
	Items  []map[string]item `json:"items"` // each keyed by its action
}

type item struct {
	Status int `json:"status"`
	Error  struct {
		Type   string `json:"type"`
		Reason string `json:"reason"`
	} `json:"error"`
}

// Judge returns the result of each event.
func (p *Preset) Judge(r webhook.Request, a webhook.Answer) (*webhook.Request, error) {
	if err := a.Refusal(); err != nil {
		return nil, err
	}
	var bulk reply
	if err := json.Unmarshal(a.Body, &bulk); err != nil || bulk.Errors == nil {
		return nil, sinks.Errorf(sinks.Transient, "status %d, but the answer is not a bulk response: %s", a.Status, a.Body)
	}
	if !*bulk.Errors {
		return nil, nil
	}
	if len(bulk.Items) != r.Events {
		return nil, sinks.Errorf(sinks.Transient, "the answer has %d items for a bulk of %d", len(bulk.Items), r.Events)
	}
	each := make(sinks.EventErrors, r.Events)
	failed := false
	for i, action := range bulk.Items {
		for _, item := range action {
			each[i] = item.result()
		}
		failed = failed || each[i] != nil
	}
	if !failed {
		return nil, nil
	}
	return nil, each
}

// result returns the result of the event.
func (i item) result() error {
	var class sinks.Class
	switch {
	case i.Status/100 == 2, i.Status == http.StatusConflict: // the document exists already
		return nil
	case i.Status == http.StatusTooManyRequests:
		class = sinks.Throttled
	case i.Status == http.StatusForbidden, i.Status == http.StatusUnauthorized, // a block, a role
		i.Status == http.StatusNotFound: // no such index, and it is not created automatically
		class = sinks.Halted
	case i.Status/100 == 4:
		class = sinks.Rejected
	default:
		class = sinks.Transient
	}
	return sinks.Errorf(class, "%d %s: %s", i.Status, i.Error.Type, i.Error.Reason)
}
