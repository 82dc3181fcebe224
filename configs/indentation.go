package configs

import (
	"bytes"
	"fmt"
	"io"
	"regexp"
	"strings"

	"go.yaml.in/yaml/v3"
)

// layoutError describes a mistake in the layout of a file: its indentation, or a bracket or
// a quote that is not closed.
type layoutError struct {
	line, column int
	message      string
}

// findLayoutError returns the first mistake in the layout of data, which is not YAML, or nil
// if it finds none. The errors of the YAML parser have the line of the block around the
// mistake, and do not say what the parser expected.
func findLayoutError(data []byte) *layoutError {
	var s layoutScanner
	lines := bytes.SplitAfter(data, []byte("\n"))
	before, tries := 0, 0
	for i, line := range lines {
		found := s.scan(i+1, strings.TrimRight(string(line), "\r\n"))
		// It is a mistake only if the file is right up to this line, and wrong with it.
		if found != nil && tries < maxTries {
			tries++
			if isYAML(data[:before]) && !isYAML(data[:before+len(line)]) {
				return found
			}
		}
		before += len(line)
	}
	return s.unclosed()
}

// maxTries limits how often parts of a file are parsed.
const maxTries = 20

// isYAML reports whether data can be parsed.
func isYAML(data []byte) bool {
	var document yaml.Node
	decoder := yaml.NewDecoder(bytes.NewReader(data))
	for {
		switch err := decoder.Decode(&document); {
		case err == io.EOF:
			return true
		case err != nil:
			return false
		}
	}
}

// block is a mapping or a list in block style.
type block struct {
	indent, line int
	list         bool
}

// layoutScanner follows the blocks of a file line by line.
type layoutScanner struct {
	blocks   []block       // from the outermost
	opens    bool          // the last line ends with a key or a dash without a value
	valued   int           // the line of the last key or item with a value
	inText   bool          // within a literal text
	literal  int           // indentation of the block with that text
	text     block         // that of the text; line 0: not begun, or given by its header
	brackets []layoutError // that are open
	quote    byte          // that is open, or 0
	quoted   layoutError   // where it begins
}

var (
	blockKey  = regexp.MustCompile(`^("[^"]*"|'[^']*'|[^\s#"'\[\]{},&*!|>%@-][^#]*?|-[^\s#][^#]*?):(\s|$)`)
	blockText = regexp.MustCompile(`(^|\s)[|>][0-9+-]*\s*(#.*)?$`)
)

// scan reads a line. It returns what may be a mistake in it, or nil.
func (s *layoutScanner) scan(number int, line string) *layoutError {
	if s.quote != 0 || len(s.brackets) > 0 {
		s.values(number, line, 0)
		return nil
	}
	content := strings.TrimLeft(line, " \t")
	indent := len(line) - len(content)
	switch {
	case content == "":
		return nil
	case s.inText && indent > s.literal && line[0] == ' ':
		return s.inLiteral(number, indent)
	case content[0] == '#':
		return nil
	}
	s.inText = false
	if tab := strings.IndexByte(line[:indent], '\t'); tab >= 0 {
		return &layoutError{number, tab + 1, "is indented with a tab, which YAML does not allow; write spaces"}
	}
	if content == "---" || content == "..." {
		s.blocks = nil
		return nil
	}
	return s.content(number, line, indent)
}

// inLiteral reads a line of a literal text. No line may have less indentation than the first.
func (s *layoutScanner) inLiteral(number, indent int) *layoutError {
	if s.text.line == 0 {
		s.text = block{indent: indent, line: number}
	}
	if indent < s.text.indent {
		return &layoutError{number, indent + 1, fmt.Sprintf("is indented by %s, but the text that begins on line %d by %s; write at least %s", spaces(indent), s.text.line, spaces(s.text.indent), spaces(s.text.indent))}
	}
	return nil
}

