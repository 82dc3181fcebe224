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
	files := filesOf(reflect.ValueOf(block), nil)
	slices.Sort(files)
	return slices.Compact(files)
}

// filesOf appends the files that a struct names.
func filesOf(block reflect.Value, files []string) []string {
	for _, f := range fieldsOf(block.Type()) {
		value, name := block.Field(f.index), ""
		switch shapeOf(f.typ) {
		case shapeBlock:
			files = filesOf(value, files)
		case shapeOption:
			if !value.IsNil() {
				files = filesOf(value.Elem(), files)
			}
		case shapeTexts:
			if strings.HasSuffix(f.name, fileSuffix+"s") {
				files = append(files, value.Interface().([]string)...)
			}
		case shapeSecret:
			name = value.Interface().(Secret).File
		case shapeText:
			if strings.HasSuffix(f.name, fileSuffix) {
				name = value.String()
			}
		}
		if name != "" {
			files = append(files, name)
		}
	}
	return files
}
