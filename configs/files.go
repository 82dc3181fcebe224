package configs

import (
	"reflect"
	"slices"
	"strings"
)

// Files are the paths of the files that s names to be read, those of secrets
// among them, in order and each once.
func (s Sink) Files() []string { return filesIn(s) }

// filesIn is Files of any block.
func filesIn(block any) []string {
	var files []string
	eachFile("", reflect.ValueOf(block), func(_, file string) { files = append(files, file) })
	slices.Sort(files)
	return slices.Compact(files)
}

// eachFile visits the files that the block at path names, with the keys that name
// them, in the order of the configuration.
func eachFile(path string, block reflect.Value, visit func(key, file string)) {
	named := func(key, file string) {
		if file != "" {
			visit(key, file)
		}
	}
	for _, f := range fieldsOf(block.Type()) {
		key, value := join(path, f.name), block.Field(f.index)
		switch shapeOf(f.typ) {
		case shapeBlock:
			eachFile(key, value, visit)
		case shapeOption:
			if !value.IsNil() {
				eachFile(key, value.Elem(), visit)
			}
		case shapeBlocks:
			for i := range value.Len() {
				eachFile(item(key, i), value.Index(i), visit)
			}
		case shapeTexts:
			if strings.HasSuffix(f.name, fileSuffix+"s") {
				for i := range value.Len() {
					named(item(key, i), value.Index(i).String())
				}
			}
		case shapeSecret:
			named(key+fileSuffix, value.Interface().(Secret).File)
		case shapeText:
			if strings.HasSuffix(f.name, fileSuffix) {
				named(key, value.String())
			}
		}
	}
}
