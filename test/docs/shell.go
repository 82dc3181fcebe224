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

// Split returns the words of each command in a shell script, without comments, redirections
// and here-documents.
func Split(script string) [][]string {
	s := splitter{rest: strings.ReplaceAll(script, "\\\n", " ")}
	for s.rest != "" {
		s.next()
	}
	s.endCommand()
	return s.commands
}

type splitter struct {
	rest     string
	commands [][]string
	words    []string
	word     strings.Builder
	begun    bool   // a word has begun; it may be empty
	target   bool   // the next word is the target of a redirection
	here     bool   // the next word ends a here-document
	ending   string // of the here-document that begins at the end of the line
}

func (s *splitter) next() {
	c := s.rest[0]
	s.rest = s.rest[1:]
	switch c {
	case '\'':
		text, rest, _ := strings.Cut(s.rest, "'")
		s.add(text)
		s.rest = rest
	case '"':
		s.quoted()
	case '\\':
		if s.rest != "" {
			s.add(s.rest[:1])
			s.rest = s.rest[1:]
		}
	case ' ', '\t':
		s.endWord()
	case '#':
		if s.begun {
			s.add("#")
			return
		}
		_, rest, _ := strings.Cut(s.rest, "\n")
		s.rest = "\n" + rest
	case '\n':
		s.endCommand()
		s.skipHere()
	case '|', ';', '&', '(', ')':
		s.endCommand()
	case '<', '>':
		s.redirect(c)
	default:
		s.add(string(c))
	}
}

func (s *splitter) add(text string) {
	s.word.WriteString(text)
	s.begun = true
}

// quoted reads to the closing quote.
func (s *splitter) quoted() {
	s.add("")
	for s.rest != "" {
		c := s.rest[0]
		s.rest = s.rest[1:]
		switch {
		case c == '"':
			return
		case c == '\\' && s.rest != "" && strings.ContainsRune("\"\\$`", rune(s.rest[0])):
			s.add(s.rest[:1])
			s.rest = s.rest[1:]
		default:
			s.add(string(c))
		}
	}
}

// redirect reads < or >, which may follow the number of a file descriptor.
func (s *splitter) redirect(c byte) {
	if strings.Trim(s.word.String(), "0123456789") == "" {
		s.word.Reset()
		s.begun = false
	}
	s.endWord()
	switch {
	case strings.HasPrefix(s.rest, "("): // <( or >(: a process substitution
	case strings.HasPrefix(s.rest, string(c)):
		s.rest = s.rest[1:]
		s.here, s.target = c == '<', c == '>'
	default:
		s.rest = strings.TrimPrefix(s.rest, "&")
		s.target = true
	}
}

func (s *splitter) endWord() {
	if !s.begun {
		return
	}
	switch text := s.word.String(); {
	case s.here:
		s.ending = text
	case !s.target:
		s.words = append(s.words, text)
	}
	s.word.Reset()
	s.begun, s.target, s.here = false, false, false
}

func (s *splitter) endCommand() {
	s.endWord()
	if len(s.words) > 0 {
		s.commands = append(s.commands, s.words)
	}
	s.words = nil
}

// skipHere skips the here-document announced on the previous line.
func (s *splitter) skipHere() {
	if s.ending == "" {
		return
	}
	_, rest, found := strings.Cut("\n"+s.rest, "\n"+s.ending+"\n")
	if !found {
		rest = ""
	}
	s.rest, s.ending = rest, ""
}
