package main

import (
	"encoding"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"ndrbridge/configs"
	"ndrbridge/test/assert"
	"ndrbridge/test/certificate"
	"ndrbridge/test/require"
)

// everything is a configuration in which every block is there and has its defaults.
const everything = `
cluster: {name: prod, nats: {url: "nats://h:4222", tls: {}}, archive: {folder: /a}}
appliances: [{name: hq, url: "https://sensor.example", api_key: k, records: [{name: dns}]}]
sinks:
  - {name: lake, kafka: {brokers: ["h:9092"], tls: {}, create_topic: {}}}
  - {name: bus, nats: {url: "nats://h:4222", tls: {}}}
  - {name: soc, webhook: {url: "https://h.example", auth: {oauth: {token_url: "https://id.example", client_id: i, client_secret: s}}}}
  - name: tickets
    webhook:
      url: https://h.example
      template: "{}"
      ticket: {system: generic, id: id, lookup: {url: "https://h.example/{{.event.id}}", id: id}}
  - {name: issues, webhook: {url: "https://h.example", ticket: {system: jira, project: P, group: {by: [type]}}}}
  - {name: siem, syslog: {address: "h:6514", tls: {}}}
  - {name: log, file: {path: "-"}}
tickets:
  enabled: true
  nats: {url: "nats://h:4222", stream: T, tls: {}}
  kafka: {brokers: ["h:9092"], tls: {}}
  webhooks: {jira: {secret: s}, servicenow: {secret: s}, generic: [{name: other, secret: s}]}
`

// key is one that a configuration may have: where it lies in the structs and in the
// schema.
type key struct {
	path   string // sinks[].kafka.brokers
	schema string // the pointer of its schema
	field  reflect.StructField
}

// keys walks the structs, as decoding does, without the help of what is tested.
func keys(t reflect.Type, path, schema string) []key {
	var all []key
	for _, f := range reflect.VisibleFields(t) {
		name := f.Tag.Get("yaml")
		own := key{join(path, name), schema + "/properties/" + name, f}
		below := f.Type
		if below.Kind() == reflect.Pointer || below.Kind() == reflect.Slice {
			below = below.Elem()
		}
		switch {
		case f.Anonymous: // its fields follow
		case !f.IsExported(): // no key
		case below == reflect.TypeFor[configs.Secret]() && below == f.Type:
			file := own
			file.path, file.schema = file.path+"_file", file.schema+"_file"
			all = append(all, own, file)
		case below == t: // the rules of a record filter are record filters
			continue
		case below.Kind() == reflect.Struct && below.Name() != "operand" && !reflect.PointerTo(below).Implements(reflect.TypeFor[encoding.TextUnmarshaler]()):
			path := own.path
			if f.Type.Kind() == reflect.Slice {
				path += "[]"
			}
			all = append(all, keys(below, path, "/$defs/"+below.Name())...)
		default:
			all = append(all, own)
		}
	}
	return all
}

func allKeys() []key { return keys(reflect.TypeFor[configs.Config](), "", "") }

func TestSchemaHasEveryKeyAndNoOther(t *testing.T) {
	var document map[string]any
	require.NoError(t, json.Unmarshal(configs.Schema(), &document))
	var described []string
	var walk func(path string, schema map[string]any)
	walk = func(path string, schema map[string]any) {
		properties, _ := schema["properties"].(map[string]any)
		for name, value := range properties {
			property, path := value.(map[string]any), join(path, name)
			if items, is := property["items"].(map[string]any); is && strings.HasPrefix(fmt.Sprint(items["$ref"]), "#/$defs/") {
				switch fmt.Sprint(items["$ref"]) {
				case "#/$defs/RecordFilter": // the rules of one
					continue
				case "#/$defs/text":
				default:
					property, path = items, path+"[]"
				}
			}
			target := strings.TrimPrefix(fmt.Sprint(property["$ref"]), "#/$defs/")
			definition, _ := document["$defs"].(map[string]any)[target].(map[string]any)
			if definition["properties"] == nil {
				described = append(described, path)
				continue
			}
			if definition["additionalProperties"] != false {
				t.Errorf("%s takes unknown keys", path)
			}
			walk(path, definition)
		}
	}
	walk("", document)
	var known []string
	for _, k := range allKeys() {
		known = append(known, k.path)
	}
	slices.Sort(described)
	slices.Sort(known)
	for _, path := range known {
		assert.True(t, slices.Contains(described, path), path, "is not in the schema")
	}
	for _, path := range described {
		assert.True(t, slices.Contains(known, path), path, "is in the schema alone")
	}
}

