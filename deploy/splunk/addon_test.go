package splunk_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"ndrbridge/test/require"
)

const folder = "TA-ndrbridge"

// conf is a configuration file of Splunk: the settings of each stanza, in their order.
type conf map[string][]setting

type setting struct{ name, value string }

func (c conf) get(stanza, name string) string {
	for _, s := range c[stanza] {
		if s.name == name {
			return s.value
		}
	}
	return ""
}

// readConf reads a configuration file. A stanza or setting that comes twice is an error.
func readConf(t testing.TB, name string) conf {
	t.Helper()
	text := require.Value(os.ReadFile(filepath.Join(folder, name)))(t)
	c := conf{}
	stanza := ""
	for number, line := range strings.Split(string(text), "\n") {
		if line = strings.TrimSpace(line); line == "" || line[0] == '#' {
			continue
		}
		if line[0] == '[' && line[len(line)-1] == ']' {
			stanza = line[1 : len(line)-1]
			_, twice := c[stanza]
			require.True(t, !twice, name, number+1, "[", stanza, "] comes twice")
			c[stanza] = nil
			continue
		}
		key, value, found := strings.Cut(line, " = ")
		require.True(t, found && c.get(stanza, key) == "", name, number+1, line, "is no setting, or comes twice")
		c[stanza] = append(c[stanza], setting{key, value})
	}
	return c
}

// addon is the add-on's part that is applied when a search runs.
type addon struct {
	props, transforms, eventtypes, tags conf
	compiled                            map[string]expression
	patterns                            map[string]*regexp.Regexp // of EXTRACT and REPORT
}

func readAddon(t testing.TB) *addon {
	t.Helper()
	a := &addon{
		props: readConf(t, "default/props.conf"), transforms: readConf(t, "default/transforms.conf"),
		eventtypes: readConf(t, "default/eventtypes.conf"), tags: readConf(t, "default/tags.conf"),
		compiled: map[string]expression{}, patterns: map[string]*regexp.Regexp{},
	}
	pattern := func(text string) {
		t.Helper()
		r, err := regexp.Compile(text)
		require.True(t, err == nil && text != "", "pattern", text, err)
		a.patterns[text] = r
	}
	for stanza, settings := range a.props {
		for _, s := range settings {
			switch kind, _, _ := strings.Cut(s.name, "-"); kind {
			case "EXTRACT":
				pattern(s.value)
			case "REPORT":
				for _, name := range strings.Split(s.value, ", ") {
					pattern(a.transforms.get(name, "REGEX"))
				}
			}
			if !strings.HasPrefix(s.name, "EVAL-") || a.compiled[s.value] != nil {
				continue
			}
			e, err := compile(s.value)
			require.NoError(t, err, "[", stanza, "]", s.name)
			a.compiled[s.value] = e
		}
	}
	return a
}

// search returns the fields of an event, and its tags, as a search sees them. Splunk
// applies EXTRACT, REPORT, KV_MODE, FIELDALIAS and EVAL in this order; no EVAL sees the
// result of another. nullText extracts JSON null as a text.
func (a *addon) search(raw []byte, sourceType string, nullText bool) (fields, []string, error) {
	settings, known := a.props[sourceType]
	if !known {
		return nil, nil, fmt.Errorf("source type %s is unknown", sourceType)
	}
	f, err := extractJSON(raw, nullText)
	if err != nil {
		return nil, nil, err
	}
	for _, s := range settings {
		switch kind, _, _ := strings.Cut(s.name, "-"); kind {
		case "EXTRACT":
			extractPattern(f, raw, a.patterns[s.value])
		case "REPORT":
			for _, name := range strings.Split(s.value, ", ") {
				extractPattern(f, raw, a.patterns[a.transforms.get(name, "REGEX")])
			}
		}
	}
	for _, s := range settings {
		if strings.HasPrefix(s.name, "FIELDALIAS-") {
			words := strings.Fields(s.value)
			for i := 0; i+2 < len(words); i += 3 {
				if words[i+1] != "AS" {
					return nil, nil, fmt.Errorf("%s = %s", s.name, s.value)
				}
				f[words[i+2]] = f[words[i]]
			}
		}
	}
	calculated := fields{}
	for _, s := range settings {
		if name, is := strings.CutPrefix(s.name, "EVAL-"); is {
			if calculated[name], err = evaluate(a.compiled[s.value], f); err != nil {
				return nil, nil, fmt.Errorf("%s: %w", s.name, err)
			}
		}
	}
	maps.Copy(f, calculated)
	f["sourcetype"] = []string{sourceType}
	maps.DeleteFunc(f, func(_ string, values []string) bool { return len(values) == 0 })
	tags, err := a.tagsOf(f)
	return f, tags, err
}

