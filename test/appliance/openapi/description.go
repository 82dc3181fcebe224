// Package openapi describes the stand-in appliance's REST interface in OpenAPI 3.1 and
// answers what the server needs of the description: which operation a request is for, and
// whether its parameters, its body and the answer to it fit.
//
// The YAML files of this folder are parts of one document, merged by [Load]: a file for each
// resource, and openapi.yaml for what they share. Besides OpenAPI's own keywords they use:
//
//   - x-not-shown, on anything: the interface leaves this open; the text says what the
//     stand-in chose.
//   - x-privileges, of an operation: the privileges that its caller must have, at least at
//     the given level.
//   - x-changes: false, of an operation whose method is not GET: it changes nothing.
//   - x-create, of an object's schema: the names of the fields that a new object requires.
//     Load derives the schema NAME.create from it, without the fields that are readOnly.
//   - x-patch: true, of an object's schema: Load derives the schema NAME.patch, in which every
//     field is optional, without those that are readOnly or x-immutable.
//   - allOf, of an object's schema: rules among its fields, which NAME.create gets as well. What
//     results from a change is checked by [Description.CheckRules].
//   - x-assignments, of the document: children that can be assigned to a parent. Load derives
//     the operations that list, assign and unassign them, with path, tag, parent, child and
//     children (for summaries), schema (of a child), x-privileges (to change), x-not-shown (of
//     the list), indirect (whether the list has the parameter direct_assignments_only),
//     parameters (names of further ones of the list) and without (methods that the path of one
//     child lacks).
package openapi

import (
	"bytes"
	"embed"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"go.yaml.in/yaml/v3"
)

//go:embed *.yaml
var files embed.FS

// Root is the path that precedes that of every operation.
const Root = "/api/v1"

// Description is the interface of an appliance. It is immutable and safe for concurrent use.
type Description struct {
	// JSON is the OpenAPI document. It must not be modified.
	JSON []byte
	// Operations lists the operations, sorted by path, then method.
	Operations []*Operation

	schemas  *schemas
	defaults map[string]map[string]any       // of the properties of each component
	fixed    map[string][]string             // the properties of each component that are x-immutable
	rules    map[string][]*jsonschema.Schema // among the fields of each component
	bySize   map[int][]*Operation            // by the number of segments of their paths
}

// loaded remembers the results of Load, which depend on nothing but the word: a test starts
// many appliances.
var loaded sync.Map // of func() (*Description, error), by word

// Load returns the description for a product, whose name in paths and fields is word, in
// lower case. It returns an error only if the description is wrong.
func Load(word string) (*Description, error) {
	load, _ := loaded.LoadOrStore(word, sync.OnceValues(func() (*Description, error) { return load(word) }))
	return load.(func() (*Description, error))()
}

func load(word string) (*Description, error) {
	document, err := merge(word)
	if err != nil {
		return nil, err
	}
	components, err := fields(document, "components", "schemas")
	if err != nil {
		return nil, err
	}
	derive(components)
	paths, err := fields(document, "paths")
	if err != nil {
		return nil, err
	}
	if err := assign(document, paths); err != nil {
		return nil, err
	}
	for _, item := range paths {
		for method, operation := range item.(map[string]any) {
			if operation, ok := operation.(map[string]any); ok && method != "parameters" {
				addRefusals(operation)
			}
		}
	}
	return describe(document, word)
}

// Parse returns the description of another interface that is written like this one, an OpenAPI
// document. It is for tests that compare answers with it.
func Parse(document []byte) (*Description, error) {
	decoder := json.NewDecoder(bytes.NewReader(document))
	decoder.UseNumber()
	var decoded map[string]any
	if err := decoder.Decode(&decoded); err != nil {
		return nil, fmt.Errorf("decode the description: %w", err)
	}
	return describe(decoded, "service")
}

