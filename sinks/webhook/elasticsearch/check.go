package elasticsearch

import (
	"encoding/json"
	"net/http"
	"strings"

	"ndrbridge/preflight/finding"
	"ndrbridge/sinks/webhook"
)

var _ webhook.Checker = (*Preset)(nil)

// CheckRequests checks the cluster, the index or data stream, and the key's privileges.
func (p *Preset) CheckRequests() []webhook.CheckRequest {
	root := *p.bulk
	root.Path, root.RawPath, root.RawQuery = "/", "", ""
	index := strings.TrimSuffix(strings.TrimPrefix(p.bulk.Path, "/"), "/_bulk")
	before, _, dated := strings.Cut(index, "<")
	if i := strings.LastIndex(before, "/"); i >= 0 { // behind a proxy's path
		root.Path, index = "/"+before[:i+1], index[i+1:]
	}
	requests := []webhook.CheckRequest{{Step: "cluster", URL: &root, Judge: judgeCluster}}
	if dated {
		return requests // the index differs each day
	}
	privileges, _ := json.Marshal(map[string]any{"index": []any{map[string]any{"names": []string{index}, "privileges": []string{"create_doc"}}}})
	return append(requests,
		webhook.CheckRequest{Step: "index " + index, URL: root.JoinPath("_resolve/index", index), Judge: judgeIndex},
		webhook.CheckRequest{Step: "privileges", Method: http.MethodPost, URL: root.JoinPath("_security/user/_has_privileges"), Body: privileges, Judge: judgePrivileges},
	)
}

const checkKey = "check key, or auth"

func judgeCluster(a webhook.Answer) finding.Finding {
	var reply struct {
		Version struct{ Number, Distribution string }
	}
	switch {
	case a.Status == http.StatusForbidden:
		return finding.Finding{Result: finding.Remark, Detail: "the key is accepted, but may not read the cluster's version"}
	case a.Status/100 != 2:
		return a.Finding("", checkKey)
	case json.Unmarshal(a.Body, &reply) != nil || reply.Version.Number == "":
		return finding.Finding{Result: finding.Failed, Detail: "the server is neither Elasticsearch nor OpenSearch", Advice: "check url"}
	case reply.Version.Distribution != "":
		return finding.Finding{Result: finding.OK, Detail: reply.Version.Distribution + " " + reply.Version.Number}
	}
	return finding.Finding{Result: finding.OK, Detail: "Elasticsearch " + reply.Version.Number}
}

func judgeIndex(a webhook.Answer) finding.Finding {
	var reply struct {
		Indices, Aliases []struct{ Name string }
		Streams          []struct{ Name string } `json:"data_streams"`
	}
	switch {
	case a.Status == http.StatusForbidden:
		return finding.Finding{Result: finding.Untried, Detail: "the key may not read it, which delivery does not require"}
	case a.Status == http.StatusNotFound: // same as no match
	case a.Status/100 != 2 || json.Unmarshal(a.Body, &reply) != nil:
		return a.Finding("it exists", checkKey)
	case len(reply.Streams) > 0:
		return finding.Finding{Result: finding.OK, Detail: "it is a data stream"}
	case len(reply.Indices)+len(reply.Aliases) > 0:
		return finding.Finding{Result: finding.OK, Detail: "it exists"}
	}
	return finding.Finding{Result: finding.Remark, Detail: "it does not exist, and is created with the first event if action.auto_create_index and the key allow it"}
}

func judgePrivileges(a webhook.Answer) finding.Finding {
	var reply struct {
		All *bool `json:"has_all_requested"`
	}
	switch {
	case a.Status/100 != 2 || json.Unmarshal(a.Body, &reply) != nil || reply.All == nil:
		return finding.Finding{
			Result: finding.Untried, Detail: "the key's privileges cannot be read: the server is OpenSearch, or has security disabled",
			Advice: webhook.TryByReplay,
		}
	case !*reply.All:
		return finding.Finding{Result: finding.Failed, Detail: "the key may not create documents there", Advice: "give its role the index privilege create_doc, and auto_configure if the index is to be created"}
	}
	return finding.Finding{Result: finding.OK, Detail: "the key may create documents there"}
}
