package format

import "testing"

// BenchmarkEncode encodes one event of each stream in each format.
func BenchmarkEncode(b *testing.B) {
	events := []struct{ name, kind string }{
		{"detection", "stand-in/detection 1"}, {"audit", "stand-in/audit 1"}, {"record", "stand-in/record 1"}, {"own", "own/ticket.applied"},
	}
	for _, name := range Names()[1:] {
		c, err := New(name, Options{Version: "1.4.0"})
		if err != nil {
			b.Fatal(err)
		}
		for _, e := range events {
			event := kindNamed(b, e.kind)
			b.Run(string(name)+"/"+e.name, func(b *testing.B) {
				b.SetBytes(int64(len(event.Structured())))
				b.ReportAllocs()
				for b.Loop() {
					c.Encode(event)
				}
			})
		}
	}
}
