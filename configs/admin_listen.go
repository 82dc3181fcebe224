package configs

import (
	"fmt"
	"os"
	"reflect"
)

// AdminListen is the admin.listen of the file at path and the environment, as Load
// would have it. Mistakes elsewhere do not matter: whoever asks for a bridge that
// runs asks one that was started before they were made. An error tells that the file
// cannot be read, or is Errors about the key itself.
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
