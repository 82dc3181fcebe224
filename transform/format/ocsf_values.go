package format

import (
	"bytes"
	"cmp"
	"maps"
	"slices"
	"strconv"
	"strings"

	"ndrbridge/transform"
)

// OCSF has pairs of fields for a value of a list: its number and its caption, which is the
// source's own text if the number is 99, Other.

// choice is such a value. Its caption is empty if it is the source's own text.
type choice struct {
	id   int
	name string
}

// picker selects the value of a list that a JSON value stands for. choose returns none if
// it stands for none of them.
type picker struct {
	name   string // in the documentation
	choose func(value []byte) (choice, fit)
}

// siblings are the rows of a pair of fields.
func siblings(id, caption string, pick picker, sources ...string) []row {
	return []row{{id, sources, pick.id()}, {caption, sources, pick.caption()}}
}

// id returns the conversion to the value's number.
func (p picker) id() conversion {
	return conversion{p.name, func(dst, value []byte) ([]byte, fit) {
		of, f := p.choose(value)
		return strconv.AppendInt(dst, int64(of.id), 10), f
	}}
}

// caption returns the conversion to the value's caption.
func (p picker) caption() conversion {
	return conversion{"its caption", func(dst, value []byte) ([]byte, fit) {
		of, f := p.choose(value)
		if f != none && of.name == "" {
			if value[0] == '[' || value[0] == '{' {
				return append(dst, `"Other"`...), part
			}
			return text.append(dst, value)
		}
		return appendText(dst, of.name), f
	}}
}

// words picks by text, without regard to the case of letters. The word * stands for any
// other text. known is the fit of the other words: whole if they tell all of the value.
func words(known fit, of map[string]choice) picker {
	return picker{describe(of, ""), func(value []byte) (choice, fit) {
		var buffer [64]byte
		key, ok := unquoted(buffer[:0], value)
		if !ok || len(key) == 0 {
			return choice{}, none
		}
		if found, ok := of[string(lower(key))]; ok {
			return found, known
		}
		found, ok := of["*"]
		return found, min(part, fits(ok))
	}}
}

// wordIn is a word to look for.
type wordIn struct {
	word string
	choice
}

// beginnings picks by the first word with which a text begins, without regard to the case
// of letters.
func beginnings(of ...wordIn) picker { return searched("begins with ", bytes.HasPrefix, of) }

// within picks by the first word that a text contains.
func within(of ...wordIn) picker { return searched("contains ", bytes.Contains, of) }

func searched(how string, matches func(text, word []byte) bool, of []wordIn) picker {
	named, sought := make(map[string]choice), make([][]byte, len(of))
	for i, w := range of {
		named[w.word], sought[i] = w.choice, []byte(w.word)
	}
	return picker{describe(named, how), func(value []byte) (choice, fit) {
		var buffer [128]byte
		key, ok := unquoted(buffer[:0], value)
		if !ok || len(key) == 0 {
			return choice{}, none
		}
		key = lower(key)
		for i, w := range of {
			if w.word == "*" || matches(key, sought[i]) {
				return w.choice, part
			}
		}
		return choice{}, none
	}}
}

// describe lists choices by their number.
func describe(of map[string]choice, how string) string {
	byID := make(map[int][]string)
	for word, c := range of {
		if word == "*" {
			word = "any other"
		} else {
			word = how + "`" + word + "`"
		}
		byID[c.id] = append(byID[c.id], word)
	}
	var list []string
	for _, id := range slices.Sorted(maps.Keys(byID)) {
		slices.SortFunc(byID[id], func(a, b string) int {
			return cmp.Or(cmp.Compare(strings.Count(a, "any other"), strings.Count(b, "any other")), cmp.Compare(a, b))
		})
		list = append(list, strconv.Itoa(id)+": "+strings.Join(byID[id], ", "))
	}
	return strings.Join(list, "; ")
}

// webURL is the address of a page.
var webURL = named("web address", only(text, func(text []byte) bool {
	rest, found := bytes.CutPrefix(text, []byte("https://"))
	if !found {
		rest, found = bytes.CutPrefix(text, []byte("http://"))
	}
	return found && len(rest) > 0 && rest[0] != '/' && !slices.ContainsFunc(rest, isSpaceOrControl) && !bytes.Contains(rest, []byte("\uFFFD"))
}))

func isSpaceOrControl(c byte) bool { return c <= ' ' || c == 0x7f }

// emailAddress is an address as the schema's pattern has it.
var emailAddress = named("e-mail address", only(text, isEmail))

func isEmail(address []byte) bool {
	local, domain, found := bytes.Cut(address, []byte("@"))
	label, rest, hasDot := bytes.Cut(domain, []byte("."))
	return found && hasDot && len(address) <= 320 &&
		consistsOf(local, "!#$%&'*+,-./=?^_`{|}~") && consistsOf(label, "-") && consistsOf(rest, "-.")
}

// macAddress is a hardware address in pairs of digits.
var macAddress = named("hardware address", only(text, func(text []byte) bool {
	if len(text) != len("00:00:00:00:00:00") {
		return false
	}
	for i, c := range text {
		if isSeparator := c == ':' || c == '-'; isSeparator != (i%3 == 2) || !isSeparator && !strings.ContainsRune("0123456789abcdefABCDEF", rune(c)) {
			return false
		}
	}
	return true
}))

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
	if object, f = as.append(object, value); f == none {
		return object[:start], none
	}
	return object, f
}