func evaluate(e expression, f fields) ([]string, error) {
	switch v, err := e(f); v := v.(type) {
	case nil:
		return nil, err
	case []string:
		return v, err
	case bool:
		return nil, fmt.Errorf("%v is no value of a field", v)
	default:
		s, errText := text(v)
		if err == nil {
			err = errText
		}
		return []string{s}, err
	}
}

func (a *addon) tagsOf(f fields) ([]string, error) {
	found := map[string]bool{}
	for name := range a.eventtypes {
		matches, err := matchSearch(a.eventtypes.get(name, "search"), f)
		if err != nil {
			return nil, fmt.Errorf("[%s]: %w", name, err)
		}
		if matches {
			for _, tag := range a.tags["eventtype="+name] {
				found[tag.name] = tag.value == "enabled"
			}
		}
	}
	return slices.Sorted(maps.Keys(found)), nil
}

// extractPattern adds the named groups of the first match.
func extractPattern(f fields, raw []byte, r *regexp.Regexp) {
	match := r.FindSubmatch(raw)
	for i, name := range r.SubexpNames() {
		if name != "" && match != nil {
			f[name] = []string{string(match[i])}
		}
	}
}

// extractJSON returns the fields of an object by Splunk's names: a.b for members, a{} for
// elements of arrays.
func extractJSON(object []byte, nullText bool) (fields, error) {
	d := json.NewDecoder(bytes.NewReader(object))
	d.UseNumber()
	var v any
	if err := d.Decode(&v); err != nil {
		return nil, err
	}
	f := fields{}
	flatten(f, "", v, nullText)
	return f, nil
}

func flatten(f fields, path string, v any, nullText bool) {
	switch v := v.(type) {
	case map[string]any:
		for name, member := range v {
			flatten(f, strings.TrimPrefix(path+"."+name, "."), member, nullText)
		}
	case []any:
		for _, element := range v {
			flatten(f, path+"{}", element, nullText)
		}
	case nil:
		if nullText {
			f[path] = append(f[path], "null")
		}
	default:
		f[path] = append(f[path], fmt.Sprint(v))
	}
}

var term = regexp.MustCompile(`^(?:\(|\)|NOT\b|OR\b|([\w.{}]+)=(?:"([^"]*)"|([^\s()"]+)))`)

// matchSearch reports whether the fields match a search of an event type: terms that
// compare a field with a text, in which * stands for any text, and the operators NOT and
// OR. OR binds more tightly than terms that follow each other.
func matchSearch(search string, f fields) (bool, error) {
	rest := strings.TrimSpace(search)
	matches, err := matchTerms(&rest, f)
	if err == nil && (rest != "" || search == "") {
		err = fmt.Errorf("search is not understood: %s", rest)
	}
	return matches, err
}

func matchTerms(rest *string, f fields) (all bool, err error) {
	all = true
	for *rest != "" && (*rest)[0] != ')' {
		one, err := matchTerm(rest, f)
		for err == nil && strings.HasPrefix(*rest, "OR ") {
			*rest = strings.TrimSpace((*rest)[2:])
			var other bool
			other, err = matchTerm(rest, f)
			one = one || other
		}
		if err != nil {
			return false, err
		}
		all = all && one
	}
	return all, nil
}

func matchTerm(rest *string, f fields) (bool, error) {
	found := term.FindStringSubmatch(*rest)
	if found == nil {
		return false, fmt.Errorf("search is not understood: %s", *rest)
	}
	*rest = strings.TrimSpace((*rest)[len(found[0]):])
	switch found[0] {
	case "NOT":
		matches, err := matchTerm(rest, f)
		return !matches, err
	case "(":
		matches, err := matchTerms(rest, f)
		if err == nil && !strings.HasPrefix(*rest, ")") {
			return false, fmt.Errorf("a parenthesis is not closed before %s", *rest)
		}
		*rest = strings.TrimSpace(strings.TrimPrefix(*rest, ")"))
		return matches, err
	case ")", "OR":
		return false, fmt.Errorf("%s where a term is expected", found[0])
	}
	return slices.ContainsFunc(f[found[1]], func(v string) bool {
		return matchWildcards(strings.ToLower(found[2]+found[3]), strings.ToLower(v))
	}), nil
}

// matchWildcards reports whether a text matches a pattern, in which * stands for any text.
func matchWildcards(pattern, text string) bool {
	prefix, rest, wild := strings.Cut(pattern, "*")
	text, found := strings.CutPrefix(text, prefix)
	if !wild || !found {
		return found && text == ""
	}
	for i := range len(text) + 1 {
		if matchWildcards(rest, text[i:]) {
			return true
		}
	}
	return false
}
