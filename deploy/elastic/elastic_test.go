// Package elastic has the index templates, the transform and the dashboard for
// Elasticsearch and OpenSearch. Its tests compare them with each other and with the
// documents of the bridge.
package elastic

import (
	"bytes"
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"ndrbridge/test/appliance"
	"ndrbridge/test/assert"
	"ndrbridge/test/presettest"
	"ndrbridge/test/require"
	events "ndrbridge/transform"
	"ndrbridge/transform/format"
)

// field is a field of a mapping, or an object with fields.
type field struct {
	Type            string           `json:"type,omitempty"`
	IgnoreAbove     int              `json:"ignore_above,omitempty"`
	IgnoreMalformed *bool            `json:"ignore_malformed,omitempty"`
	Properties      map[string]field `json:"properties,omitempty"`
}

type component struct {
	Template struct {
		Settings map[string]any `json:"settings"`
		Mappings struct {
			Dynamic    bool             `json:"dynamic"`
			Properties map[string]field `json:"properties"`
		} `json:"mappings"`
	} `json:"template"`
	Version int            `json:"version"`
	Meta    map[string]any `json:"_meta"`
}

type indexTemplate struct {
	IndexPatterns []string  `json:"index_patterns"`
	Priority      int       `json:"priority"`
	DataStream    *struct{} `json:"data_stream"`
	ComposedOf    []string  `json:"composed_of"`
	Template      *struct {
		Settings  map[string]any `json:"settings"`
		Lifecycle struct {
			Enabled bool `json:"enabled"`
		} `json:"lifecycle"`
	} `json:"template"`
	Version int            `json:"version"`
	Meta    map[string]any `json:"_meta"`
}

// versionsQuery selects versions, and no follow-ups: their event.kind differs.
type versionsQuery struct {
	Term map[string]string `json:"term"`
}

// transform has the members of Elasticsearch's "Create a transform" that the file uses.
type transform struct {
	Description string `json:"description"`
	Source      struct {
		Index []string      `json:"index"`
		Query versionsQuery `json:"query"`
	} `json:"source"`
	Dest struct {
		Index string `json:"index"`
	} `json:"dest"`
	Latest struct {
		UniqueKey []string `json:"unique_key"`
		Sort      string   `json:"sort"`
	} `json:"latest"`
	Sync struct {
		Time struct {
			Field string `json:"field"`
			Delay string `json:"delay"`
		} `json:"time"`
	} `json:"sync"`
	Frequency string `json:"frequency"`
}

// read decodes a file, whose members must all be known.
func read(t testing.TB, file string, into any) {
	t.Helper()
	text := require.Value(os.ReadFile(file))(t)
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.DisallowUnknownFields()
	require.NoError(t, decoder.Decode(into), file)
}

// mapping returns the fields of a component template by their paths.
func mapping(t testing.TB, file string) map[string]field {
	t.Helper()
	var c component
	read(t, file, &c)
	assert.False(t, c.Template.Mappings.Dynamic, file, "maps unknown fields")
	fields := make(map[string]field)
	var add func(prefix string, properties map[string]field)
	add = func(prefix string, properties map[string]field) {
		for name, f := range properties {
			assert.True(t, (f.Type == "") != (f.Properties == nil), file, prefix, name, "is neither a field nor an object")
			if f.Type != "" {
				fields[prefix+name] = f
			}
			add(prefix+name+".", f.Properties)
		}
	}
	add("", c.Template.Mappings.Properties)
	return fields
}

func TestOpenSearchHasTheFieldsOfElasticsearch(t *testing.T) {
	want := mapping(t, "elasticsearch/component.json")
	for path, f := range want {
		switch f.Type {
		case "flattened":
			want[path] = field{Type: "flat_object"}
		case "wildcard":
			want[path] = field{Type: "keyword", IgnoreAbove: 1024}
		}
	}
	got := mapping(t, "opensearch/component.json")
	for _, path := range slices.Sorted(maps.Keys(want)) {
		assert.DeepEqual(t, got[path], want[path], path, "is")
	}
	assert.Equal(t, len(got), len(want), "fields")
	var elastic, open component
	read(t, "elasticsearch/component.json", &elastic)
	read(t, "opensearch/component.json", &open)
	assert.DeepEqual(t, open.Template.Settings, elastic.Template.Settings, "settings")
	var streams, openStreams indexTemplate
	read(t, "elasticsearch/data-streams.json", &streams)
	read(t, "opensearch/data-streams.json", &openStreams)
	streams.Template = nil // index modes and the life cycle of data streams are Elasticsearch's
	assert.DeepEqual(t, openStreams, streams)
}

// TestEveryKeywordIsBounded: a longer value would make the index refuse the document.
func TestEveryKeywordIsBounded(t *testing.T) {
	for path, f := range mapping(t, "elasticsearch/component.json") {
		const most = 32766 / 3 // bytes of a term, by those of a UTF-16 code unit
		bounded := f.IgnoreAbove > 0 && f.IgnoreAbove < most
		assert.True(t, f.Type != "keyword" && f.Type != "flattened" || bounded, path, "has no ignore_above")
	}
}

