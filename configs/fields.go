package configs

import (
	"encoding"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync"

	"ndrbridge/sinks/webhook/presets"
)

// field describes a field of a struct by its type and tags.
type field struct {
	index    []int
	typ      reflect.Type
	shape    shape
	name     string   // the key
	fallback string   // the default; empty: the zero value
	oneof    []string // the only values allowed; empty: any
	bounds   bounds
	required bool   // may not be empty
	with     string // the other key that it requires, with its values after =; empty: none
	needed   bool   // it may not be empty with these values
	form     string
	schemes  []string // of a URL; empty: it is not checked
	several  bool     // URLs, separated by commas
}

// fieldsByType has the results of fieldsOf, which depend on the program alone.
var fieldsByType sync.Map

// fieldsOf returns the fields of a struct, and those of the structs that are embedded in it. They are
// shared, and must not be changed.
func fieldsOf(t reflect.Type) []field {
	if fields, found := fieldsByType.Load(t); found {
		return fields.([]field)
	}
	var fields []field
	for _, f := range reflect.VisibleFields(t) {
		if f.Anonymous || !f.IsExported() {
			continue
		}
		tag := f.Tag.Get
		made := field{
			index: f.Index, typ: f.Type, shape: shapeOf(f.Type), name: tag("yaml"), fallback: tag("default"),
			bounds:   bounds{min: tag("min"), max: tag("max"), above: tag("above")},
			required: tag("required") == "true",
			with:     tag("with"), needed: tag("required") == "with",
			form: tag("form"), several: tag("several") == "true",
		}
		if schemes := tag("schemes"); schemes != "" {
			made.schemes = strings.Split(schemes, ",")
		}
		if values := tag("oneof"); values != "" {
			made.oneof = presets.Expand(values)
		}
		fields = append(fields, made)
	}
	fieldsByType.Store(t, fields)
	return fields
}

// fieldOf returns the field of a key; that of a secret has two.
func fieldOf(fields []field, key string) (f field, known bool) {
	i := slices.IndexFunc(fields, func(f field) bool {
		return key == f.name || f.shape == shapeSecret && key == f.name+fileSuffix
	})
	if i < 0 {
		return field{}, false
	}
	return fields[i], true
}

// eachBlock calls visit for the block at path, and for every block in it.
func eachBlock(path string, block reflect.Value, visit func(path string, block reflect.Value)) {
	visit(path, block)
	for _, f := range fieldsOf(block.Type()) {
		path, value := join(path, f.name), block.FieldByIndex(f.index)
		switch f.shape {
		case shapeBlock:
			eachBlock(path, value, visit)
		case shapeOption:
			if !value.IsNil() {
				eachBlock(path, value.Elem(), visit)
			}
		case shapeBlocks:
			for i := range value.Len() {
				eachBlock(item(path, i), value.Index(i), visit)
			}
		}
	}
}

// eachField calls visit for every field of the block at path, and for those of the blocks in it.
func eachField(path string, block reflect.Value, visit func(path string, f field, value reflect.Value)) {
	eachBlock(path, block, func(path string, block reflect.Value) {
		for _, f := range fieldsOf(block.Type()) {
			visit(join(path, f.name), f, block.FieldByIndex(f.index))
		}
	})
}

// shape is the form that a field has in a file.
type shape int

const (
	shapeText   shape = iota // a scalar, or a value that decodes itself
	shapeSecret              // two keys
	shapeTexts               // a list of strings or Secrets
	shapeMap                 // strings or Secrets by name
	shapeBlock               // a struct; this and the following contain keys
	shapeOption              // a pointer to a struct, nil if its key is absent
	shapeBlocks              // a list of structs
)

func shapeOf(t reflect.Type) shape {
	switch {
	case t == reflect.TypeFor[Secret]():
		return shapeSecret
	case t.Kind() == reflect.Map:
		return shapeMap
	case reflect.PointerTo(t).Implements(reflect.TypeFor[encoding.TextUnmarshaler]()), reflect.PointerTo(t).Implements(reflect.TypeFor[nodeDecoder]()):
		return shapeText
	case t.Kind() == reflect.Struct:
		return shapeBlock
	case t.Kind() == reflect.Pointer && t.Elem().Kind() == reflect.Struct:
		return shapeOption
	case t.Kind() == reflect.Slice && shapeOf(t.Elem()) == shapeBlock:
		return shapeBlocks
	case t.Kind() == reflect.Slice:
		return shapeTexts
	}
	return shapeText
}

// fileSuffix is the suffix of every key whose value is the path of a file to read.
const fileSuffix = "_file"

func join(path, name string) string {
	if path == "" {
		return name
	}
	return path + "." + name
}

func item(path string, i int) string { return fmt.Sprintf("%s[%d]", path, i) }

// isEmpty reports whether a value is zero, or a list or map without items.
func isEmpty(v reflect.Value) bool {
	return v.IsZero() || (v.Kind() == reflect.Slice || v.Kind() == reflect.Map) && v.Len() == 0
}

// newValue returns a value of type t; if that is a block, with its defaults. Lists in it
// are empty, and options nil.
func newValue(t reflect.Type) reflect.Value {
	v := reflect.New(t).Elem()
	if shapeOf(t) != shapeBlock {
		return v
	}
	eachField("", v, func(path string, f field, value reflect.Value) {
		if f.fallback == "" {
			return
		}
		if err := setText(value, f.fallback); err != nil {
			panic(fmt.Sprintf("configs: default of %s: %v", path, err))
		}
	})
	return v
}

// setText parses text into v, which has shapeText. The error says what is expected.
func setText(v reflect.Value, text string) error {
	if reader, ok := v.Addr().Interface().(encoding.TextUnmarshaler); ok {
		return reader.UnmarshalText([]byte(text))
	}
	switch v.Kind() {
	case reflect.Bool:
		if text != "true" && text != "false" {
			return fmt.Errorf("%q is neither true nor false", text)
		}
		v.SetBool(text == "true")
	case reflect.Int:
		n, err := strconv.ParseInt(text, 10, 32)
		if err != nil {
			return fmt.Errorf("%q is not a whole number that fits 32 bits", text)
		}
		v.SetInt(n)
	case reflect.Float64:
		n, err := strconv.ParseFloat(text, 64)
		if err != nil {
			return fmt.Errorf("%q is not a number", text)
		}
		v.SetFloat(n)
	default:
		v.SetString(text)
	}
	return nil
}