// at finds the value of a path, with the first items of the lists on the way that
// have what follows.
func at(value reflect.Value, path string) (reflect.Value, bool) {
	if value.Kind() == reflect.Pointer && path != "" {
		if value.IsNil() {
			return value, false
		}
		value = value.Elem()
	}
	if path == "" {
		return value, true
	}
	if rest, is := strings.CutPrefix(path, "[]."); is {
		for i := range value.Len() {
			if found, ok := at(value.Index(i), rest); ok {
				return found, true
			}
		}
		return value, false
	}
	end := strings.IndexAny(path, ".[")
	name, rest := path, ""
	if end >= 0 {
		name, rest = path[:end], strings.TrimPrefix(path[end:], ".")
	}
	for _, f := range reflect.VisibleFields(value.Type()) {
		if f.Tag.Get("yaml") == name {
			return at(value.FieldByIndex(f.Index), rest)
		}
	}
	return value, false
}

func TestSchemaDefaultsMatchLoad(t *testing.T) {
	config, err := load(t, tree(t, everything))
	require.NoError(t, err)
	cert, key := certificate.Files(t, t.TempDir(), "h", certificate.New(t, "h", time.Now().Add(time.Hour), nil))
	servers := fmt.Sprintf(`embedded: {peers: ["h:1", "i:1", "j:1"], tls: {cert_file: %q, key_file: %q, ca_file: %[1]q}}`, cert, key)
	embedded, err := load(t, tree(t, strings.Replace(everything, `url: "nats://h:4222", tls: {}`, servers, 1)))
	require.NoError(t, err)
	checked := 0
	for _, k := range allKeys() {
		schema := compiled()(k.schema)
		if schema.Default == nil {
			continue
		}
		got, ok := at(reflect.ValueOf(config).Elem(), k.path)
		if !ok {
			got, ok = at(reflect.ValueOf(embedded).Elem(), k.path)
		}
		require.True(t, ok, "everything has no", k.path)
		want := reflect.New(got.Type()).Elem()
		text := fmt.Sprint(*schema.Default)
		if reader, is := want.Addr().Interface().(encoding.TextUnmarshaler); is {
			assert.NoError(t, reader.UnmarshalText([]byte(text)), k.path)
			assert.DeepEqual(t, got.Interface(), want.Interface(), k.path, "is", got, "the schema says", text)
		} else if fmt.Sprint(got) != text {
			t.Errorf("%s is %v, the schema says %s", k.path, got, text)
		}
		checked++
	}
	assert.True(t, checked >= 50, "the schema has", checked, "defaults")
}

// put sets the key in everything, in each item of the lists on the way that has what
// it lies in.
func put(config any, path string, value any) {
	name, rest, _ := strings.Cut(path, ".")
	list := strings.HasSuffix(name, "[]")
	name = strings.TrimSuffix(name, "[]")
	object, is := config.(map[string]any)
	if !is {
		return
	}
	if rest == "" {
		object[name] = value
		return
	}
	if list {
		items, _ := object[name].([]any)
		for _, item := range items {
			put(item, rest, value)
		}
		return
	}
	if object[name] == nil {
		// A kind of sink that an item has not.
		if slices.Contains([]string{"kafka", "nats", "webhook", "file", "ticket", "lookup"}, name) {
			return
		}
		object[name] = map[string]any{}
	}
	put(object[name], rest, value)
}

// refused returns the keys for which Load reports one of the messages.
func refused(t *testing.T, config any, messages ...string) map[string]bool {
	t.Helper()
	_, err := load(t, config)
	var all configs.Errors
	if err != nil && !errors.As(err, &all) {
		t.Fatal(err)
	}
	found := make(map[string]bool)
	for _, one := range all {
		for _, message := range messages {
			if strings.Contains(one.Message, message) {
				found[general(one.Path)] = true
			}
		}
	}
	return found
}

var index = regexp.MustCompile(`\[\d+\]`)

// general is a path without its indexes.
func general(path string) string { return index.ReplaceAllString(path, "[]") }

// valuesOf returns the values that a schema lists, or nil.
func valuesOf(schema *jsonschema.Schema) []any {
	for _, one := range schema.AnyOf {
		if one.Enum != nil {
			return one.Enum.Values
		}
	}
	return nil
}

