package configs

import (
	"reflect"
	"slices"
	"strings"

	"ndrbridge/internal/redact"
)

// FilesIn returns the paths of the files that a block, such as a Sink, reads, including those with
// secrets, sorted and without duplicates.
func FilesIn(block any) []string {
	var files []string
	eachFile("", reflect.ValueOf(block), func(_, file string) { files = append(files, file) })
	slices.Sort(files)
	return slices.Compact(files)
}

// ApplianceNames returns the names of the appliances, in the order of the configuration.
func (c *Config) ApplianceNames() []string {
	var names []string
	for _, a := range c.Appliances {
		names = append(names, a.Name)
	}
	return names
}

// ReloadedFiles returns the paths of the files that the bridge reads when a part is made,
// so that a reload is needed when their content changes: those of sinks and tickets, and
// the certificate authorities of appliances. They are sorted and without duplicates.
func (c *Config) ReloadedFiles() []string {
	files := FilesIn(c.Tickets)
	for _, s := range c.Sinks {
		files = append(files, FilesIn(s)...)
	}
	for _, a := range c.Appliances {
		if a.TLS.CAFile != "" {
			files = append(files, a.TLS.CAFile)
		}
	}
	slices.Sort(files)
	return slices.Compact(files)
}

// eachFile calls visit for each file that the block at path names, with the path of the
// key, in the order of the fields.
func eachFile(path string, block reflect.Value, visit func(key, file string)) {
	named := func(key, file string) {
		if file != "" {
			visit(key, file)
		}
	}
	eachField(path, block, func(key string, f field, value reflect.Value) {
		switch {
		case f.shape == shapeSecret:
			named(key+fileSuffix, value.Interface().(Secret).File)
		case strings.HasSuffix(f.name, fileSuffix):
			named(key, value.String())
		case strings.HasSuffix(f.name, fileSuffix+"s"):
			for i := range value.Len() {
				named(item(key, i), value.Index(i).String())
			}
		}
	})
}

// SecretFile is a file that contains a secret.
type SecretFile struct {
	Key  string // path of the key that names the file, such as appliances[0].api_key_file
	Path string
}

// minSecret is the number of bytes below which a secret can be guessed, or is too common a
// text to be removed from what servers repeat.
const minSecret = 8

// ShortSecrets returns the paths of the keys whose secrets have less than 8 bytes, in the
// order of the configuration.
func (c *Config) ShortSecrets() []string { return shortSecrets("", reflect.ValueOf(*c)) }

// shortSecrets returns the keys of the short secrets in the block at path. Secrets that cannot
// be read are reported elsewhere.
func shortSecrets(path string, block reflect.Value) (keys []string) {
	eachField(path, block, func(key string, f field, value reflect.Value) {
		if f.shape != shapeSecret {
			return
		}
		s := value.Interface().(Secret)
		if text, err := s.Read(); err == nil && text != "" && len(text) < minSecret {
			if s.File != "" {
				key += fileSuffix
			}
			keys = append(keys, key)
		}
	})
	return keys
}

// WrittenSecrets returns the keys of secrets, and of URLs with secret parts, that are written
// in the files of s instead of files of their own. The Path of each is that file.
func WrittenSecrets(s Source) ([]SecretFile, error) {
	files, err := s.read("")
	if err != nil {
		return nil, err
	}
	p, config, _ := decode(files, s)
	var found []SecretFile
	written := func(key string) {
		if at := p.at[key]; at.file != "" && !at.reference {
			found = append(found, SecretFile{Key: key, Path: at.file})
		}
	}
	eachField("", reflect.ValueOf(*config), func(key string, f field, value reflect.Value) {
		switch value := value.Interface().(type) {
		case Secret:
			if value.value != nil {
				written(key)
			}
		case []Secret:
			for i := range value {
				written(item(key, i))
			}
		case URL:
			if strings.Contains(value.String(), hidden) {
				written(key)
			}
		case map[string]Secret:
			for name := range value {
				if !redact.HarmlessHeader(name) {
					written(join(key, name))
				}
			}
		}
	})
	return found, nil
}

// notSecret lists the keys of files that contain no secrets.
var notSecret = []string{"ca_file", "cert_file", "template_file"}

// SecretFiles returns the files that contain secrets, including private keys, in the order
// of the configuration.
func (c *Config) SecretFiles() []SecretFile {
	var found []SecretFile
	eachFile("", reflect.ValueOf(*c), func(key, file string) {
		if name := key[strings.LastIndexByte(key, '.')+1:]; !slices.Contains(notSecret, name) {
			found = append(found, SecretFile{Key: key, Path: file})
		}
	})
	return found
}
