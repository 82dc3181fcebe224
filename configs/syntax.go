package configs

import (
	"bytes"
	"regexp"
	"slices"
	"strings"
)

var quotedAnchor = regexp.MustCompile(`anchor '([^']*)'`)

// explainSyntax replaces an error of the YAML parser by what is most likely wrong, with its
// line. It removes the names of anchors, because a secret that begins with * looks like an
// anchor.
func explainSyntax(e *Error, data []byte) {
	lines := bytes.SplitAfter(data, []byte("\n"))
	switch {
	case quotedAnchor.MatchString(e.Message):
		alias := []byte("*" + quotedAnchor.FindStringSubmatch(e.Message)[1])
		e.Line = 1 + slices.IndexFunc(lines, func(line []byte) bool { return bytes.Contains(line, alias) })
		e.Message = quotedAnchor.ReplaceAllString(e.Message, "anchor") + "; put a value that begins with * in quotes"
	case e.Message == "mapping values are not allowed in this context":
		if before := lineBefore(lines, e.Line); before > 0 {
			switch text := string(lines[before-1]); {
			case strings.Count(text, `"`)%2 == 1, strings.Count(text, "'")%2 == 1:
				e.Line, e.Message = before, "a quote is opened and not closed on this line"
				return
			case !strings.Contains(text, ":"):
				e.Line, e.Message = before, "a colon is missing after the key, as in key: value"
				return
			}
		}
		e.Message += "; put a value that contains a colon and a space in quotes"
	case e.Message == "found character that cannot start any token":
		e.Message += "; put a value that begins with a special character in quotes"
	case strings.HasPrefix(e.Message, "did not find expected ',' or"):
		e.Message = "a comma or a closing bracket is missing; put a value that contains a colon and a space in quotes"
	case e.Message == "did not find expected comment or line break":
		e.Message = "text follows a value in quotes; put the whole value in quotes of the other kind"
	case e.Message == "did not find expected node content":
		e.Message = "a value is missing, or there is a comma too many"
	case e.Message == "did not find expected key":
		e.Message = "a key is expected; put a value that begins with a bracket or a quote, and continues behind it, in quotes of another kind"
		e.Line = firstWrong(lines, max(0, e.Line-2)) // the parser's is that of the block, or the next
	}
	if e.Line == 0 {
		e.Line = firstWrong(lines, 0)
	}
}

// lineBefore returns the number of the last line before a line that is neither empty nor a
// comment, or 0.
func lineBefore(lines [][]byte, line int) int {
	for line = min(line, len(lines)) - 1; line > 0; line-- {
		if text := bytes.TrimSpace(lines[line-1]); len(text) > 0 && text[0] != '#' {
			break
		}
	}
	return line
}

// firstWrong returns the number of the line with which a text stops to be YAML, or 0. The
// text is YAML up to a number of lines.
func firstWrong(lines [][]byte, before int) int {
	const most = 200 // lines; each is parsed with all before it
	for i := before; i < min(len(lines), before+most); i++ {
		if !isYAML(bytes.Join(lines[:i+1], nil)) {
			return i + 1
		}
	}
	return 0
}
