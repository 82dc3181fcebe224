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
	data, err := readFile(path)
	if err != nil {
		return nil, err
	}
	return Parse(path, data, environ)
}

// readFile returns the content of the file at path, or nil if path is empty.
func readFile(path string) ([]byte, error) {
	if path == "" {
		return nil, nil
	}
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("read the configuration: %w", err)
	}
	return data, nil
}

// Parse is Load for a file whose content is data. Its name is used in errors.
func Parse(file string, data []byte, environ []string) (*Config, error) {
	p, config, whole := decode(file, data)
	p.overlay(environ, config)
	p.sinkDefaults(config)
	clusterDefaults(config)
	if whole {
		validate(p, config)
	}
	if len(p.errors) > 0 {
		p.errors.sort()
		return nil, p.errors
	}
	return config, nil
}

// decode returns the configuration of a file, before it is checked, and its errors. whole is
// false if the file is not a YAML mapping.
func decode(file string, data []byte) (p *sourceLines, config *Config, whole bool) {
	config = newValue(reflect.TypeFor[Config]()).Addr().Interface().(*Config)
	p = &sourceLines{file: file, at: make(map[string]sourceLine)}
	whole = p.decode(data, config)
	return p, config, whole
}
