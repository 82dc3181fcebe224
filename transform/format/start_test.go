package format

import (
	"bytes"
	"testing"

	"ndrbridge/transform"
)

func TestEveryDocumentBeginsWithTheStartOfItsFormat(t *testing.T) {
	for _, name := range Names() {
		t.Run(string(name), func(t *testing.T) {
			encode := func(e transform.Event) transform.Event { return e }
			if name != CloudEvents {
				encoder, err := New(name, Options{Version: "1.2.3"})
				if err != nil {
					t.Fatal(err)
				}
				encode = encoder.Encode
			}
			for _, k := range kinds(t) {
				e := encode(k.event)
				if !bytes.HasPrefix(e.Payload(), []byte(name.Start())) {
					t.Errorf("%s: %.100s", k.name, e.Payload())
				}
			}
		})
	}
	if start := Name("gelf").Start(); start != "" {
		t.Errorf("an unknown format begins with %q", start)
	}
}