func TestEveryFieldOfADocumentIsMapped(t *testing.T) {
	encoder := require.Value(format.New(format.ECS, format.Options{Version: "1.0.0"}))(t)
	fields := mapping(t, "elasticsearch/component.json")
	var walk func(event, path string, value any)
	walk = func(event, path string, value any) {
		f, mapped := fields[path]
		switch value := value.(type) {
		case map[string]any:
			if f.Type == "flattened" {
				return
			}
			assert.False(t, mapped, event, path, "is an object")
			for name, member := range value {
				walk(event, strings.TrimPrefix(path+"."+name, "."), member)
			}
		case []any:
			for _, element := range value {
				walk(event, path, element)
			}
		default:
			assert.True(t, mapped && f.Type != "flattened", event, path, value, "and mapped as", f.Type)
		}
	}
	for _, kind := range append(presettest.Events(t), records(t)...) {
		var document any
		require.NoError(t, json.Unmarshal(encoder.Encode(kind.Event).Payload(), &document))
		walk(kind.Name, "", document)
	}
}

// records returns records of all types of the stand-in appliance.
func records(t *testing.T) (all []presettest.Named) {
	a := appliance.New(appliance.Options{Seed: 1})
	encoder := events.Encoder{Appliance: "hq"}
	types := map[string]bool{}
	for _, r := range a.AddRecords(300) {
		e := require.Value(encoder.Record("all", events.ParseRecord(r.JSON, false), time.UnixMilli(1)))(t)
		all, types[r.Type] = append(all, presettest.Named{Name: r.Type, Event: e}), true
	}
	assert.True(t, len(types) >= 4, "the appliance has records of only", len(types), "types")
	return all
}

func TestTransformKeepsTheLatestVersionOfEachDetection(t *testing.T) {
	var x transform
	read(t, "elasticsearch/transform.json", &x)
	fields := mapping(t, "elasticsearch/component.json")
	assert.EqualSlices(t, x.Latest.UniqueKey, []string{"event.provider", "ndrbridge.detection.id"}, "the key is")
	for _, key := range x.Latest.UniqueKey {
		assert.Equal(t, fields[key].Type, "keyword", key, "is mapped as")
	}
	assert.True(t, maps.Equal(x.Source.Query.Term, map[string]string{"event.kind": "alert"}), "it reads", x.Source.Query)
	for _, at := range []string{x.Latest.Sort, x.Sync.Time.Field} {
		assert.Equal(t, fields[at].Type, "date", at, "is mapped as")
	}
	var streams, latest indexTemplate
	read(t, "elasticsearch/data-streams.json", &streams)
	read(t, "elasticsearch/latest.json", &latest)
	assert.True(t, slices.Equal(latest.IndexPatterns, []string{x.Dest.Index}) && slices.Equal(latest.ComposedOf, streams.ComposedOf) && latest.DataStream == nil, x.Dest.Index, latest)
	for _, index := range x.Source.Index {
		assert.True(t, require.Value(filepath.Match(streams.IndexPatterns[0], index))(t), index, "is not among", streams.IndexPatterns)
	}
}

func TestQueryForTheLatestHasTheKeyAndTheOrderOfTheTransform(t *testing.T) {
	var x transform
	read(t, "elasticsearch/transform.json", &x)
	var query struct {
		Size  int           `json:"size"`
		Query versionsQuery `json:"query"`
		Aggs  struct {
			Detections struct {
				Composite struct {
					Size    int `json:"size"`
					Sources []map[string]struct {
						Terms struct {
							Field string `json:"field"`
						} `json:"terms"`
					} `json:"sources"`
				} `json:"composite"`
				Aggs struct {
					Latest struct {
						TopHits struct {
							Size int                 `json:"size"`
							Sort []map[string]string `json:"sort"`
						} `json:"top_hits"`
					} `json:"latest"`
				} `json:"aggs"`
			} `json:"detections"`
		} `json:"aggs"`
	}
	read(t, "opensearch/latest-query.json", &query)
	var key []string
	for _, source := range query.Aggs.Detections.Composite.Sources {
		for _, s := range source {
			key = append(key, s.Terms.Field)
		}
	}
	top := query.Aggs.Detections.Aggs.Latest.TopHits
	assert.True(t, maps.Equal(query.Query.Term, x.Source.Query.Term), "it reads", query.Query)
	assert.True(t, slices.Equal(key, x.Latest.UniqueKey) && len(top.Sort) == 1 && top.Sort[0][x.Latest.Sort] == "desc" && top.Size == 1, key, top.Sort, x.Latest.UniqueKey, x.Latest.Sort)
}

func TestReadmeNamesEveryFile(t *testing.T) {
	readme := require.Value(os.ReadFile("README.md"))(t)
	for _, pattern := range []string{"*/*.json", "*.ndjson"} {
		files, err := filepath.Glob(pattern)
		require.True(t, err == nil && len(files) != 0, pattern, err)
		for _, file := range files {
			assert.True(t, bytes.Contains(readme, []byte(file)), file, "is not in the README")
		}
	}
}
