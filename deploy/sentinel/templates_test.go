package sentinel_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"ndrbridge/sinks/webhook"
	"ndrbridge/sinks/webhook/sentinel"
	"ndrbridge/test/assert"
	"ndrbridge/test/presettest"
	"ndrbridge/test/require"
	"ndrbridge/transform"
)

// column is a column of a stream or of a table.
type column struct {
	Name, Type, Description string
}

// template is a template of Azure Resource Manager.
type template struct {
	Schema                         string `json:"$schema"`
	ContentVersion                 string
	Parameters, Variables, Outputs map[string]json.RawMessage
	Resources                      []resource
	text                           string
}

type resource struct {
	Type, APIVersion, Name, Kind string
	DependsOn                    []string
	Properties                   struct {
		Schema struct {
			Name    string
			Columns []column
		}
		StreamDeclarations map[string]struct{ Columns []column }
		Destinations       struct{ LogAnalytics []struct{ Name string } }
		DataFlows          []struct {
			Streams, Destinations      []string
			TransformKQL, OutputStream string
		}

		Severity, QueryFrequency, QueryPeriod string
		EntityMappings                        []struct {
			EntityType    string
			FieldMappings []struct{ Identifier, ColumnName string }
		}
		CustomDetails         map[string]string
		IncidentConfiguration struct {
			GroupingConfiguration struct{ GroupByCustomDetails []string }
		}
	}
}

func read(t *testing.T, name string) template {
	t.Helper()
	text := require.Value(os.ReadFile(name))(t)
	var parsed template
	require.NoError(t, json.Unmarshal(text, &parsed), name)
	parsed.text = string(text)
	return parsed
}

// rule returns the data collection rule and the tables by name.
func rule(t *testing.T) (resource, map[string][]column) {
	t.Helper()
	tables := make(map[string][]column)
	var found resource
	for _, r := range read(t, "azuredeploy.json").Resources {
		switch path.Base(r.Type) {
		case "tables":
			tables[r.Properties.Schema.Name] = r.Properties.Schema.Columns
			assert.True(t, strings.HasSuffix(r.Name, "'/"+r.Properties.Schema.Name+"')]"), "the table", r.Name, "has the schema of", r.Properties.Schema.Name)
		case "dataCollectionRules":
			found = r
		}
	}
	if len(tables) == 0 || found.Kind != "Direct" { // only a rule of this kind has an endpoint of its own
		t.Fatalf("%d tables, a rule of kind %q", len(tables), found.Kind)
	}
	return found, tables
}

func TestTemplatesUseWhatTheyDefine(t *testing.T) {
	for _, name := range []string{"azuredeploy.json", "analyticsrule.json"} {
		parsed := read(t, name)
		assert.True(t, parsed.Schema == "https://schema.management.azure.com/schemas/2019-04-01/deploymentTemplate.json#" && parsed.ContentVersion != "", name)
		for kind, defined := range map[string]map[string]json.RawMessage{"parameters": parsed.Parameters, "variables": parsed.Variables} {
			used := make(map[string]bool)
			for _, m := range regexp.MustCompile(kind+`\('(\w+)'\)`).FindAllStringSubmatch(parsed.text, -1) {
				used[m[1]] = true
			}
			got, want := slices.Sorted(maps.Keys(used)), slices.Sorted(maps.Keys(defined))
			assert.EqualSlices(t, got, want, name, "uses the", kind, "and defines")
		}
		for _, r := range parsed.Resources {
			_, err := time.Parse(time.DateOnly, r.APIVersion)
			assert.NoError(t, err, name, r.Type, "has the version", r.APIVersion)
			for _, text := range append(r.DependsOn, r.Name) {
				assert.True(t, strings.Count(text, "(") == strings.Count(text, ")") && strings.HasPrefix(text, "[") && strings.HasSuffix(text, "]"), name, text)
			}
		}
	}
}