func TestSchemaEnumsMatchLoad(t *testing.T) {
	type enum struct {
		key
		of     string // the path of what has the value
		schema *jsonschema.Schema
		values []any
	}
	var enums []enum
	most := 0
	for _, k := range allKeys() {
		e := enum{key: k, of: k.path, schema: compiled()(k.schema)}
		if items := e.schema.Items2020; items != nil {
			e.schema, e.of = items, e.of+"[]"
		}
		values := valuesOf(e.schema)
		if values == nil {
			continue
		}
		e.values = append(slices.Clone(values), "another", "")
		for _, value := range values {
			if text, is := value.(string); is {
				e.values = append(e.values, strings.ToUpper(text), strings.ReplaceAll(text, "_", "-"))
			}
		}
		enums, most = append(enums, e), max(most, len(e.values))
	}
	assert.True(t, len(enums) >= 12, "the schema has", len(enums), "enums")
	for i := range most { // the i-th value of each
		config := tree(t, everything)
		for _, e := range enums {
			value := e.values[i%len(e.values)]
			if e.of != e.path {
				value = []any{value}
			}
			put(config, e.path, value)
		}
		wrong := refused(t, config, "is not one of", "is empty; write one of", "is missing")
		for _, e := range enums {
			value := e.values[i%len(e.values)]
			if taken := e.schema.Validate(value) == nil; taken == wrong[e.of] {
				t.Errorf("%s: of %v schema accepts it: %v, Load disagrees", e.path, value, taken)
			}
		}
	}
}

func TestSchemaBoundsMatchLoad(t *testing.T) {
	probes := map[reflect.Type][]string{
		reflect.TypeFor[int]():              {"-2", "-1", "0", "1", "2", "100", "101", "10000", "10001", "20000", "20001", "32767", "32768", "2147483647"},
		reflect.TypeFor[*int]():             {"-1", "0", "100", "101"},
		reflect.TypeFor[float64]():          {"-0.5", "0", "0.5", "1000000"},
		reflect.TypeFor[configs.Duration](): {"0", `"-1s"`, `"0"`, `"0s"`, `"+1h"`, `"1.5d"`, `"1w2d3h"`, `"90d"`, `"1"`, `"1 s"`, `""`, "1"},
		reflect.TypeFor[configs.Size]():     {"0", "-1", "1", "16777215", "16777216", `"0"`, `"0B"`, `"16MiB"`, `"1 MiB"`, `"1MB"`, `"1.5GiB"`, `""`},
		reflect.TypeFor[configs.Start]():    {`"now"`, `"beginning"`, `"-7d"`, `"7d"`, `"7d ago"`, `"yesterday 08:00"`, `"tomorrow"`, `"0"`, `"2026-01-31T08:00:00Z"`, `"2026-01-31"`, `"2026-01-31 08:00"`, `"2026-01-31T08:00:00"`, `"31.01.2026"`, "5"},
	}
	// What bounds it is another key, which no schema can compare with.
	const related = "appliances[].records[].max_window_records"
	for of, texts := range probes {
		for _, text := range texts {
			value, config := tree(t, text), tree(t, everything)
			for _, k := range allKeys() {
				if k.field.Type == of {
					put(config, k.path, value)
				}
			}
			wrong := refused(t, config, "it must be above", "it must be at least", "it must be 0 or more", "it must be between", "is not a", "needs a unit")
			for _, k := range allKeys() {
				if k.field.Type != of || k.path == related {
					continue
				}
				if taken := compiled()(k.schema).Validate(value) == nil; taken == wrong[k.path] {
					t.Errorf("%s: of %s schema accepts it: %v, Load disagrees", k.path, text, taken)
				}
			}
		}
	}
}

func TestSchemaPermitsReferences(t *testing.T) {
	for _, k := range allKeys() {
		value := any("${NAME:-default}")
		switch k.field.Type.Kind() {
		case reflect.Slice:
			value = []any{value}
		case reflect.Map:
			value = map[string]any{"low": value}
		case reflect.Struct:
		}
		assert.NoError(t, compiled()(k.schema).Validate(value), k.path)
	}
	whole := compiled()("")
	for text, valid := range map[string]bool{
		`{appliances: [{name: hq, url: "https://${HOST}", oauth: {client_id: "${ID}"}}], sinks: [{name: s, kafka: {brokers: ["${BROKER}"]}, mode: "${MODE}"}]}`: true,
		`{appliances: [{name: hq, url: "https://${HOST}", api_kye: k}], sinks: [{name: s, file: {path: "-"}}]}`:                                                 false,
		`{appliances: [{name: hq, url: "https://h", api_key: k}], sinks: [{name: s, file: {path: "-"}, retry: {max: "${MAX}", maximum: 1s}}]}`:                  false,
		`{appliances: [{name: hq, url: "https://h", api_key: k}], sinks: [{name: s, webhook: {url: "${URL}", preset: "${PRESET}", channel: C1}}]}`:              true,
		`{appliances: "${LIST}", sinks: [{name: s, file: {path: "-"}}]}`:                                                                                        false,
	} {
		if err := whole.Validate(tree(t, text)); (err == nil) != valid {
			t.Errorf("%s: %v", text, err)
		}
	}
}
