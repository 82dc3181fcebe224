package terminal

import (
	"strings"
	"unicode/utf8"
)

// Fold breaks a text into lines of at most width characters, between words where possible.
// Each line but the first begins with indent.
func Fold(text string, width int, indent string) []string {
	var lines []string
	for prefix := ""; ; prefix = indent {
		line := []rune(prefix + text)
		least := utf8.RuneCountInString(prefix) + 1 // a line has a character of the text
		end := max(width, least)
		if len(line) <= end {
			return append(lines, string(line))
		}
		for i := end; i >= least; i-- {
			if line[i] == ' ' {
				end = i
				break
			}
		}
		lines = append(lines, strings.TrimRight(string(line[:end]), " "))
		if text = strings.TrimLeft(string(line[end:]), " "); text == "" {
			return lines
		}
	}
}