// everything is an event with every attribute.
func everything(t *testing.T) transform.Event {
	e, err := transform.New(transform.Attributes{
		ID: "1", Source: "ndrbridge://hq/detections", Type: "t", Subject: "s", Time: time.Unix(1, 0), PartitionKey: "k", Appliance: "hq",
		RecordedTime: time.Unix(2, 0), SeverityNumber: 9, SeverityText: "low", Repaired: true, Unenriched: "link",
		CausedBy: transform.CausedByWriteback, Redelivered: true,
	}, []byte(`{}`))
	require.NoError(t, err)
	return e
}

// typeOf returns the type of a stream's column that holds a member of an event.
func typeOf(t *testing.T, name string, value any) string {
	t.Helper()
	switch v := value.(type) {
	case string:
		if _, err := time.Parse(time.RFC3339, v); err == nil {
			return "datetime"
		}
		return "string"
	case float64:
		return "int"
	case bool:
		return "boolean"
	case map[string]any:
		return "dynamic"
	}
	t.Fatalf("%s is %v", name, value)
	return ""
}

func TestStreamsDeclareWhatEventsCarry(t *testing.T) {
	var members map[string]any
	require.NoError(t, json.Unmarshal(everything(t).Structured(), &members))
	want := make(map[string]string)
	for name, value := range members {
		want[name] = typeOf(t, name, value)
	}
	r, _ := rule(t)
	for stream, declared := range r.Properties.StreamDeclarations {
		got := make(map[string]string)
		for _, c := range declared.Columns {
			got[c.Name] = c.Type
		}
		assert.True(t, maps.Equal(got, want), stream, "declares", got, "and events carry", want)
	}
	for _, kind := range presettest.Events(t) {
		members = nil
		require.NoError(t, json.Unmarshal(kind.Event.Structured(), &members))
		for name, value := range members {
			assert.Equal(t, typeOf(t, name, value), want[name], kind.Name, name, "is not of type")
		}
	}
}

func TestStreamsAreThoseOfThePreset(t *testing.T) {
	p, err := sentinel.Spec().Open(webhook.PresetSettings{URL: "https://dce.example", RuleID: sentinel.Spec().Sample.RuleID})
	require.NoError(t, err)
	sent := make(map[string]bool)
	for _, kind := range presettest.Events(t) {
		request := require.Value(p.Compose([]transform.Event{kind.Event}))(t)
		sent[path.Base(request.URL.Path)] = true
	}
	r, tables := rule(t)
	flows := make(map[string]bool)
	for _, flow := range r.Properties.DataFlows {
		assert.True(t, len(flow.Streams) == 1 && len(flow.Destinations) == 1 && flow.Destinations[0] == r.Properties.Destinations.LogAnalytics[0].Name, flow.Streams, flow.Destinations)
		table, _ := strings.CutPrefix(flow.OutputStream, "Custom-")
		assert.True(t, tables[table] != nil && flow.Streams[0]+"_CL" == flow.OutputStream, "a flow from", flow.Streams, "to", flow.OutputStream)
		flows[flow.Streams[0]] = true
	}
	declared := slices.Sorted(maps.Keys(r.Properties.StreamDeclarations))
	if want := slices.Sorted(maps.Keys(sent)); !slices.Equal(declared, want) || !slices.Equal(slices.Sorted(maps.Keys(flows)), want) || len(tables) != len(want) {
		t.Errorf("the rule declares %v, has flows from %v and %d tables; the preset sends %v", declared, slices.Sorted(maps.Keys(flows)), len(tables), want)
	}
}

// Names that Azure reserves for its own columns.
var reserved = []string{"id", "type", "title", "tenantid", "uniqueid", "billedsize", "isbillable"}

