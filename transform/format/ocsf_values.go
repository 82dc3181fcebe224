package format

import (
	"bytes"
	"slices"
	"strings"

	"ndrbridge/transform"
)

// OCSF has pairs of fields for a value of a list: its number and its caption, which is the
// source's own text if the number is 99, Other.

// choice is a value of a list: its JSON and, in OCSF, its caption. One that is empty is the
// text of the source.
type choice struct{ json, caption string }

// picker selects the value of a list that a JSON value stands for. It returns none if the
// value stands for none of them.
type picker func(value []byte) (choice, fit)

// siblings are the rows of a pair of fields.
func siblings(id, caption string, pick picker, sources ...string) []row {
	return []row{{id, sources, pick.id()}, {caption, sources, pick.caption()}}
}

// id returns the conversion to a value of the list.
func (p picker) id() conversion {
	return func(dst, value []byte) ([]byte, fit) {
		of, f := p(value)
		if f != none && of.json == "" {
			return text(dst, value)
		}
		return append(dst, of.json...), f
	}
}

// caption returns the conversion to the value's caption.
func (p picker) caption() conversion {
	return func(dst, value []byte) ([]byte, fit) {
		of, f := p(value)
		if f != none && of.caption == "" {
			if value[0] == '[' || value[0] == '{' {
				return append(dst, `"Other"`...), part
			}
			return text(dst, value)
		}
		return appendText(dst, of.caption), f
	}
}

// wordIn is a word that stands for a choice. See reader for its forms.
type wordIn struct {
	word string
	choice
}

// words picks by a text, without regard to the case of letters, or by a number or array as
// written. known is the fit of the words: whole if they tell all of the value.
func words(known fit, list []wordIn) picker {
	of := make(map[string]choice)
	for _, w := range list {
		of[w.word] = w.choice
	}
	return func(value []byte) (choice, fit) {
		var buffer [64]byte
		key, isScalar := unquoted(buffer[:0], value)
		others := "*"
		if value[0] == '[' {
			key, others = append(key, value...), "[…]"
		} else if !isScalar || len(key) == 0 {
			return choice{}, none
		}
		if found, ok := of[string(lower(key))]; ok {
			return found, min(known, fits(found.json != noChoice))
		}
		if n, ok := asInteger(value); ok {
			for _, w := range list {
				if least, most, isRange := strings.Cut(w.word, ".."); isRange && (least == "" || int64(number(least)) <= n) && (most == "" || n <= int64(number(most))) {
					return w.choice, part
				}
			}
		}
		found, ok := of[others]
		return found, min(part, fits(ok))
	}
}

// noChoice is the JSON of words that stand for nothing.
const noChoice = "-"

// search picks by the first word that matches a text, or one of the texts of an array,
// without regard to the case of letters.
func search(matches func(text, word []byte) bool, list []wordIn) picker {
	return func(value []byte) (choice, fit) {
		var texts [][]byte
		for element := range elements(value) {
			if text, ok := unquoted(nil, element); ok && len(text) > 0 {
				texts = append(texts, lower(text))
			}
		}
		for _, w := range list {
			if slices.ContainsFunc(texts, func(text []byte) bool { return w.word == "*" || matches(text, []byte(w.word)) }) {
				return w.choice, part
			}
		}
		return choice{}, none
	}
}

// webURL is the address of a page.
var webURL = only(text, func(text []byte) bool {
	rest, found := bytes.CutPrefix(text, []byte("https://"))
	if !found {
		rest, found = bytes.CutPrefix(text, []byte("http://"))
	}
	return found && len(rest) > 0 && rest[0] != '/' && !slices.ContainsFunc(rest, isSpaceOrControl) && !bytes.Contains(rest, []byte("\uFFFD"))
})

func isSpaceOrControl(c byte) bool { return c <= ' ' || c == 0x7f }

// emailAddress is an address as the schema's pattern has it.
var emailAddress = only(text, isEmail)

func isEmail(address []byte) bool {
	local, domain, found := bytes.Cut(address, []byte("@"))
	label, rest, hasDot := bytes.Cut(domain, []byte("."))
	return found && hasDot && len(address) <= 320 &&
		consistsOf(local, "!#$%&'*+,-./=?^_`{|}~") && consistsOf(label, "-") && consistsOf(rest, "-.")
}

// macAddress is a hardware address in pairs of digits.
var macAddress = only(text, func(text []byte) bool {
	if len(text) != len("00:00:00:00:00:00") {
		return false
	}
	for i, c := range text {
		if isSeparator := c == ':' || c == '-'; isSeparator != (i%3 == 2) || !isSeparator && !strings.ContainsRune("0123456789abcdefABCDEF", rune(c)) {
			return false
		}
	}
	return true
})

// consistsOf reports whether a text that is not empty has only ASCII letters, digits and
// some other characters.
func consistsOf(text []byte, others string) bool {
	for _, c := range text {
		if !('a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || strings.IndexByte(others, c) >= 0) {
			return false
		}
	}
	return len(text) > 0
}

// appendField appends the member of an object, if its value is present and fits.
func appendField(object []byte, name string, as conversion, value []byte) (_ []byte, f fit) {
	if value == nil || string(value) == "null" {
		return object, none
	}
	start := len(object)
	object = append(append(append(transform.AppendComma(object), '"'), name...), `":`...)
	if object, f = as(object, value); f == none {
		return object[:start], none
	}
	return object, f
}