// describe returns the description that a whole document is.
func describe(document map[string]any, word string) (*Description, error) {
	components, err := fields(document, "components", "schemas")
	if err != nil {
		return nil, err
	}
	paths, err := fields(document, "paths")
	if err != nil {
		return nil, err
	}
	encoded, err := json.MarshalIndent(document, "", " ")
	if err != nil {
		return nil, fmt.Errorf("encode the description: %w", err)
	}
	d := &Description{JSON: encoded, bySize: make(map[int][]*Operation), defaults: make(map[string]map[string]any), fixed: make(map[string][]string), rules: make(map[string][]*jsonschema.Schema)}
	if d.schemas, err = newSchemas(encoded); err != nil {
		return nil, err
	}
	for name, component := range components {
		d.defaults[name], d.fixed[name] = defaultsOf(component), immutableOf(component)
		if object, _ := component.(map[string]any); object["allOf"] != nil {
			schema, err := d.schemas.compile("#/components/schemas/" + name)
			if err != nil {
				return nil, err
			}
			d.rules[name] = schema.AllOf
		}
	}
	for path, item := range paths {
		for method := range item.(map[string]any) {
			if method == "parameters" {
				continue
			}
			o, err := newOperation(d.schemas, path, method)
			if err != nil {
				return nil, fmt.Errorf("%s %s: %w", strings.ToUpper(method), path, err)
			}
			o.Name = o.Method + " " + canonical(path, word)
			d.Operations = append(d.Operations, o)
		}
	}
	slices.SortFunc(d.Operations, func(a, b *Operation) int {
		return strings.Compare(a.Path+" "+a.Method, b.Path+" "+b.Method)
	})
	for _, o := range d.Operations {
		d.bySize[len(o.segments)] = append(d.bySize[len(o.segments)], o)
	}
	return d, nil
}

// merge returns the document that the files are parts of, with the product's word.
func merge(word string) (map[string]any, error) {
	entries, err := files.ReadDir(".")
	if err != nil {
		return nil, err
	}
	document := map[string]any{}
	for _, entry := range entries {
		text, err := files.ReadFile(entry.Name())
		if err != nil {
			return nil, err
		}
		replaced := strings.NewReplacer("service_id", word+"_id", "service-id", word+"-id", "\n  /service:", "\n  /"+word+":", "\n  /service/", "\n  /"+word+"/").Replace(string(text))
		var part map[string]any
		if err := yaml.Unmarshal([]byte(replaced), &part); err != nil {
			return nil, fmt.Errorf("%s: %w", entry.Name(), err)
		}
		if err := join(document, part, ""); err != nil {
			return nil, fmt.Errorf("%s: %w", entry.Name(), err)
		}
	}
	return document, nil
}

// canonical is the inverse of merge for a path.
func canonical(path, word string) string {
	if rest, ok := strings.CutPrefix(path, "/"+word); ok && (rest == "" || rest[0] == '/') {
		return "/service" + rest
	}
	return path
}

// join adds the fields of a part to those of the whole, object by object. Lists are appended.
func join(whole, part map[string]any, where string) error {
	for name, value := range part {
		have, ok := whole[name]
		if !ok {
			whole[name] = value
			continue
		}
		switch have := have.(type) {
		case map[string]any:
			if value, ok := value.(map[string]any); ok {
				if err := join(have, value, where+"/"+name); err != nil {
					return err
				}
				continue
			}
		case []any:
			if value, ok := value.([]any); ok {
				whole[name] = append(have, value...)
				continue
			}
		}
		return fmt.Errorf("%s/%s is in two files", where, name)
	}
	return nil
}

// fields returns the object at a path of a document.
func fields(document map[string]any, path ...string) (map[string]any, error) {
	for _, name := range path {
		inner, ok := document[name].(map[string]any)
		if !ok {
			return nil, fmt.Errorf("the description has no %s", strings.Join(path, "."))
		}
		document = inner
	}
	return document, nil
}

// derive adds the schemas for the bodies that create and change an object.
func derive(components map[string]any) {
	for _, name := range slices.Collect(maps.Keys(components)) {
		component, _ := components[name].(map[string]any)
		properties, _ := component["properties"].(map[string]any)
		if required, ok := component["x-create"]; ok {
			delete(component, "x-create")
			created := map[string]any{"type": "object", "additionalProperties": false, "properties": writable(properties, false), "title": "New " + name}
			if list, _ := required.([]any); len(list) > 0 {
				created["required"] = list
			}
			if rules, ok := component["allOf"]; ok {
				created["allOf"] = rules
			}
			components[name+".create"] = created
		}
		if _, ok := component["x-patch"]; ok {
			delete(component, "x-patch")
			components[name+".patch"] = map[string]any{
				"type": "object", "additionalProperties": false, "properties": writable(properties, true), "title": "Changes of " + name,
			}
		}
	}
}

