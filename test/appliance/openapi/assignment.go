package openapi

import (
	"errors"
	"fmt"
	"slices"
)

// assignment is an element of x-assignments: children that can be assigned to a parent.
type assignment struct {
	path, tag            string
	parent               string // in summaries, with an article
	child, children      string // in summaries, one of them with an article
	schema               string // of a child
	indirect             bool   // whether a parent also has children that are not assigned to it alone
	parameters           []any  // the names of further parameters of the list
	privileges, notShown any
	without              []any // the methods with the id of a child that the interface lacks
}

// assign adds the operations of the document's x-assignments to its paths.
func assign(document, paths map[string]any) error {
	list, _ := document["x-assignments"].([]any)
	delete(document, "x-assignments")
	for _, element := range list {
		a, err := newAssignment(element)
		if err != nil {
			return err
		}
		if err := join(paths, a.operations(), ""); err != nil {
			return fmt.Errorf("x-assignments: %w", err)
		}
	}
	return nil
}

func newAssignment(element any) (a assignment, err error) {
	fields, _ := element.(map[string]any)
	for name, field := range map[string]*string{
		"path": &a.path, "tag": &a.tag, "parent": &a.parent, "child": &a.child, "children": &a.children, "schema": &a.schema,
	} {
		if *field, _ = fields[name].(string); *field == "" {
			return a, errors.New("x-assignments: each requires path, tag, parent, child, children and schema")
		}
	}
	a.indirect, _ = fields["indirect"].(bool)
	a.parameters, _ = fields["parameters"].([]any)
	a.without, _ = fields["without"].([]any)
	a.privileges, a.notShown = fields["x-privileges"], fields["x-not-shown"]
	return a, nil
}

// operations returns the paths of the pattern.
func (a assignment) operations() map[string]any {
	reference := func(kind, name string) any { return map[string]any{"$ref": "#/components/" + kind + "/" + name} }
	id, childID := reference("parameters", "id"), reference("parameters", "child-id")
	body := func(schema any) any {
		return map[string]any{"application/json": map[string]any{"schema": schema}}
	}
	listed := []any{id}
	if a.indirect {
		listed = append(listed, reference("parameters", "direct_assignments_only"))
	}
	for _, name := range a.parameters {
		listed = append(listed, reference("parameters", fmt.Sprint(name)))
	}
	list := map[string]any{
		"summary": fmt.Sprintf("List the %s of %s", a.children, a.parent), "parameters": listed,
		"responses": map[string]any{"200": map[string]any{
			"description": fmt.Sprintf("The %s.", a.children),
			"content":     body(map[string]any{"type": "array", "items": reference("schemas", a.schema)}),
		}},
	}
	if a.notShown != nil {
		list["x-not-shown"] = a.notShown
	}
	change := func(summary string, parameters ...any) map[string]any {
		operation := map[string]any{
			"summary": summary, "parameters": parameters,
			"responses": map[string]any{"204": reference("responses", "Done")},
		}
		if a.privileges != nil {
			operation["x-privileges"] = a.privileges
		}
		return operation
	}
	many := change(fmt.Sprintf("Assign %s to %s and unassign others", a.children, a.parent), id)
	many["requestBody"] = map[string]any{"required": true, "content": body(reference("schemas", "Assignment"))}
	many["x-not-shown"] = "An id in both lists is unassigned. If an object does not exist, nothing changes."

	one := change(fmt.Sprintf("Assign %s to %s", a.child, a.parent), id, childID)
	if !slices.Contains(a.without, any("delete")) {
		one["responses"] = map[string]any{"204": a.assigned()}
	}
	path, item := map[string]any{"get": list, "post": many}, map[string]any{
		"post":   one,
		"delete": change(fmt.Sprintf("Unassign %s from %s", a.child, a.parent), id, childID),
	}
	for _, method := range a.without {
		delete(item, fmt.Sprint(method))
	}
	for _, operations := range []map[string]any{path, item} {
		for _, operation := range operations {
			operation.(map[string]any)["tags"] = []any{a.tag}
		}
	}
	return map[string]any{a.path: path, a.path + "/{child-id}": item}
}

// assigned returns the answer to the assignment of one child, which links to the operation that
// unassigns it.
func (a assignment) assigned() any {
	return map[string]any{
		"description": "It is done; there is no body.",
		"links": map[string]any{"unassign": map[string]any{
			"operationRef": "#/paths/" + escape(a.path+"/{child-id}") + "/delete",
			"parameters":   map[string]any{"id": "$request.path.id", "child-id": "$request.path.child-id"},
			"description":  "Unassigns what was assigned.",
		}},
	}
}
