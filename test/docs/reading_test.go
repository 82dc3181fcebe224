package docs_test

import (
	"slices"
	"strings"
	"testing"

	"ndrbridge/test/assert"
	"ndrbridge/test/docs"
	"ndrbridge/test/slowtest"
)

// reading is how a document is read: what the reader has before the first command, and does
// between the commands because the document asks for it in its prose.
type reading struct {
	document string
	// part selects the statements; nil: all.
	part func(statement) bool
	// checkout begins in a copy of the repository rather than an empty folder.
	checkout bool
	// slow reads it in the end-to-end tests only: it builds programs or needs curl or jq.
	slow bool
	// config returns ndrbridge.yaml; nil: none.
	config func(*testing.T, docs.Document) string
	// setup has the statements before the first one.
	setup string
	// before has statements by the beginning of the statement of the document that they
	// precede.
	before []preparation
	// typed has, by a part of a statement, the shell's expression of what is typed instead.
	typed []substitution
}

type preparation struct{ statement, do string }

type substitution struct{ part, expression string }

// TestEveryCommandOfADocumentRuns types the commands of each document into a shell, in
// order, as a reader does, and compares what they print with what the document shows.
func TestEveryCommandOfADocumentRuns(t *testing.T) {
	slowtest.Skip(t)
	t.Parallel()
	folder := programs(t)
	for _, d := range read(t) {
		left := typedIn(t, d) // of which no reading has been found yet
		for _, r := range readings {
			if r.document != d.Path {
				continue
			}
			var statements, others []statement
			for _, s := range left {
				if r.part == nil || r.part(s) {
					statements = append(statements, s)
				} else {
					others = append(others, s)
				}
			}
			left = others
			assert.True(t, len(statements) != 0, d.Path, "has a reading, and no commands for it")
			if r.slow == endToEnd {
				t.Run(d.Path, func(t *testing.T) {
					t.Parallel()
					r.read(t, d, statements, folder)
				})
			}
		}
		assert.Empty(t, left, d.Path, "has commands, and no reading")
	}
}

func TestReadingsAreOfDocumentsThatExist(t *testing.T) {
	documents := read(t)
	exists := func(path string) bool {
		return slices.ContainsFunc(documents, func(d docs.Document) bool { return d.Path == path })
	}
	for _, r := range readings {
		assert.True(t, exists(r.document), "there is no document", r.document)
	}
	var all []statement
	for _, d := range documents {
		all = append(all, typedIn(t, d)...)
	}
	for _, e := range excluded {
		assert.True(t, slices.ContainsFunc(all, func(s statement) bool { return s.beginsWith(e) }), "no document", e.statement)
	}
}

func typedIn(t *testing.T, d docs.Document) []statement {
	t.Helper()
	var all []statement
	for _, b := range d.Blocks {
		if b.Language == "sh" || b.Language == "console" {
			all = append(all, statementsOf(t, b)...)
		}
	}
	return all
}

func (r reading) read(t *testing.T, d docs.Document, statements []statement, programs string) {
	w := newWorld(t)
	config := ""
	if r.config != nil {
		config = r.config(t, d)
	}
	names := []string{config, r.setup, "http://127.0.0.1:9600"}
	for _, p := range r.before {
		names = append(names, p.do)
	}
	for _, s := range statements {
		names = append(names, s.text)
	}
	w.serve(names...)
	if r.checkout {
		w.checkout()
	}
	environment := w.environment(programs)
	if r.config != nil {
		placed := w.place(config)
		w.guard(d.Path, placed)
		w.write(w.home+"/ndrbridge.yaml", placed)
		environment = append(environment, "NDRBRIDGE_CONFIG=ndrbridge.yaml")
	}
	s := newSession(t, w.home, environment)
	do := func(position, text string) {
		if text == "" {
			return
		}
		if output, err := s.run(w.place(text)); err != nil {
			t.Fatalf("%s: before: %s: %v\n%s\n%s", position, text, err, output, w.log())
		}
	}
	do(d.Path, r.setup)
	for _, next := range statements {
		if i := slices.IndexFunc(excluded, next.beginsWith); i >= 0 {
			if excluded[i].instead == "" {
				continue
			}
			next.text = strings.Replace(next.text, excluded[i].statement, excluded[i].instead, 1)
		}
		for _, p := range r.before {
			if strings.HasPrefix(next.text, p.statement) {
				do(next.position, p.do)
			}
		}
		text := next.text
		for _, of := range r.typed {
			if !strings.Contains(text, of.part) {
				continue
			}
			value, err := s.run("printf %s \"" + of.expression + "\"")
			if err != nil || value == "" {
				t.Fatalf("%s: %s is %q: %v\n%s", next.position, of.expression, value, err, w.log())
			}
			text = strings.ReplaceAll(text, of.part, value)
		}
		text = w.place(text)
		w.guard(next.position, text)
		output, err := s.kind(text)(text)
		output = w.shown(output)
		if err != nil {
			t.Fatalf("%s: %s: %v\n%s\n%s", next.position, next.text, err, output, w.log())
		}
		assert.True(t, !next.shown || matches(next.output, output), next.position, next.text, "prints", output, "but the document shows", next.output)
	}
}

// beginsWith reports whether the statement is one of an exclusion.
func (s statement) beginsWith(e exclusion) bool { return strings.HasPrefix(s.text, e.statement) }

// kind returns how a text is run: one that does not end by itself is left running if it is
// the bridge, and otherwise interrupted.
func (s *session) kind(text string) func(string) (string, error) {
	if strings.HasSuffix(strings.TrimSpace(remark.ReplaceAllString(text, "")), "&") {
		return s.run
	}
	script := docs.Document{Blocks: []docs.Block{{Language: "sh", Text: text}}}
	if len(script.Commands("head")) > 0 {
		return s.run
	}
	has := func(args []string, flags ...string) bool {
		return slices.ContainsFunc(args, func(arg string) bool {
			name, _, _ := strings.Cut(arg, "=")
			return slices.Contains(flags, name)
		})
	}
	for _, args := range script.Commands("ndrbridge") {
		switch {
		case args[0] == "run":
			return s.serve
		case args[0] == "tail" && !has(args, "-n", "--limit", "--no-follow", "--until"), args[0] == "status" && has(args, "-w", "--watch"):
			return s.interrupt
		}
	}
	for _, args := range script.Commands("go") {
		if args[0] == "run" && has(args, "./cmd/ndrappliance") {
			return s.interrupt
		}
	}
	for _, args := range script.Commands("make") {
		if args[0] == "demo" && !has(args, "FOR") {
			return s.interrupt
		}
	}
	return s.run
}
