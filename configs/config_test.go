package configs

import (
	"reflect"
	"strings"
	"testing"
)

func TestEveryKeyHasAVariableOfItsOwn(t *testing.T) {
	seen := make(map[string]string)
	for _, k := range keysOf(reflect.TypeFor[Config](), "", nil) {
		if strings.HasSuffix(k.path, ".") {
			t.Errorf("a key in %s has no name", k.path)
		}
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
