// Package openapi holds the description of the admin interface in OpenAPI 3.1.
//
// The YAML files of this folder are parts of one document: openapi.yaml has what the others
// share, and each of the others the operations on one thing with their schemas. The answers that
// every operation of the API may give are added to each when the document is made, so that no file
// repeats them. Schemas of requests have additionalProperties: false; those of answers do not,
// because later versions add fields.
package openapi

import (
	"embed"
	"encoding/json"
	"fmt"
	"strings"
	"sync"

	"go.yaml.in/yaml/v3"
)

//go:embed *.yaml
var files embed.FS

// JSON returns the document. The caller must not modify it. It panics if the files are not parts
// of a document, which is a bug.
var JSON = sync.OnceValue(func() []byte {
	document, err := merge()
	if err != nil {
		panic(err)
	}
	paths := document["paths"].(map[string]any)
	for path, item := range paths {
		for _, operation := range item.(map[string]any) {
			addRefusals(path, operation.(map[string]any))
		}
	}
	encoded, err := json.MarshalIndent(document, "", " ")
	if err != nil {
		panic(err)
	}
	return encoded
})

// merge returns the document that the files are parts of.
func merge() (map[string]any, error) {
	entries, err := files.ReadDir(".")
	if err != nil {
		return nil, err
	}
	document := make(map[string]any)
	for _, entry := range entries {
		text, err := files.ReadFile(entry.Name())
		if err != nil {
			return nil, err
		}
		var part map[string]any
		if err := yaml.Unmarshal(text, &part); err != nil {
			return nil, fmt.Errorf("%s: %w", entry.Name(), err)
		}
		if err := join(document, part, ""); err != nil {
			return nil, fmt.Errorf("%s: %w", entry.Name(), err)
		}
	}
	return document, nil
}

// join adds the fields of a part to those of the whole, object by object.
func join(whole, part map[string]any, where string) error {
	for name, value := range part {
		have, known := whole[name]
		if !known {
			whole[name] = value
			continue
		}
		inner, isObject := have.(map[string]any)
		more, fits := value.(map[string]any)
		if !isObject || !fits {
			return fmt.Errorf("%s/%s is in two files", where, name)
		}
		if err := join(inner, more, where+"/"+name); err != nil {
			return err
		}
	}
	return nil
}

// addRefusals adds the answers that an operation may give whatever it does.
func addRefusals(path string, operation map[string]any) {
	responses := operation["responses"].(map[string]any)
	add := func(status, response string) {
		if _, described := responses[status]; !described {
			responses[status] = map[string]any{"$ref": "#/components/responses/" + response}
		}
	}
	add("421", "Misdirected")
	if _, open := operation["security"]; open {
		return
	}
	add("401", "Unauthorized")
	add("403", "Forbidden")
	add("429", "Throttled")
	add("503", "Unavailable")
	if !strings.HasPrefix(path, "/api/") {
		return
	}
	add("400", "BadRequest")
	add("500", "Failed")
	if _, has := operation["requestBody"]; has {
		add("413", "TooLarge")
	}
}
