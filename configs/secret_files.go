package configs

import (
	"reflect"
	"slices"
	"strings"
)

// SecretFile is a file that holds a secret.
type SecretFile struct {
	Key  string // that names it, such as appliances[0].api_key_file
	Path string
}

// SecretFiles are the files of c that hold secrets, private keys among them, in the
// order of the configuration.
func (c *Config) SecretFiles() []SecretFile {
	return secretFilesOf("", reflect.ValueOf(*c), nil)
}

// notSecret are the keys of files that anybody may read.
var notSecret = []string{"ca_file", "cert_file", "template_file"}

func secretFilesOf(path string, block reflect.Value, found []SecretFile) []SecretFile {
	add := func(key, file string) {
		if file != "" {
			found = append(found, SecretFile{Key: key, Path: file})
		}
	}
	for _, f := range fieldsOf(block.Type()) {
		key, value := join(path, f.name), block.Field(f.index)
		switch shapeOf(f.typ) {
		case shapeBlock:
			found = secretFilesOf(key, value, found)
		case shapeOption:
			if !value.IsNil() {
				found = secretFilesOf(key, value.Elem(), found)
			}
		case shapeBlocks:
			for i := range value.Len() {
				found = secretFilesOf(item(key, i), value.Index(i), found)
			}
		case shapeTexts:
			if strings.HasSuffix(f.name, fileSuffix+"s") {
				for i := range value.Len() {
					add(item(key, i), value.Index(i).String())
				}
			}
		case shapeSecret:
			add(key+fileSuffix, value.Interface().(Secret).File)
		case shapeText:
			if strings.HasSuffix(f.name, fileSuffix) && !slices.Contains(notSecret, f.name) {
				add(key, value.String())
			}
		}
	}
	return found
}
