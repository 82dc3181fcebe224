package configs

import (
	"reflect"
	"slices"
	"strings"
)

// SecretFile is a file that contains a secret.
type SecretFile struct {
	Key  string // path of the key that names the file, such as appliances[0].api_key_file
	Path string
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
