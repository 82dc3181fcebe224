package crash

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	standin "ndrbridge/test/appliance"
	"ndrbridge/test/fault"
)

// TestSabotageIsDetected kills bridges with an injected defect and passes only if the broken
// guarantee is detected.
func TestSabotageIsDetected(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name  string
		file  string
		edits []edit
		plan  fault.Plan // of connections to the Kafka broker
	}{
		{
			"a cursor that moves before its events are sent", "sinks/queue.go",
			[]edit{
				{
					"\treturn b, q.read(ctx, b, q.cursor, q.o.Batch)\n",
					"\tif err := q.read(ctx, b, q.cursor, q.o.Batch); err != nil || len(b.records) == 0 {\n\t\treturn b, err\n\t}\n" +
						"\treturn b, q.commit(ctx, b, len(b.records), nil)\n",
				},
				{"Cursor: b.records[n-1].Seq,", "Cursor: max(q.cursor, b.records[n-1].Seq),"},
			},
			fault.Plan{},
		},
		{
			"an event that is given up after one failure", "sinks/deliver.go",
			[]edit{{"limit := w.r.o.MaxAttempts;", "limit := 1;"}},
			fault.Plan{Likely: 1, Kinds: []fault.Kind{fault.Reset}},
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			const kills = 8
			s := newScene(t, buildBridge(t, "-overlay", overlay(t, c.file, c.edits)), 1, t.TempDir())
			s.proxies[kafkaSink].Follow(c.plan)
			stopLife := s.live(t, standin.Rates{Appear: 200, Update: 200, AuditEntries: 50, Records: 100})
			for range kills {
				b := s.start(t)
				s.more(t, b, natsSink)
				b.kill(t, false)
				s.commit(t)
			}
			b := s.start(t)
			stopLife()
			s.calm()
			s.quiet()
			b.terminate(t)
			faults := s.faults(t)
			for sink, stats := range s.stats(t).Sinks {
				if stats.LagEvents > 0 {
					t.Fatalf("%s has %d events yet to deliver, which are not lost", sink, stats.LagEvents)
				}
			}
			if text := strings.Join(faults, "\n"); !strings.Contains(text, "were committed and did not arrive") {
				t.Errorf("it was not detected: %q", text)
			}
		})
	}
}

// edit replaces a text that occurs once in a file.
type edit struct{ before, then string }

// overlay writes an edited copy of a file of the module and returns the overlay file for go
// build -overlay.
func overlay(t *testing.T, file string, edits []edit) (description string) {
	t.Helper()
	original, err := filepath.Abs(filepath.Join("..", "..", filepath.FromSlash(file)))
	if err != nil {
		t.Fatal(err)
	}
	body, err := os.ReadFile(original)
	if err != nil {
		t.Fatal(err)
	}
	text := string(body)
	for _, e := range edits {
		if n := strings.Count(text, e.before); n != 1 {
			t.Fatalf("%s contains %q %d times; adapt the edit", file, e.before, n)
		}
		text = strings.Replace(text, e.before, e.then, 1)
	}
	folder := t.TempDir()
	replacement := filepath.Join(folder, filepath.Base(file))
	if err := os.WriteFile(replacement, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	body, err = json.Marshal(map[string]map[string]string{"Replace": {original: replacement}})
	if err != nil {
		t.Fatal(err)
	}
	description = filepath.Join(folder, "overlay.json")
	if err := os.WriteFile(description, body, 0o600); err != nil {
		t.Fatal(err)
	}
	return description
}
