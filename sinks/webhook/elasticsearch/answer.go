package elasticsearch

import (
	"net/http"

	"github.com/go-json-experiment/json"

	"ndrbridge/sinks"
	"ndrbridge/sinks/webhook"
)

// reply is the answer to a bulk, as far as filter_path lets it come.
type reply struct {
	Errors *bool             `json:"errors"`
	Items  []map[string]item `json:"items"` // each under the name of its action
}

type item struct {
	Status int `json:"status"`
	Error  struct {
		Type   string `json:"type"`
		Reason string `json:"reason"`
	} `json:"error"`
}

// Judge reads the result of each event.
func (p *Preset) Judge(r webhook.Request, a webhook.Answer) (*webhook.Request, error) {
	if err := a.Refusal(); err != nil {
		return nil, err
	}
	var said reply
	if err := json.Unmarshal(a.Body, &said); err != nil || said.Errors == nil {
		return nil, sinks.Errorf(sinks.Transient, "%d, but the answer is not that of a bulk: %s", a.Status, a.Body)
	}
	if !*said.Errors {
		return nil, nil
	}
	if len(said.Items) != r.Events {
		return nil, sinks.Errorf(sinks.Transient, "%d items in the answer to a bulk of %d", len(said.Items), r.Events)
	}
	each := make(sinks.EventErrors, r.Events)
	failed := false
	for i, action := range said.Items {
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

// result is what became of the event.
func (i item) result() error {
	var class sinks.Class
	switch {
	case i.Status/100 == 2, i.Status == http.StatusConflict: // the document is there already
		return nil
	case i.Status == http.StatusTooManyRequests:
		class = sinks.Throttled
	case i.Status == http.StatusForbidden, i.Status == http.StatusUnauthorized, // a block, a role
		i.Status == http.StatusNotFound: // no such index, and none is made of itself
		class = sinks.Halted
	case i.Status/100 == 4:
		class = sinks.Rejected
	default:
		class = sinks.Transient
	}
	return sinks.Errorf(class, "%d %s: %s", i.Status, i.Error.Type, i.Error.Reason)
}
