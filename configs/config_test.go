package configs

import (
	"reflect"
	"strings"
	"testing"
)

// The environment's names follow from the file's.
func TestTagsOfStructsAgree(t *testing.T) {
	var check func(*testing.T, reflect.Type)
	check = func(t *testing.T, typ reflect.Type) {
		for i := range typ.NumField() {
			f := typ.Field(i)
			if f.PkgPath != "" {
				t.Errorf("%s.%s is not exported", typ, f.Name)
			}
			name := strings.ToUpper(f.Tag.Get("yaml"))
			variable, prefix := name, name+"_"
			switch shapeOf(f.Type) {
			case shapeBlock:
				variable = ""
				check(t, f.Type)
			case shapeOption, shapeBlocks:
				variable = ""
				check(t, f.Type.Elem())
			case shapeSecret:
			default:
				prefix = ""
			}
			if name == "" || f.Tag.Get("env") != variable || f.Tag.Get("envPrefix") != prefix {
				t.Errorf("%s.%s has the tags %s", typ, f.Name, f.Tag)
			}
		}
	}
	check(t, reflect.TypeFor[Config]())

	seen := make(map[string]string)
	for _, k := range keysOf(reflect.TypeFor[Config](), "", nil) {
		variable := variableOf(k.path)
		if other := seen[variable]; other != "" {
			t.Errorf("%s sets both %s and %s", variable, other, k.path)
		}
		seen[variable] = k.path
	}
}

func TestSinkKind(t *testing.T) {
	for want, s := range map[string]Sink{
		"kafka": {Kafka: &Kafka{}}, "nats": {NATS: &NATS{}}, "webhook": {Webhook: &Webhook{}}, "syslog": {Syslog: &Syslog{}}, "file": {File: &File{}}, "": {},
	} {
		if got := s.Kind(); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}
