package webhookintake

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"

	"ndrbridge/tickets"
)

// path locates a value in JSON by member names and list indexes. An empty path finds
// nothing.
type path []string

// parsePath parses member names and list indexes separated by dots, such as
// issue.fields.labels.0. An empty text yields an empty path.
func parsePath(text string) (path, error) {
	if text == "" {
		return nil, nil
	}
	p := path(strings.Split(text, "."))
	for _, step := range p {
		if step == "" {
			return nil, fmt.Errorf("%q is not a path: separate names and indexes by dots, such as issue.key", text)
		}
	}
	return p, nil
}

func (p path) String() string { return strings.Join(p, ".") }

// find returns the value at the path. value is nil for JSON null, also if the path
// continues below a null.
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

// isNull reports whether the value at the path is null.
func (p path) isNull(root any) bool {
	value, found := p.find(root)
	return found && value == nil
}

// text returns the value at the path if it is a string, a number, which is not
// reformatted, or a boolean. found is false if there is no value or it is null.
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

// require returns the text at the path, and an error if there is none.
func (p path) require(root any) (string, error) {
	text, _, err := p.text(root)
	if err == nil && text == "" {
		err = &tickets.FieldError{Field: p.String(), Problem: "is missing"}
	}
	return text, err
}
