package routing

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"ndrbridge/configs"
	"ndrbridge/internal/fixture"
	"ndrbridge/transform"
)

// test is a test of a configuration: events, the sinks that must receive them, and what
// these must send.
type test struct {
	Name string `yaml:"name"`
	// Events arrive together, in this order.
	Events []event `yaml:"events"`
	// Sinks are the names of the sinks that send at least one of the events; all others
	// must send none of them.
	Sinks *[]string `yaml:"sinks"`
	// Output is the expected output of sinks, by their names.
	Output map[string]output `yaml:"output"`

	File string `yaml:"-"` // as it was named
	Line int    `yaml:"-"` // where the test begins
}

// event is one event, or several in a file. Exactly one of Name, File and Event is set.
type event struct {
	fixture.Spec `yaml:",inline"`

	File  string         `yaml:"file"` // JSON lines
	Event map[string]any `yaml:"event"`
}

// output is the expected output of a sink for the events of a test. Absent fields are not compared.
type output struct {
	Events   *int  `yaml:"events"`   // the number of events that are sent
	Contains texts `yaml:"contains"` // texts that must occur
	Lacks    texts `yaml:"lacks"`    // texts that must not occur
	// JSON are the JSON values that are sent, one after the other, or a single one. Each
	// must have at least these fields.
	JSON any `yaml:"json"`
	// Lines are the lines that are sent, completely.
	Lines *texts `yaml:"lines"`
}

// texts is a list of texts; a single one can be written without a list.
type texts []string

// UnmarshalYAML implements yaml.Unmarshaler.
func (t *texts) UnmarshalYAML(node *yaml.Node) error {
	if node.Kind == yaml.ScalarNode {
		*t = texts{node.Value}
		return nil
	}
	return node.Decode((*[]string)(t))
}

// maxFile is the maximum size of a test file, in bytes.
const maxFile = 16 << 20

// ReadTests reads the tests of a file. An error names the file and, where possible, the
// line.
func ReadTests(path string) ([]test, error) {
	text, err := readBounded(path)
	if err != nil {
		return nil, err
	}
	var root struct {
		Tests []yaml.Node `yaml:"tests"`
	}
	if err := yaml.Unmarshal(text, &root); err != nil && !errors.As(err, new(*yaml.TypeError)) {
		return nil, configs.SyntaxError(path, err, text)
	}
	var document struct {
		Tests []test `yaml:"tests"`
	}
	decoder := yaml.NewDecoder(bytes.NewReader(text))
	decoder.KnownFields(true)
	if err := decoder.Decode(&document); err != nil && !errors.Is(err, io.EOF) {
		return nil, reworded(path, err)
	}
	if len(document.Tests) == 0 {
		return nil, fmt.Errorf("%s contains no tests; write them in a list with the key tests", path)
	}
	if err := decoder.Decode(new(yaml.Node)); !errors.Is(err, io.EOF) { // its tests would not be run
		return nil, fmt.Errorf("%s has a second document after ---; write all tests in one list, or in another file", path)
	}
	for i := range document.Tests {
		t := &document.Tests[i]
		t.File, t.Line = path, root.Tests[i].Line
		if err := t.check(); err != nil {
			return nil, fmt.Errorf("%s:%d: %w", path, t.Line, err)
		}
	}
	return document.Tests, nil
}

func readBounded(path string) ([]byte, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("read tests: %w", err)
	}
	defer func() { _ = file.Close() }() // it was only read
	text, err := io.ReadAll(io.LimitReader(file, maxFile+1))
	if err != nil {
		return nil, fmt.Errorf("read tests: %w", err)
	}
	if len(text) > maxFile {
		return nil, fmt.Errorf("read tests: %s is larger than %d MiB", path, maxFile>>20)
	}
	return text, nil
}

