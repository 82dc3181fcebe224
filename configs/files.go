package configs

import (
	"reflect"
	"slices"
	"strings"
)

// Files returns the paths of the files that s reads, including those with secrets, sorted
// and without duplicates.
func (s Sink) Files() []string { return filesIn(s) }

// filesIn returns the paths of the files that a block reads; see Sink.Files.
func filesIn(block any) []string {
	var files []string
	eachFile("", reflect.ValueOf(block), func(_, file string) { files = append(files, file) })
	slices.Sort(files)
	return slices.Compact(files)
}

// ReloadedFiles returns the paths of the files that the bridge reads when a part is made,
// so that a reload is needed when their content changes: those of sinks and tickets, and
// the certificate authorities of appliances. They are sorted and without duplicates.
func (c *Config) ReloadedFiles() []string {
	files := filesIn(c.Tickets)
	for _, s := range c.Sinks {
		files = append(files, s.Files()...)
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
