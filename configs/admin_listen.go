package configs

import (
	"fmt"
	"os"
	"reflect"
)

// AdminListen returns the value of admin.listen in the file at path and the environment,
// as Load would return it. Errors in other keys are ignored, because the running bridge
// may have been started before they were made. It returns an error if the file cannot be
// read, and Errors if the key itself is invalid.
func AdminListen(path string, environ []string) (string, error) {
	var data []byte
	if path != "" {
		var err error
		if data, err = os.ReadFile(path); err != nil {
			return "", fmt.Errorf("read the configuration: %w", err)
		}
	}
	config := new(Config)
	setDefaults(reflect.ValueOf(config).Elem())
	p := &sourceLines{file: path, at: make(map[string]sourceLine)}
	if !p.decode(data, config) {
		return "", p.errors
	}
	p.overlay(environ, config)
	const key = "admin.listen"
	c := checks{p, p.errors}
	if c.failed(key) {
		p.errors.sort()
		return "", p.errors
	}
	return config.Admin.Listen, nil
}
