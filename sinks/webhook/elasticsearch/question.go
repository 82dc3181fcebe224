package elasticsearch

import (
	"encoding/json"
	"net/http"
	"strings"

	"ndrbridge/preflight"
	"ndrbridge/sinks/webhook"
)

var _ webhook.Asking = (*Preset)(nil)

// Questions ask for the cluster, the index or data stream, and what the key may do.
func (p *Preset) Questions() []webhook.Question {
	root := *p.bulk
	root.Path, root.RawPath, root.RawQuery = "/", "", ""
	index := strings.TrimSuffix(strings.TrimPrefix(p.bulk.Path, "/"), "/_bulk")
	before, _, dated := strings.Cut(index, "<")
	if i := strings.LastIndex(before, "/"); i >= 0 { // behind a proxy's path
		root.Path, index = "/"+before[:i+1], index[i+1:]
	}
	questions := []webhook.Question{{Step: "cluster", URL: &root, Judge: judgeCluster}}
	if dated {
		return questions // the index is another one each day
	}
	privileges, _ := json.Marshal(map[string]any{"index": []any{map[string]any{"names": []string{index}, "privileges": []string{"create_doc"}}}})
	return append(questions,
		webhook.Question{Step: "index " + index, URL: root.JoinPath("_resolve/index", index), Judge: judgeIndex},
		webhook.Question{Step: "privileges", Method: http.MethodPost, URL: root.JoinPath("_security/user/_has_privileges"), Body: privileges, Judge: judgePrivileges},
	)
}

const checkKey = "check key, or auth"

func judgeCluster(a webhook.Answer) preflight.Finding {
	var said struct {
		Version struct{ Number, Distribution string }
	}
	switch {
	case a.Status == http.StatusForbidden:
		return preflight.Finding{Result: preflight.Remark, Detail: "the key is accepted, and may not look at the cluster"}
	case a.Status/100 != 2:
		return a.Finding("", checkKey)
	case json.Unmarshal(a.Body, &said) != nil || said.Version.Number == "":
		return preflight.Finding{Result: preflight.Failed, Detail: "what answers is no Elasticsearch and no OpenSearch", Advice: "check url"}
	case said.Version.Distribution != "":
		return preflight.Finding{Result: preflight.OK, Detail: said.Version.Distribution + " " + said.Version.Number}
	}
	return preflight.Finding{Result: preflight.OK, Detail: "Elasticsearch " + said.Version.Number}
}

func judgeIndex(a webhook.Answer) preflight.Finding {
	var said struct {
		Indices, Aliases []struct{ Name string }
		Streams          []struct{ Name string } `json:"data_streams"`
	}
	switch {
	case a.Status == http.StatusForbidden:
		return preflight.Finding{Result: preflight.Untried, Detail: "the key may not look at it, which delivering does not need"}
	case a.Status == http.StatusNotFound: // as if it named none
	case a.Status/100 != 2 || json.Unmarshal(a.Body, &said) != nil:
		return a.Finding("it is there", checkKey)
	case len(said.Streams) > 0:
		return preflight.Finding{Result: preflight.OK, Detail: "it is a data stream"}
	case len(said.Indices)+len(said.Aliases) > 0:
		return preflight.Finding{Result: preflight.OK, Detail: "it is there"}
	}
	return preflight.Finding{Result: preflight.Remark, Detail: "it does not exist, and will be made at the first event, if action.auto_create_index and the key allow it"}
}

func judgePrivileges(a webhook.Answer) preflight.Finding {
	var said struct {
		All *bool `json:"has_all_requested"`
	}
	switch {
	case a.Status/100 != 2 || json.Unmarshal(a.Body, &said) != nil || said.All == nil:
		return preflight.Finding{
			Result: preflight.Untried, Detail: "it does not tell what the key may do: OpenSearch, or without security",
			Advice: webhook.TryByReplay,
		}
	case !*said.All:
		return preflight.Finding{Result: preflight.Failed, Detail: "the key may not create documents there", Advice: "give its role the index privilege create_doc, and auto_configure where the index is to be made"}
	}
	return preflight.Finding{Result: preflight.OK, Detail: "the key may create documents there"}
}