func TestTransformationsFillTheirTables(t *testing.T) {
	r, tables := rule(t)
	assignment := regexp.MustCompile(`(?:^|, )(\w+) = `)
	for _, flow := range r.Properties.DataFlows {
		projection, ok := strings.CutPrefix(flow.TransformKQL, "source | project ")
		require.True(t, ok, flow.OutputStream, flow.TransformKQL)
		var made, want []string
		for _, m := range assignment.FindAllStringSubmatch(projection, -1) {
			made = append(made, m[1])
		}
		for _, c := range tables[strings.TrimPrefix(flow.OutputStream, "Custom-")] {
			want = append(want, c.Name)
			assert.True(t, c.Description != "" && !slices.Contains(reserved, strings.ToLower(c.Name)) && len(c.Name) <= 45, flow.OutputStream, "the column", c)
		}
		assert.True(t, slices.Equal(made, want) && want[0] == "TimeGenerated", flow.OutputStream, "the transformation makes", made, "and the table", want)
	}
}

// Every path below data that a transformation reads is in one of the events for its stream.
func TestTransformationsReadWhatEventsHold(t *testing.T) {
	held := make(map[string]bool)
	for _, kind := range presettest.Events(t) {
		var data any
		require.NoError(t, json.Unmarshal(kind.Event.Data(), &data))
		hold(held, kind.Event.Stream()+" data", data)
	}
	// Flows are not among these events.
	for _, side := range []string{"senderAddr", "receiverAddr"} {
		held["records data.record._source."+side+".value"] = true
	}
	streams := map[string]string{"Custom-NdrbridgeDetection": "detections", "Custom-NdrbridgeAudit": "audit", "Custom-NdrbridgeRecord": "records", "Custom-NdrbridgeEvent": "events"}
	r, _ := rule(t)
	checked := 0
	for _, flow := range r.Properties.DataFlows {
		for _, path := range regexp.MustCompile(`\bdata((\.\w+|\['\w+'\])+)`).FindAllString(flow.TransformKQL, -1) {
			path = strings.NewReplacer("['", ".", "']", "").Replace(path)
			checked++
			assert.True(t, held[streams[flow.Streams[0]]+" "+path], flow.Streams[0], "no event", path)
		}
	}
	assert.True(t, checked >= 25, "only", checked, "paths")
}

// hold adds the paths of all members below at.
func hold(held map[string]bool, at string, value any) {
	held[at] = true
	if object, ok := value.(map[string]any); ok {
		for name, member := range object {
			hold(held, at+"."+name, member)
		}
	}
}

func TestTheAnalyticsRuleStaysWithinTheLimitsOfSentinel(t *testing.T) {
	r := read(t, "analyticsrule.json").Resources[0]
	p := r.Properties
	assert.Equal(t, r.Kind, "Scheduled", "severity", p.Severity, "kind")
	assert.True(t, slices.Contains([]string{"High", "Medium", "Low", "Informational"}, p.Severity), "severity", p.Severity)
	assert.True(t, len(p.EntityMappings) <= 10, len(p.EntityMappings), "entities")
	assert.True(t, len(p.CustomDetails) <= 20, len(p.CustomDetails), "details")
	identifiers := map[string]string{"IP": "Address", "Host": "FullName", "Account": "FullName"}
	seen := make(map[string]bool)
	for _, e := range p.EntityMappings {
		seen[e.EntityType] = true
		assert.True(t, len(e.FieldMappings) == 1 && e.FieldMappings[0].Identifier == identifiers[e.EntityType], e.EntityType, "by", e.FieldMappings)
	}
	assert.Equal(t, len(seen), len(identifiers), "entities", seen)
	for _, name := range p.IncidentConfiguration.GroupingConfiguration.GroupByCustomDetails {
		assert.True(t, p.CustomDetails[name] != "", "incidents are grouped by", name, "which is no custom detail")
	}
}

func TestTheReadmeListsEveryColumn(t *testing.T) {
	text := require.Value(os.ReadFile("README.md"))(t)
	_, tables := rule(t)
	for name, columns := range tables {
		for _, c := range columns {
			assert.Contains(t, string(text), fmt.Sprintf("`%s`", c.Name), "the README does not mention", c.Name, "of", name)
		}
	}
}
