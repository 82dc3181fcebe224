// Command openapi writes the description of the admin interface, internal/admin/openapi.json: its
// operations and schemas are made from admin.API, the types of requests and answers, and their
// comments. What these do not contain is in base.yaml, which is merged into the document. Schemas
// of requests have additionalProperties: false; those of answers do not, because later versions
// add fields. make reference runs it in the root of the repository.
package main

import (
	"encoding/json"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	_ "embed"

	"ndrbridge/internal/admin"
	"ndrbridge/poller"
)

// file is the path of the description, relative to the root of the repository.
const file = "internal/admin/openapi.json"

//go:embed base.yaml
var base []byte

type object = map[string]any

func main() {
	text, err := document(".")
	if err == nil {
		err = os.WriteFile(file, text, 0o644)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "openapi:", err)
		os.Exit(1)
	}
}

// document returns the description. root is the root of the repository.
func document(root string) ([]byte, error) {
	var rest object
	if err := yaml.Unmarshal(base, &rest); err != nil {
		return nil, err
	}
	g := generator{comments: make(map[string]string), schemas: object{}, paths: object{}, rest: rest}
	for _, folder := range []string{"internal/admin", "internal/finding", "poller"} {
		if err := g.readComments(filepath.Join(root, folder)); err != nil {
			return nil, err
		}
	}
	for field := range reflect.TypeOf(admin.API).Fields() {
		g.addOperation(field)
	}
	// Verify sends its answer in lines.
	g.schema(reflect.TypeFor[poller.Difference](), false)
	g.schema(reflect.TypeFor[poller.Verification](), false)
	merge(rest, object{"paths": g.paths, "components": object{"schemas": g.schemas}})
	for path, item := range rest["paths"].(object) {
		for _, operation := range item.(object) {
			finish(path, operation.(object))
		}
	}
	text, err := json.MarshalIndent(rest, "", " ")
	return append(text, '\n'), err
}

// merge adds to an object the fields of another that it does not have, at any depth.
func merge(into, from object) {
	for name, value := range from {
		have, known := into[name]
		if !known {
			into[name] = value
		} else if inner, ok := have.(object); ok {
			merge(inner, value.(object))
		}
	}
}

// finish makes a list of the parameters of an operation, and adds the answers that it may give
// whatever it does.
func finish(path string, operation object) {
	if parameters, ok := operation["parameters"].(object); ok {
		list := []object{}
		for name, parameter := range parameters {
			parameter.(object)["name"] = name
			list = append(list, parameter.(object))
		}
		slices.SortFunc(list, func(a, b object) int { return strings.Compare(a["name"].(string), b["name"].(string)) })
		operation["parameters"] = list
	}
	answers := object{"421": response("Misdirected")}
	if _, open := operation["security"]; !open {
		answers["401"], answers["403"] = response("Unauthorized"), response("Forbidden")
		answers["429"], answers["503"] = response("Throttled"), response("Unavailable")
		if strings.HasPrefix(path, "/api/") {
			answers["400"], answers["500"] = response("BadRequest"), response("Failed")
		}
		if _, has := operation["requestBody"]; has {
			answers["413"] = response("TooLarge")
		}
	}
	merge(operation["responses"].(object), answers)
}

func reference(kind, name string) object { return object{"$ref": "#/components/" + kind + "/" + name} }

func response(name string) object { return reference("responses", name) }

func content(schema object) object {
	return object{"application/json": object{"schema": schema}}
}

type generator struct {
	comments map[string]string // by TYPE and TYPE.FIELD
	schemas  object
	paths    object
	rest     object // base.yaml
}

// addOperation adds the operation of a field of admin.API.
func (g *generator) addOperation(field reflect.StructField) {
	call, _ := field.Type.MethodByName("Call")
	request, answer := call.Type.In(3), call.Type.Out(0)
	words := strings.Fields(field.Tag.Get("http"))
	summary, description, _ := strings.Cut(g.text("apiOperations", field.Name), ". ")
	id := strings.ToLower(field.Name[:1]) + field.Name[1:]
	for _, path := range words[1:] {
		operation := object{"operationId": id, "tags": []string{field.Tag.Get("group")}, "summary": strings.TrimSuffix(summary, ".")}
		id = strings.Replace(id, "Letter", "Object", 1) // on the path of appliances
		if description != "" {
			operation["description"] = description
		}
		if parameters := g.parameters(request, path, strings.Join(words[1:], " ")); len(parameters) > 0 {
			operation["parameters"] = parameters
		}
		if hasBody(request) {
			operation["requestBody"] = object{"required": true, "content": content(g.schema(request, true))}
		}
		responses := object{}
		for status := range strings.FieldsSeq(field.Tag.Get("errors")) {
			name := map[string]string{"404": "NotFound", "409": "Conflict", "422": "Invalid"}[status]
			if status == "404" && field.Tag.Get("group") == "cluster" {
				name = "NoCluster"
			}
			responses[status] = response(name)
		}
		whole, method := "/api/v1"+strings.ReplaceAll(path, "...", ""), strings.ToLower(words[0])
		switch {
		case g.describesAnswer(whole, method):
		case answer == reflect.TypeFor[admin.None]():
			responses["204"] = response("Done")
		default:
			responses["200"] = object{"description": g.text(answer.Name(), ""), "content": content(g.schema(answer, false))}
		}
		operation["responses"] = responses
		merge(g.paths, object{whole: object{method: operation}})
	}
}

// describesAnswer reports whether base.yaml has the answer of an operation.
func (g *generator) describesAnswer(path, method string) bool {
	item, _ := g.rest["paths"].(object)[path].(object)
	operation, _ := item[method].(object)
	responses, _ := operation["responses"].(object)
	return responses["200"] != nil
}

