package configs

import (
	"encoding"
	"fmt"
	"reflect"
	"strconv"

	"ndrbridge/sinks/webhook/presets"
)

// field describes a field of a struct by its type and tags.
type field struct {
	index    int
	typ      reflect.Type
	name     string   // the key
	fallback string   // the default; empty: the zero value
	oneof    []string // the only values allowed; empty: any
	bounds   bounds
	required bool // may not be empty
}

func fieldsOf(t reflect.Type) []field {
	fields := make([]field, t.NumField())
	for i := range fields {
		f := t.Field(i)
		fields[i] = field{index: i, typ: f.Type, name: f.Tag.Get("yaml"), fallback: f.Tag.Get("default")}
		if values := f.Tag.Get("oneof"); values != "" {
			fields[i].oneof = presets.Expand(values)
		}
		fields[i].bounds = bounds{min: f.Tag.Get("min"), max: f.Tag.Get("max"), above: f.Tag.Get("above")}
		fields[i].required = f.Tag.Get("required") == "true"
	}
	return fields
}

// shape is the form that a field has in a file.
type shape int

const (
	shapeText    shape = iota // a scalar
	shapeSecret               // two keys
	shapeSecrets              // Secrets
	shapeBlock                // a struct
	shapeOption               // a pointer to a struct, nil if its key is absent
	shapeBlocks               // a list of structs
	shapeTexts                // a list of strings
	shapeMap                  // Headers or Table
)

func shapeOf(t reflect.Type) shape {
	switch {
	case t == reflect.TypeFor[Secret]():
		return shapeSecret
	case t == reflect.TypeFor[Secrets]():
		return shapeSecrets
	case t.Kind() == reflect.Map:
		return shapeMap
	case reflect.PointerTo(t).Implements(reflect.TypeFor[encoding.TextUnmarshaler]()):
		return shapeText
	case t.Kind() == reflect.Struct:
		return shapeBlock
	case t.Kind() == reflect.Pointer && t.Elem().Kind() == reflect.Struct:
		return shapeOption
	case t.Kind() == reflect.Slice && t.Elem().Kind() == reflect.Struct:
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

// setDefaults sets every field of a struct to its default. Lists stay empty and options
// nil: newBlock sets the defaults of their structs.
func setDefaults(v reflect.Value) {
	for _, f := range fieldsOf(v.Type()) {
		switch {
		case shapeOf(f.typ) == shapeBlock:
			setDefaults(v.Field(f.index))
		case f.fallback != "":
			if err := setText(v.Field(f.index), f.fallback); err != nil {
				panic(fmt.Sprintf("configs: default of %s: %v", f.name, err))
			}
		}
	}
}

// setText parses text into v, which has shapeText. The error says what is expected.
func setText(v reflect.Value, text string) error {
	if reader, ok := v.Addr().Interface().(encoding.TextUnmarshaler); ok {
		return reader.UnmarshalText([]byte(text))
	}
	switch v.Kind() {
	case reflect.Pointer:
		value := reflect.New(v.Type().Elem())
		if err := setText(value.Elem(), text); err != nil {
			return err
		}
		v.Set(value)
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
