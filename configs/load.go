package configs

import (
	"fmt"
	"os"
	"reflect"
)

// Load reads the configuration from the file at path and applies the environment, which
// has the form of os.Environ. If path is empty, it reads only the environment. It checks
// that the files that the configuration names can be read. If the configuration is
// invalid, it returns all errors together, as Errors; other failures are not of that
// type.
func Load(path string, environ []string) (*Config, error) {
	var data []byte
	if path != "" {
		var err error
		if data, err = os.ReadFile(path); err != nil {
			return nil, fmt.Errorf("read the configuration: %w", err)
		}
	}
	return Parse(path, data, environ)
}

// Parse is Load for a file whose content is data. Its name is used in errors.
func Parse(file string, data []byte, environ []string) (*Config, error) {
	config := new(Config)
	setDefaults(reflect.ValueOf(config).Elem())
	p := &sourceLines{file: file, at: make(map[string]sourceLine)}
	whole := p.decode(data, config)
	p.overlay(environ, config)
	p.sinkDefaults(config)
	if whole {
		validate(p, config)
	}
	if len(p.errors) > 0 {
		p.errors.sort()
		return nil, p.errors
	}
	return config, nil
}
