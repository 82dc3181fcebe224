package configs

import (
	"fmt"
	"io"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
)

var (
	syntaxError  = regexp.MustCompile(`^yaml: (?:line (\d+): )?((?s).*)$`)
	quotedAnchor = regexp.MustCompile(`anchor '([^']*)'`)
)

// syntaxAdvice follows or replaces messages of the YAML parser, of which each key is a
// beginning.
var syntaxAdvice = []struct {
	message, advice string
	replaces        bool
}{
	{"mapping values are not allowed in this context", "; put a value that contains a colon and a space in quotes", false},
	{"found character that cannot start any token", "; put a value that begins with a special character in quotes", false},
	{"unknown anchor referenced", "; put a value that begins with * in quotes", false},
	{"did not find expected ',' or", "a comma or a closing bracket is missing; put a value that contains a colon and a space in quotes", true},
	{"did not find expected comment or line break", "text follows a value in quotes; put the whole value in quotes of the other kind", true},
	{"did not find expected node content", "a value is missing, or there is a comma too many", true},
	{"did not find expected key", "a key is expected; put a value that begins with a bracket or a quote, and continues behind it, in quotes of another kind", true},
}

// SyntaxError returns the error for a file that is not YAML: what is most likely wrong with the
// first line with which data stops being YAML, or else err, which is that of the YAML parser. It
// removes the names of anchors, because a secret that begins with * looks like one.
func SyntaxError(name string, err error, data []byte) *Error {
	e := &Error{File: name, Message: err.Error()}
	if parts := syntaxError.FindStringSubmatch(e.Message); parts != nil {
		e.Line, _ = strconv.Atoi(parts[1])
		e.Message = parts[2]
	}
	lines := strings.SplitAfter(string(data), "\n")
	if anchor := quotedAnchor.FindStringSubmatch(e.Message); anchor != nil {
		e.Line = 1 + slices.IndexFunc(lines, func(line string) bool { return strings.Contains(line, "*"+anchor[1]) })
		e.Message = quotedAnchor.ReplaceAllString(e.Message, "anchor")
	} else if wrong := firstWrong(lines, e.Line); wrong > 0 {
		e.explain(lines, wrong)
	}
	for _, known := range syntaxAdvice {
		if !strings.HasPrefix(e.Message, known.message) {
			continue
		}
		if known.replaces {
			e.Message = ""
		}
		e.Message += known.advice
		break
	}
	e.Message = "is not YAML: " + e.Message
	return e
}

// firstWrong returns the number of the first line with which a text stops being YAML, or 0 if it is
// unknown. The line that the parser reports may be far from it.
func firstWrong(lines []string, reported int) int {
	const most, longest = 100, 1 << 14 // lines; each is parsed with all before it
	if len(lines) > longest {
		return 0
	}
	last := min(len(lines), reported+most)
	for n := last; n >= max(0, reported-most); n-- {
		if isYAML(strings.Join(lines[:n], "")) {
			return min(n+1, len(lines))
		}
	}
	return 0
}

func isYAML(text string) bool {
	decoder := yaml.NewDecoder(strings.NewReader(text))
	for {
		switch err := decoder.Decode(new(yaml.Node)); {
		case err == io.EOF:
			return true
		case err != nil:
			return false
		}
	}
}

// noSpace matches a key whose value follows its colon without a space.
var noSpace = regexp.MustCompile(`^\s*(?:- +)?([A-Za-z_]+:)(?:[^\s/]|/[^/])`)

const noSpaceMessage = "a space must follow the colon, as in key: value"