// content reads a line with a key, an item, or both.
func (s *layoutScanner) content(number int, line string, indent int) *layoutError {
	rest := line[indent:]
	isItem := rest == "-" || strings.HasPrefix(rest, "- ")
	if !isItem && !blockKey.MatchString(rest) {
		s.opens = false
		s.values(number, line, indent)
		return nil // text, or the rest of a text
	}
	if found := s.place(number, indent, isItem); found != nil {
		return found
	}
	for isItem {
		value := strings.TrimLeft(rest[1:], " ")
		indent += len(rest) - len(value)
		rest = value
		isItem = rest == "-" || strings.HasPrefix(rest, "- ")
		if isItem || blockKey.MatchString(rest) {
			s.blocks = append(s.blocks, block{indent, number, isItem})
		}
	}
	value := rest
	if key := blockKey.FindString(rest); key != "" {
		value = rest[len(key):]
	}
	text, _, _ := strings.Cut(" "+value, " #")
	s.opens = strings.TrimSpace(text) == "" || strings.ContainsAny(strings.TrimSpace(text)[:1], "&!") && !strings.Contains(strings.TrimSpace(text), " ")
	if !s.opens {
		s.valued = number
	}
	if blockText.MatchString(value) {
		s.inText, s.literal, s.text = true, s.blocks[len(s.blocks)-1].indent, block{}
		if strings.ContainsAny(blockText.FindString(value), "123456789") {
			s.text.line = number
		}
		return nil
	}
	s.values(number, line, len(line)-len(value))
	return nil
}

// place finds the block to which a key or an item with this indentation belongs.
func (s *layoutScanner) place(number, indent int, isItem bool) *layoutError {
	var ended *block
	for len(s.blocks) > 0 {
		last := s.blocks[len(s.blocks)-1]
		// A list may have the indentation of the key that it belongs to.
		if last.indent < indent || last.indent == indent && (last.list == isItem || isItem && s.opens) {
			break
		}
		ended = &last
		s.blocks = s.blocks[:len(s.blocks)-1]
	}
	within := block{indent: -1}
	if len(s.blocks) > 0 {
		within = s.blocks[len(s.blocks)-1]
	}
	is := fmt.Sprintf("is indented by %s", spaces(indent))
	switch {
	case within.indent == indent && within.list == isItem:
		return nil
	case ended != nil && ended.indent == indent:
		return &layoutError{number, indent + 1, fmt.Sprintf("%s like the list that begins on line %d, and is not an item of it; write - in front of it, or indent it like the keys of an item", is, ended.line)}
	case ended != nil:
		end := ""
		if within.indent >= 0 {
			end = fmt.Sprintf(", or %s to end it", spaces(within.indent))
		}
		return &layoutError{number, indent + 1, fmt.Sprintf("%s, but the block that begins on line %d by %s; write %s to continue it%s", is, ended.line, spaces(ended.indent), spaces(ended.indent), end)}
	case within.indent >= 0 && !s.opens:
		return &layoutError{number, indent + 1, fmt.Sprintf("%s, deeper than the block that begins on line %d, but line %d has a value already; write %s, or remove that value", is, within.line, s.valued, spaces(within.indent))}
	}
	s.blocks = append(s.blocks, block{indent, number, isItem})
	return nil
}

// values follows the brackets and quotes in the value of a line, which begins at an offset.
func (s *layoutScanner) values(number int, line string, from int) {
	begin := s.quote == 0 // a quote begins a value, and is a plain character elsewhere
	for i := from; i < len(line); i++ {
		c := line[i]
		here := layoutError{number, i + 1, fmt.Sprintf("the %c is not closed", c)}
		switch {
		case s.quote == '"' && c == '\\':
			i++
		case s.quote != 0:
			if c == s.quote {
				s.quote = 0
			}
		case c == '#' && (i == 0 || line[i-1] == ' '):
			return
		case begin && (c == '"' || c == '\''):
			s.quote, s.quoted = c, here
		case (begin || len(s.brackets) > 0) && (c == '[' || c == '{'):
			s.brackets = append(s.brackets, here)
			begin = true
			continue
		case len(s.brackets) > 0 && (c == ']' || c == '}'):
			s.brackets = s.brackets[:len(s.brackets)-1]
		case len(s.brackets) > 0 && (c == ',' || c == ':'):
			begin = true
			continue
		}
		begin = begin && c == ' '
	}
}

// unclosed returns the bracket or the quote that is open at the end of the file, or nil.
func (s *layoutScanner) unclosed() *layoutError {
	switch {
	case s.quote != 0:
		return &s.quoted
	case len(s.brackets) > 0:
		return &s.brackets[len(s.brackets)-1]
	}
	return nil
}

// spaces returns a number of spaces in words.
func spaces(n int) string {
	switch n {
	case 0:
		return "no spaces"
	case 1:
		return "1 space"
	}
	return fmt.Sprintf("%d spaces", n)
}
