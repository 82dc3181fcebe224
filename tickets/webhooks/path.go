package webhooks

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"

	"ndrbridge/tickets"
)

// path leads to a value in JSON: names of members and indexes of lists; empty: to
// nothing.
type path []string

// parsePath reads names and indexes with dots between them, such as
// issue.fields.labels.0; empty: nowhere.
func parsePath(text string) (path, error) {
	if text == "" {
		return nil, nil
	}
	p := path(strings.Split(text, "."))
	for _, step := range p {
		if step == "" {
			return nil, fmt.Errorf("%q is no path: write names and indexes with dots between them, such as issue.key", text)
		}
	}
	return p, nil
}

func (p path) String() string { return strings.Join(p, ".") }

// find returns what the path leads to; nil for JSON's null, and where it ends at
// one before.
func (p path) find(root any) (value any, found bool) {
	if len(p) == 0 {
		return nil, false
	}
	value = root
	for _, step := range p {
		switch at := value.(type) {
		case nil:
			return nil, true
		case map[string]any:
			if value, found = at[step]; !found {
				return nil, false
			}
		case []any:
			index, err := strconv.Atoi(step)
			if err != nil || index < 0 || index >= len(at) {
				return nil, false
			}
			value = at[index]
		default:
			return nil, false
		}
	}
	return value, true
}

// isNull reports whether the path leads to null.
func (p path) isNull(root any) bool {
	value, found := p.find(root)
	return found && value == nil
}

// text returns the text, the number as it is written, or the truth value that the
// path leads to; not found where that is null.
func (p path) text(root any) (text string, found bool, err error) {
	value, _ := p.find(root)
	switch v := value.(type) {
	case nil:
		return "", false, nil
	case string:
		return v, true, nil
	case json.Number:
		return v.String(), true, nil
	case bool:
		return strconv.FormatBool(v), true, nil
	}
	return "", false, &tickets.FieldError{Field: p.String(), Problem: "must be text or a number"}
}

// want is text that must be there.
func (p path) want(root any) (string, error) {
	text, _, err := p.text(root)
	if err == nil && text == "" {
		err = &tickets.FieldError{Field: p.String(), Problem: "is missing"}
	}
	return text, err
}