// explain finds what is wrong with a line: its indentation, a bracket or a quote in it that is not
// closed, or a missing colon above it. It leaves the message of the parser if it finds nothing.
func (e *Error) explain(lines []string, wrong int) {
	line := lines[wrong-1]
	content := strings.TrimLeft(line, " \t")
	indent := len(line) - len(content)
	above := contentAbove(lines, wrong)
	glued := func(n int) []int {
		if n == 0 {
			return nil
		}
		return noSpace.FindStringSubmatchIndex(lines[n-1])
	}
	isMapping := strings.HasPrefix(e.Message, "mapping values are not allowed")
	switch tab, open := strings.IndexByte(line[:indent], '\t'), unclosed(strings.Join(lines[wrong-1:], ""), len(line)); {
	case tab >= 0:
		e.Line, e.Column, e.Message = wrong, tab+1, "is indented with a tab, which YAML does not allow; write spaces"
	case open >= 0:
		e.Line, e.Column, e.Message = wrong, open+1, fmt.Sprintf("the %c is not closed", line[open])
	case glued(above) != nil && glued(wrong) == nil:
		e.Line, e.Column, e.Message = above, glued(above)[3], noSpaceMessage
	case glued(wrong) != nil:
		e.Line, e.Column, e.Message = wrong, glued(wrong)[3], noSpaceMessage
	case isMapping && (strings.Count(line, `"`)%2 == 1 || strings.Count(line, "'")%2 == 1):
		e.Line, e.Message = wrong, "a quote is opened and not closed on this line"
	case isMapping && above > 0 && !strings.Contains(lines[above-1], ":"):
		e.Line, e.Message = above, "a colon is missing after the key, as in key: value"
	default:
		others := indentsAbove(lines[:wrong-1], strings.HasPrefix(content, "- "))
		if len(others) > 0 && !slices.Contains(others, strconv.Itoa(indent)) {
			e.Line, e.Column = wrong, indent+1
			e.Message = fmt.Sprintf("is indented by %d, but the lines above it by %s spaces; indent it like one of them", indent, enumerate(others, "or"))
		} else if e.Line == 0 || strings.HasPrefix(e.Message, "did not find expected key") {
			e.Line = wrong
		}
	}
}

// contentAbove returns the number of the last line above a line that is neither empty nor a
// comment, or 0.
func contentAbove(lines []string, line int) int {
	for line--; line > 0; line-- {
		if text := strings.TrimSpace(lines[line-1]); text != "" && text[0] != '#' {
			break
		}
	}
	return line
}

// indentsAbove returns the indentation of the blocks at the end of lines, from the innermost: that
// of their items, or that of their keys.
func indentsAbove(lines []string, items bool) (indents []string) {
	least := len(lines) + 1<<10
	for n := contentAbove(lines, len(lines)+1); n > 0 && least > 0; n = contentAbove(lines, n) {
		rest := strings.TrimLeft(lines[n-1], " ")
		var blocks []int // of the line, from the outermost
		at := len(lines[n-1]) - len(rest)
		for strings.HasPrefix(rest, "- ") {
			key := strings.TrimLeft(rest[1:], " ")
			if items {
				blocks = append(blocks, at)
			}
			at += len(rest) - len(key)
			rest = key
		}
		if !items {
			blocks = append(blocks, at)
		}
		for _, block := range slices.Backward(blocks) {
			if block < least {
				indents = append(indents, strconv.Itoa(block))
			}
		}
		least = min(least, len(lines[n-1])-len(strings.TrimLeft(lines[n-1], " ")))
	}
	return indents
}

// unclosed returns the offset of the innermost bracket or quote that is opened in the first line
// of text and not closed, or -1.
func unclosed(text string, firstLine int) int {
	var open []int
	begins := true // a value, which a quote or a bracket may open
	for i := 0; i < len(text); i++ {
		quoted := len(open) > 0 && strings.IndexByte(`"'`, text[open[len(open)-1]]) >= 0
		switch c := text[i]; {
		case quoted && c == '\\' && text[open[len(open)-1]] == '"':
			i++
		case quoted:
			if c == text[open[len(open)-1]] {
				open = open[:len(open)-1]
			}
		case c == '#' && (i == 0 || strings.IndexByte(" \n", text[i-1]) >= 0):
			end := strings.IndexByte(text[i:], '\n')
			if end < 0 {
				end = len(text) - i
			}
			i += end - 1
		case len(open) == 0 && i >= firstLine:
			return -1
		case begins && strings.IndexByte(`"'[{`, c) >= 0:
			open = append(open, i)
			begins = c == '[' || c == '{'
		case len(open) > 0 && strings.IndexByte("]}", c) >= 0:
			open = open[:len(open)-1]
		case strings.IndexByte(" \r\n", c) < 0:
			begins = strings.IndexByte(",:-", c) >= 0
		}
	}
	for _, at := range slices.Backward(open) {
		if at < firstLine {
			return at
		}
	}
	return -1
}
