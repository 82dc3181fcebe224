package configs

import (
	"fmt"
	"path/filepath"
	"reflect"

	"go.yaml.in/yaml/v3"
)

// Load reads a configuration. It checks that the files that the configuration names can be
// read, and that the certificates in them can be used. Relative paths in a file are relative
// to its folder and become absolute, as does that of the state, because other processes
// compare it with theirs. If the configuration is invalid, it returns all errors together, as
// Errors; other failures, such as ErrNothing, are not of that type.
func Load(s Source) (*Config, error) {
	files, err := s.read(prefix+"APPLIANCES_", prefix+"SINKS_")
	if err != nil {
		return nil, err
	}
	config, err := merge(files, s)
	if err != nil {
		return nil, err
	}
	if config.State, err = filepath.Abs(config.State); err != nil {
		return nil, fmt.Errorf("find the state: %w", err)
	}
	return config, nil
}

// Parse is Load for one file whose content is data. Its name is used in errors, and relative
// paths in it are relative to its folder.
func Parse(name string, data []byte, environ []string) (*Config, error) {
	return merge([]file{{name, filepath.Dir(name), data}}, Source{Environ: environ})
}

// merge returns the configuration in files, with what s sets in addition to them.
func merge(files []file, s Source) (*Config, error) {
	p, config, whole := decode(files, s)
	p.withoutSecrets = s.WithoutSecrets
	p.sinkDefaults(config)
	clusterDefaults(config)
	if whole && p.blocks <= maxBlocks {
		validate(p, config)
	}
	if len(p.errors) > 0 {
		p.sort()
		return nil, p.errors
	}
	return config, nil
}

// decode returns the configuration before it is checked, and its errors. whole is false if a
// file is not a YAML mapping.
func decode(files []file, s Source) (p *sourceLines, config *Config, whole bool) {
	p = newSourceLines(s.Environ)
	root := &yaml.Node{Kind: yaml.MappingNode}
	whole = true
	for _, f := range files {
		content := p.parse(f)
		whole = whole && content != nil
		if _, known := p.origins[root]; !known {
			p.origins[root] = sourceLine{file: f.name}
		}
		if content != nil {
			root = p.merge("", reflect.TypeFor[Config](), root, content)
		}
	}
	root = p.merge("", reflect.TypeFor[Config](), root, p.ofEnvironment())
	config = newValue(reflect.TypeFor[Config]()).Addr().Interface().(*Config)
	p.decodeBlock("", root, reflect.ValueOf(config).Elem())
	if len(files) > 0 && !p.isSet("state") {
		config.State = within(stateFolder(files[0].folder), config.State)
	}
	return p, config, whole
}

func newSourceLines(environ []string) *sourceLines {
	return &sourceLines{
		environment: variables(environ),
		origins:     make(map[*yaml.Node]sourceLine),
		at:          make(map[string]sourceLine), expanded: make(map[*yaml.Node]bool),
	}
}