// writable returns the properties that a client may set, without defaults if it changes
// an object.
func writable(properties map[string]any, change bool) map[string]any {
	kept := map[string]any{}
	for name, property := range properties {
		property, _ := property.(map[string]any)
		if property["readOnly"] == true || change && property["x-immutable"] == true {
			continue
		}
		copied := maps.Clone(property)
		if change {
			delete(copied, "default")
		}
		kept[name] = copied
	}
	return kept
}

// addRefusals adds the answers that every operation may give.
func addRefusals(operation map[string]any) {
	responses, _ := operation["responses"].(map[string]any)
	add := func(status, response string) {
		if _, ok := responses[status]; !ok && responses != nil {
			responses[status] = map[string]any{"$ref": "#/components/responses/" + response}
		}
	}
	add("400", "BadRequest")
	add("401", "Unauthorized")
	add("403", "Forbidden")
	add("404", "NotFound")
	if _, ok := operation["requestBody"]; ok {
		add("413", "TooLarge")
		add("415", "UnsupportedMediaType")
	}
	add("422", "Unprocessable")
	add("429", "TooManyRequests")
	add("503", "Unavailable")
}

// Find returns the operation for a request and the parameters in its path. If there is none,
// allowed lists the methods that the path has; nil: no resource has the path.
func (d *Description) Find(method, path string) (o *Operation, parameters map[string]string, allowed []string) {
	segments := strings.Split(path, "/")
	for _, candidate := range d.bySize[len(segments)] {
		if !candidate.matches(segments) {
			continue
		}
		if candidate.Method == method {
			return candidate, candidate.parametersOf(segments), nil
		}
		allowed = append(allowed, candidate.Method)
	}
	slices.Sort(allowed)
	return nil, nil, slices.Compact(allowed)
}

// Defaults returns the defaults of a component's properties; those without one are null if
// their type permits it, and absent otherwise. The caller owns the result.
func (d *Description) Defaults(component string) map[string]any {
	return clone(d.defaults[component]).(map[string]any)
}

func defaultsOf(component any) map[string]any {
	defaults := map[string]any{}
	object, _ := component.(map[string]any)
	properties, _ := object["properties"].(map[string]any)
	for name, property := range properties {
		property, _ := property.(map[string]any)
		if value, ok := property["default"]; ok {
			defaults[name] = value
		} else if types, ok := property["type"].([]any); ok && slices.Contains(types, any("null")) {
			defaults[name] = nil
		}
	}
	return defaults
}

// Immutable returns the names of a component's properties that only its creation sets, sorted. They
// must not be modified.
func (d *Description) Immutable(component string) []string { return d.fixed[component] }

func immutableOf(component any) (names []string) {
	object, _ := component.(map[string]any)
	properties, _ := object["properties"].(map[string]any)
	for name, property := range properties {
		if property, _ := property.(map[string]any); property["x-immutable"] == true {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// clone copies a JSON value.
func clone(value any) any {
	switch value := value.(type) {
	case map[string]any:
		copied := make(map[string]any, len(value))
		for name, inner := range value {
			copied[name] = clone(inner)
		}
		return copied
	case []any:
		copied := make([]any, len(value))
		for i, inner := range value {
			copied[i] = clone(inner)
		}
		return copied
	}
	return value
}

// Component returns the schema of a component. It panics if there is none, which is a bug.
func (d *Description) Component(name string) *jsonschema.Schema {
	s, err := d.schemas.compile("#/components/schemas/" + name)
	if err != nil {
		panic(err)
	}
	return s
}

// CheckRules returns an error if the fields of an object break a rule of its component.
func (d *Description) CheckRules(component string, object map[string]any) error {
	for _, rule := range d.rules[component] {
		if err := rule.Validate(object); err != nil {
			return explain(err)
		}
	}
	return nil
}

var methods = []string{http.MethodGet, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete}

// Has reports whether the interface describes an operation with a name.
func (d *Description) Has(name string) bool { return d.Operation(name) != nil }

// Operation returns the operation with a name, or nil.
func (d *Description) Operation(name string) *Operation {
	i := slices.IndexFunc(d.Operations, func(o *Operation) bool { return o.Name == name })
	if i < 0 {
		return nil
	}
	return d.Operations[i]
}