// parameters returns the parameters of a request to a path, of which all are those of the
// operation, by name.
func (g *generator) parameters(request reflect.Type, path, all string) object {
	parameters := object{}
	for _, f := range reflect.VisibleFields(request) {
		name, ok := f.Tag.Lookup("param")
		inPath, ofStream := strings.Contains(path, "{"+name), name == "appliance" || name == "stream"
		if !ok || !inPath && (strings.Contains(all, "{"+name) || ofStream && strings.Contains(path, "{sink}")) {
			continue
		}
		parameter := object{"in": "query", "description": g.text(owner(request, f), f.Name), "schema": g.schema(f.Type, false)}
		if inPath {
			parameter["in"] = "path"
		}
		if inPath || name == "stream" && strings.Contains(path, "{appliance}") {
			parameter["required"] = true
			if f.Type.Kind() == reflect.String {
				parameter["schema"] = object{"type": "string", "minLength": 1}
			}
		}
		parameters[name] = parameter
	}
	return parameters
}

func hasBody(request reflect.Type) bool {
	return slices.ContainsFunc(reflect.VisibleFields(request), isMember)
}

// isMember reports whether a field is in the JSON.
func isMember(f reflect.StructField) bool {
	name, ok := f.Tag.Lookup("json")
	return ok && name != "-"
}

// owner returns the name of the struct that a visible field of a struct is declared in.
func owner(of reflect.Type, f reflect.StructField) string {
	for _, i := range f.Index[:len(f.Index)-1] {
		of = of.Field(i).Type
	}
	return of.Name()
}

// schema returns the schema of a type. That of a struct is a component.
func (g *generator) schema(of reflect.Type, isRequest bool) object {
	switch of {
	case reflect.TypeFor[time.Time]():
		return reference("schemas", "Time")
	case reflect.TypeFor[json.RawMessage]():
		return object{}
	case reflect.TypeFor[[]byte]():
		return object{"type": "string", "contentEncoding": "base64"}
	}
	switch of.Kind() {
	case reflect.Bool:
		return object{"type": "boolean"}
	case reflect.String:
		return object{"type": "string"}
	case reflect.Float64:
		return object{"type": "number"}
	case reflect.Uint64:
		return reference("schemas", "Count")
	case reflect.Int, reflect.Int64:
		return reference("schemas", "Number")
	case reflect.Pointer:
		return g.schema(of.Elem(), isRequest)
	case reflect.Map:
		return object{"type": "object", "additionalProperties": g.schema(of.Elem(), isRequest)}
	case reflect.Slice:
		items := g.schema(of.Elem(), isRequest)
		if of.Elem().Kind() == reflect.Pointer {
			items = object{"type": []string{"number", "null"}}
		}
		return object{"type": "array", "items": items}
	}
	if g.schemas[of.Name()] == nil {
		g.schemas[of.Name()] = g.structure(of, isRequest)
	}
	return reference("schemas", of.Name())
}

func (g *generator) structure(of reflect.Type, isRequest bool) object {
	properties, required := object{}, []string{}
	for _, f := range reflect.VisibleFields(of) {
		if !isMember(f) {
			continue
		}
		name, options, _ := strings.Cut(f.Tag.Get("json"), ",")
		property := g.schema(f.Type, isRequest)
		property["description"] = g.text(owner(of, f), f.Name)
		if isRequest && f.Type.Kind() == reflect.String {
			property["minLength"] = 1
		}
		properties[name] = property
		if options == "" {
			required = append(required, name)
		}
	}
	schema := object{"type": "object", "description": g.text(of.Name(), ""), "properties": properties}
	if len(required) > 0 {
		schema["required"] = required
	}
	if isRequest {
		schema["additionalProperties"] = false
	}
	return schema
}

// readComments reads the comments of the structs of a package and of their fields.
func (g *generator) readComments(folder string) error {
	paths, err := filepath.Glob(filepath.Join(folder, "*.go"))
	if err != nil {
		return err
	}
	for _, path := range paths {
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.ParseComments|parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		for _, declaration := range file.Decls {
			general, ok := declaration.(*ast.GenDecl)
			if !ok || general.Tok != token.TYPE {
				continue
			}
			name := general.Specs[0].(*ast.TypeSpec)
			g.comments[name.Name.Name] = general.Doc.Text()
			structure, ok := name.Type.(*ast.StructType)
			if !ok {
				continue
			}
			for _, field := range structure.Fields.List {
				for _, f := range field.Names {
					g.comments[name.Name.Name+"."+f.Name] = field.Doc.Text() + field.Comment.Text()
				}
			}
		}
	}
	return nil
}

// isWord recognizes a comment that begins with a value, such as nats or kafka.
var isWord = regexp.MustCompile(`^\w+(,| or | \()`)

// text returns the comment of a type, or of one of its fields, as sentences without the name.
func (g *generator) text(of, field string) string {
	comment, name := g.comments[of], of
	if field != "" {
		comment, name = g.comments[of+"."+field], field
	}
	comment = strings.Join(strings.Fields(comment), " ")
	if comment == "" {
		panic(of + " " + field + " has no comment")
	}
	if rest, ok := strings.CutPrefix(comment, name+" "); ok {
		comment = strings.TrimPrefix(strings.TrimPrefix(rest, "is "), "are ")
	}
	if !isWord.MatchString(comment) {
		comment = strings.ToUpper(comment[:1]) + comment[1:]
	}
	return strings.TrimSuffix(comment, ".") + "."
}
