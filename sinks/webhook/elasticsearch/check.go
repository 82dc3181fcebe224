package elasticsearch

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strings"

	"ndrbridge/internal/finding"
	"ndrbridge/sinks/webhook"
	"ndrbridge/transform/format"
)

// checks checks the cluster, the index or data streams, and the key's privileges. Of
// data streams it also checks that an index template maps the fields of ECS documents.
func (p *preset) checks() []webhook.CheckRequest {
	root := *p.bulk
	root.Path, root.RawPath, root.RawQuery = strings.TrimSuffix(p.bulk.Path, "_bulk"), "", ""
	if !p.isPattern() {
		root.Path = strings.TrimSuffix(root.Path, p.index+"/")
	}
	requests := []webhook.CheckRequest{{Step: "cluster", URL: &root, Judge: judgeCluster}}
	if strings.Contains(p.index, "<") {
		return requests // the index differs each day
	}
	if !p.isPattern() {
		return append(requests,
			webhook.CheckRequest{Step: "index " + p.index, URL: root.JoinPath("_resolve/index", p.index), Judge: p.judgeTargets},
			p.checkPrivileges(&root, p.index, "create_doc"),
		)
	}
	if p.format == format.ECS {
		first := strings.ReplaceAll(p.index, datasetVariable, datasets[0])
		requests = append(requests, webhook.CheckRequest{
			Step: "index template", Method: http.MethodPost, URL: root.JoinPath("_index_template/_simulate_index", first), Judge: judgeTemplate,
		})
	}
	all := strings.ReplaceAll(p.index, datasetVariable, "ndrbridge.*")
	return append(requests,
		webhook.CheckRequest{Step: "data streams " + all, URL: root.JoinPath("_resolve/index", all), Judge: p.judgeTargets},
		p.checkPrivileges(&root, all, "create_doc", "auto_configure"),
	)
}

// checkPrivileges returns the request for the key's privileges for an index or a pattern.
func (p *preset) checkPrivileges(root *url.URL, index string, privileges ...string) webhook.CheckRequest {
	body, _ := json.Marshal(map[string]any{"index": []any{map[string]any{"names": []string{index}, "privileges": privileges}}}) // it cannot fail
	return webhook.CheckRequest{Step: "privileges", Method: http.MethodPost, URL: root.JoinPath("_security/user/_has_privileges"), Body: body, Judge: judgePrivileges}
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
		return finding.Finding{Result: finding.OK, Detail: a.Quote(reply.Version.Distribution + " " + reply.Version.Number)}
	}
	return finding.Finding{Result: finding.OK, Detail: "Elasticsearch " + a.Quote(reply.Version.Number)}
}

// judgeTemplate interprets the settings that a new data stream would have.
func judgeTemplate(a webhook.Answer) finding.Finding {
	var reply struct {
		Template struct {
			Mappings struct {
				Properties map[string]json.RawMessage
			}
		}
	}
	switch {
	case a.Status == http.StatusForbidden:
		return finding.Finding{Result: finding.Untried, Detail: "the key may not read it, which delivery does not require", Advice: loadTemplates}
	case a.Status/100 != 2 || json.Unmarshal(a.Body, &reply) != nil:
		return finding.Finding{Result: finding.Untried, Detail: fmt.Sprintf("the server does not show it: status %d", a.Status), Advice: loadTemplates}
	case reply.Template.Mappings.Properties["ndrbridge"] == nil:
		return finding.Finding{
			Result: finding.Warning, Detail: "none maps the fields of the documents: the first value of a field decides its type, and later documents may be refused", Advice: loadTemplates,
		}
	}
	return finding.Finding{Result: finding.OK, Detail: "it maps the fields of the documents"}
}

const loadTemplates = "load the templates of deploy/elastic before the first event"

// judgeTargets interprets which indexes and data streams have a name, or match the pattern of the
// data streams.
func (p *preset) judgeTargets(a webhook.Answer) finding.Finding {
	var reply struct {
		Indices, Aliases []struct{ Name string }
		Streams          []struct{ Name string } `json:"data_streams"`
	}
	switch {
	case a.Status == http.StatusForbidden:
		return finding.Finding{Result: finding.Untried, Detail: "the key may not read this, which delivery does not require"}
	case a.Status == http.StatusNotFound: // same as no match
	case a.Status/100 != 2 || json.Unmarshal(a.Body, &reply) != nil:
		return a.Finding("it exists", checkKey)
	case p.isPattern() && len(reply.Indices) > 0:
		return finding.Finding{
			Result: finding.Warning, Detail: a.Quote(reply.Indices[0].Name) + " is an index, not a data stream: it was created without the index templates",
			Advice: "load the templates of deploy/elastic, and delete the index after copying what it holds",
		}
	case len(reply.Streams) > 0:
		names := make([]string, len(reply.Streams))
		for i, stream := range reply.Streams {
			names[i] = stream.Name
		}
		return finding.Finding{Result: finding.OK, Detail: "data stream " + a.Quote(strings.Join(names, ", "))}
	case len(reply.Indices)+len(reply.Aliases) > 0:
		return finding.Finding{Result: finding.OK, Detail: "it exists"}
	}
	return finding.Finding{Result: finding.Remark, Detail: "it does not exist, and is created with its first event if action.auto_create_index and the key allow it"}
}

func judgePrivileges(a webhook.Answer) finding.Finding {
	var reply struct {
		All   *bool `json:"has_all_requested"`
		Index map[string]map[string]bool
	}
	switch {
	case a.Status/100 != 2 || json.Unmarshal(a.Body, &reply) != nil || reply.All == nil:
		return finding.Finding{
			Result: finding.Untried, Detail: "the key's privileges cannot be read: the server is OpenSearch, or has security disabled",
			Advice: webhook.TryBySend,
		}
	case *reply.All:
		return finding.Finding{Result: finding.OK, Detail: "the key may create documents there"}
	}
	for _, has := range reply.Index {
		if has["create_doc"] {
			return finding.Finding{
				Result: finding.Warning, Detail: "the key may create documents there, but no data streams", Advice: "give its role the index privilege auto_configure, or create the data streams first",
			}
		}
	}
	return finding.Finding{Result: finding.Failed, Detail: "the key may not create documents there", Advice: "give its role the index privilege create_doc, and auto_configure if the index is to be created"}
}
