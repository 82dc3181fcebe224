package docs

import (
	"path"
	"regexp"
	"slices"
	"strings"
)

// Commands returns the arguments of each command of the program in the document's sh and
// console blocks. It supports one-line commands and only the shell syntax that documents
// use.
func (d Document) Commands(program string) [][]string {
	var scripts []string
	for _, b := range d.Blocks {
		scripts = append(scripts, b.Script())
	}
	return commandsOf(scripts, program)
}

// Mentions returns the arguments of commands of the program in code spans, which may be
// incomplete.
func (d Document) Mentions(program string) [][]string { return commandsOf(d.Spans, program) }

func commandsOf(scripts []string, program string) [][]string {
	var commands [][]string
	for _, script := range scripts {
		for _, words := range Split(script) {
			if args, ok := argumentsOf(words, program); ok {
				commands = append(commands, args)
			}
		}
	}
	return commands
}

// Script returns the commands of the block: all of sh, the lines of console after a $, and
// nothing of other blocks.
func (b Block) Script() string {
	switch b.Language {
	case "sh":
		return b.Text
	case "console":
		var script strings.Builder
		for line := range strings.Lines(b.Text) {
			if typed, ok := strings.CutPrefix(line, "$ "); ok {
				script.WriteString(typed)
			}
		}
		return script.String()
	}
	return ""
}

var assignment = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*=`)

// before are words that may precede a command.
var before = []string{"if", "until", "while", "do", "then", "!", "{", "time", "exec", "sudo", "nohup"}

// argumentsOf returns the arguments of the program if words are a command of it, directly or
// in a container.
func argumentsOf(words []string, program string) ([]string, bool) {
	for len(words) > 0 && (slices.Contains(before, words[0]) || assignment.MatchString(words[0])) {
		words = words[1:]
	}
	if len(words) == 0 {
		return nil, false
	}
	if slices.Contains([]string{"docker", "podman", "kubectl"}, words[0]) {
		if i := slices.Index(words, "/"+program); i > 0 {
			return words[i+1:], true
		}
		return nil, false
	}
	return words[1:], path.Base(words[0]) == program
}

// Parts of a shell script: a comment, a redirection, a word with its quotes, and the end of a
// command.
var (
	part   = regexp.MustCompile(`#.*|[0-9]*(?:<<|>>|[<>])&?|(?:[^\s'"\\|;&()<>]|\\.|'[^']*'|"(?:[^"\\]|\\.)*")+|[|;&()\n]`)
	redir  = regexp.MustCompile(`^[0-9]*[<>]`)
	quoted = regexp.MustCompile(`'[^']*'|"(?:[^"\\]|\\.)*"|\\.`)
	escape = regexp.MustCompile("\\\\([\"\\\\$`])") // within double quotes
	here   = regexp.MustCompile(`(?:^|[^<])<<['"]?(\w+)`)
)

// Split returns the words of each command in a shell script, without comments, redirections
// and here-documents.
func Split(script string) [][]string {
	var commands [][]string
	var words []string
	target := false // the next word is the target of a redirection
	for _, text := range part.FindAllString(withoutHere(strings.ReplaceAll(script, "\\\n", " "))+"\n", -1) {
		switch {
		case text[0] == '#':
		case redir.MatchString(text):
			target = true
		case strings.Contains("|;&()\n", text):
			if words != nil {
				commands = append(commands, words)
			}
			words, target = nil, false
		case target:
			target = false
		default:
			words = append(words, unquote(text))
		}
	}
	return commands
}

// unquote returns the meaning of a word.
func unquote(word string) string {
	return quoted.ReplaceAllStringFunc(word, func(text string) string {
		switch text[0] {
		case '\'':
			return text[1 : len(text)-1]
		case '"':
			return escape.ReplaceAllString(text[1:len(text)-1], "$1")
		}
		return text[1:]
	})
}

// withoutHere removes the here-documents of a script.
func withoutHere(script string) string {
	var kept strings.Builder
	ending := ""
	for line := range strings.Lines(script) {
		if ending != "" {
			if strings.TrimSuffix(line, "\n") == ending {
				ending = ""
			}
			continue
		}
		kept.WriteString(line)
		if found := here.FindStringSubmatch(line); found != nil {
			ending = found[1]
		}
	}
	return kept.String()
}
