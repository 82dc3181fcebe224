package configs

import (
	"fmt"
	"regexp"
	"strings"

	"go.yaml.in/yaml/v3"
)

// variableName matches the beginning of a reference: blanks, which are a mistake, and the
// name of the variable.
var variableName = regexp.MustCompile(`^\$\{(\s*)([A-Za-z_][A-Za-z0-9_]*)`)

// firstName matches the first reference in a text, with the name of the variable.
var firstName = regexp.MustCompile(`\$\{([A-Za-z0-9_]+)`)

// expand replaces ${NAME} and ${NAME:-default} in text by values of the environment. The
// default applies to a variable that is unset or empty. $${ stands for ${, and any other $
// for itself. Values are not expanded again. It reports whether text has a reference. The
// error never contains a value.
func expand(text string, environment map[string]string) (expanded string, found bool, err error) {
	var b strings.Builder
	for {
		before, rest, more := strings.Cut(text, "$")
		b.WriteString(before)
		if !more {
			return b.String(), found, nil
		}
		text = rest
		if after, escaped := strings.CutPrefix(rest, "${"); escaped {
			b.WriteString("${")
			text = after
			continue
		}
		begin := variableName.FindStringSubmatch("$" + rest)
		if begin == nil {
			b.WriteByte('$')
			continue
		}
		name := begin[2]
		body, after, closed := strings.Cut(rest[len(begin[0])-1:], "}")
		fallback, has := strings.CutPrefix(body, ":-")
		switch {
		case begin[1] != "":
			return "", false, fmt.Errorf("a blank follows ${; write ${%s}, or $${ for ${ itself", name)
		case !closed || body != "" && !has:
			return "", false, fmt.Errorf("${%s is not complete; write ${%s} or ${%s:-default}, or $${ for ${ itself", name, name, name)
		case strings.Contains(fallback, "${"):
			return "", false, fmt.Errorf("the default of ${%s:-…} contains ${, which is not expanded there; write plain text", name)
		}
		value, set := environment[name]
		switch {
		case has && value == "":
			value = fallback
		case !set:
			return "", false, fmt.Errorf("the environment variable %s is not set; set it, or write a default: ${%s:-default}", name, name)
		}
		b.WriteString(value)
		found, text = true, after
	}
}

// expandNode expands the variables in a scalar, once. Its type then follows from its new
// text, unless it is in quotes. It reports false if it recorded an error.
func (p *sourceLines) expandNode(path string, node *yaml.Node) bool {
	if _, done := p.expanded[node]; done || node.Kind != yaml.ScalarNode || !strings.Contains(node.Value, "${") {
		return true
	}
	value, found, err := expand(node.Value, p.environment)
	if err != nil {
		p.failNode(node, path, err.Error())
		return false
	}
	if name := firstName.FindStringSubmatch(node.Value); found && value == "" && !strings.Contains(node.Value, ":-") {
		p.failNode(node, path, fmt.Sprintf("is empty, because the environment variable %[1]s is; set it, or write a default: ${%[1]s:-default}", name[1]))
		return false
	}
	node.Value = value
	p.expanded[node] = found
	if found && node.Style == 0 {
		node.Tag = "" // follows from the value
	}
	return true
}