// reworded returns an error of package yaml about the file at path, without types of Go.
func reworded(path string, err error) error {
	mistakes, ok := errors.AsType[*yaml.TypeError](err)
	if !ok {
		return fmt.Errorf("%s: %w", path, err)
	}
	var errs []error
	for _, mistake := range mistakes.Errors {
		text, _, unknown := strings.Cut(strings.TrimPrefix(mistake, "line "), " not found in type ")
		if unknown {
			text = strings.Replace(text, ": field ", ": ", 1) + " is not a known key"
		}
		errs = append(errs, fmt.Errorf("%s:%s", path, text))
	}
	return errors.Join(errs...)
}

// check returns an error if the test is incomplete.
func (t *test) check() error {
	switch {
	case t.Name == "":
		return errors.New("the test has no name")
	case len(t.Events) == 0:
		return fmt.Errorf("test %q has no events", t.Name)
	case t.Sinks == nil && len(t.Output) == 0:
		return fmt.Errorf("test %q expects nothing; write sinks, output or both, and sinks: [] for none", t.Name)
	}
	for i, e := range t.Events {
		if err := e.check(); err != nil {
			return fmt.Errorf("test %q: events[%d]: %w", t.Name, i, err)
		}
	}
	for _, name := range t.outputs() {
		if o := t.Output[name]; o.Events == nil && len(o.Contains) == 0 && len(o.Lacks) == 0 && o.JSON == nil && o.Lines == nil {
			return fmt.Errorf("test %q: the output of %s expects nothing; write one of events, contains, lacks, json, lines", t.Name, name)
		}
	}
	return nil
}

func (e event) check() error {
	kinds := 0
	for _, set := range []bool{e.Name != "", e.File != "", e.Event != nil} {
		if set {
			kinds++
		}
	}
	if kinds != 1 {
		return errors.New("requires one of fixture, file and event")
	}
	if e.Name == "" && (e.Set != nil || e.Remove != nil || e.Before != nil || e.Attributes != nil || e.Appliance != "" || e.Query != "") {
		return errors.New("set, remove, before, appliance, query and attributes can only be combined with fixture")
	}
	return nil
}

// eventsOf returns the events of a test.
func (r *Router) eventsOf(t *test) ([]transform.Event, error) {
	var events []transform.Event
	for i, e := range t.Events {
		some, err := r.make(e, filepath.Dir(t.File))
		if err != nil {
			return nil, fmt.Errorf("events[%d]: %w", i, err)
		}
		events = append(events, some...)
	}
	return events, nil
}

// make returns the events of an entry. The path of its file is relative to a folder.
func (r *Router) make(e event, folder string) ([]transform.Event, error) {
	switch {
	case e.Name != "":
		made, err := r.Fixture(e.Spec)
		return []transform.Event{made}, err
	case e.Event != nil:
		text, err := json.Marshal(e.Event)
		if err != nil {
			return nil, err
		}
		made, err := fixture.Parse(text)
		return []transform.Event{made}, err
	}
	path := e.File
	if !filepath.IsAbs(path) {
		path = filepath.Join(folder, path)
	}
	text, err := readBounded(path)
	if err != nil {
		return nil, err
	}
	var events []transform.Event
	number := 0
	for line := range bytes.Lines(text) {
		number++
		if line = bytes.TrimSpace(line); len(line) == 0 {
			continue
		}
		made, err := fixture.Parse(line)
		if err != nil {
			return nil, fmt.Errorf("%s:%d: %w", path, number, err)
		}
		events = append(events, made)
	}
	if len(events) == 0 {
		return nil, fmt.Errorf("%s contains no events", path)
	}
	return events, nil
}

// Fixture returns the event that s describes, as the configuration's bridge would make it.
// By default, Appliance is the first one.
func (r *Router) Fixture(s fixture.Spec) (transform.Event, error) {
	s.Appliance = cmp.Or(s.Appliance, r.appliance)
	return fixture.Event(s)
}

// outputs returns the names of the sinks with expected output.
func (t *test) outputs() []string { return slices.Sorted(maps.Keys(t.Output)) }
