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

// notSecret are the keys of files that anybody may read.
var notSecret = []string{"ca_file", "cert_file", "template_file"}

// SecretFiles are the files of c that hold secrets, private keys among them, in the
// order of the configuration.
func (c *Config) SecretFiles() []SecretFile {
	var found []SecretFile
	eachFile("", reflect.ValueOf(*c), func(key, file string) {
		if name := key[strings.LastIndexByte(key, '.')+1:]; !slices.Contains(notSecret, name) {
			found = append(found, SecretFile{Key: key, Path: file})
		}
	})
	return found
}
