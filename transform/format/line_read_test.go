package format

import (
	"fmt"
	"math"
	"net/netip"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// lineDocument is a line, read back.
type lineDocument struct {
	header []string
	keys   map[string]string
}

// readCEF reads a line strictly by the CEF implementation standard.
func readCEF(line string) (lineDocument, error) {
	d := lineDocument{keys: make(map[string]string)}
	if err := checkCharacters(line, ""); err != nil {
		return d, err
	}
	rest, found := strings.CutPrefix(line, "CEF:0|")
	if !found {
		return d, fmt.Errorf("the line does not begin with CEF:0|")
	}
	var field strings.Builder
	for len(d.header) < 6 {
		if rest == "" {
			return d, fmt.Errorf("the header ends after %d fields", len(d.header))
		}
		c := rest[0]
		rest = rest[1:]
		switch c {
		case '|':
			d.header = append(d.header, field.String())
			field.Reset()
			continue
		case '\\':
			if rest == "" || rest[0] != '\\' && rest[0] != '|' {
				return d, fmt.Errorf("a backslash in field %d of the header escapes nothing", len(d.header))
			}
			c, rest = rest[0], rest[1:]
		}
		field.WriteByte(c)
	}
	for rest != "" {
		key, after, found := strings.Cut(rest, "=")
		if !found || !isKey(key) {
			return d, fmt.Errorf("%.40q is not a key", rest)
		}
		end := len(after)
		for i := 0; i < len(after); i++ {
			switch after[i] {
			case '\\':
				i++
			case '=': // of the next key, which begins after the last space
				end = strings.LastIndexByte(after[:i], ' ')
				if end < 0 {
					return d, fmt.Errorf("an equals sign in the value of %s", key)
				}
				i = len(after)
			}
		}
		value, err := unescapeCEF(after[:end])
		if err != nil {
			return d, fmt.Errorf("%s: %w", key, err)
		}
		if err := d.set(key, value); err != nil {
			return d, err
		}
		rest = strings.TrimPrefix(after[end:], " ")
	}
	return d, nil
}

func unescapeCEF(value string) (string, error) {
	var b strings.Builder
	for i := 0; i < len(value); i++ {
		c := value[i]
		if c == '\\' {
			i++
			escapes := map[byte]byte{'\\': '\\', '=': '=', 'n': '\n', 'r': '\r'}
			if i == len(value) || escapes[value[i]] == 0 {
				return "", fmt.Errorf("a backslash escapes nothing")
			}
			c = escapes[value[i]]
		}
		b.WriteByte(c)
	}
	return b.String(), nil
}

// readLEEF reads a line strictly by the description of LEEF 2.0.
func readLEEF(line string) (lineDocument, error) {
	d := lineDocument{keys: make(map[string]string)}
	if err := checkCharacters(line, "\t"); err != nil {
		return d, err
	}
	fields := strings.SplitN(line, "|", 7)
	if len(fields) < 7 || fields[0] != "LEEF:2.0" || fields[5] != "0x09" {
		return d, fmt.Errorf("the header is not that of LEEF 2.0 with a tab")
	}
	d.header = fields[1:5]
	for attribute := range strings.SplitSeq(fields[6], "\t") {
		key, value, found := strings.Cut(attribute, "=")
		if !found || !isKey(key) {
			return d, fmt.Errorf("%.40q is not an attribute", attribute)
		}
		if err := d.set(key, value); err != nil {
			return d, err
		}
	}
	return d, nil
}

func (d lineDocument) set(key, value string) error {
	switch _, twice := d.keys[key]; {
	case twice:
		return fmt.Errorf("%s occurs twice", key)
	case value == "":
		return fmt.Errorf("%s is empty", key)
	case strings.TrimSpace(value) != value:
		return fmt.Errorf("%s begins or ends with a space: %.40q", key, value)
	}
	d.keys[key] = value
	return nil
}

func isKey(text string) bool {
	return text != "" && !strings.ContainsFunc(text, func(r rune) bool {
		return r >= utf8.RuneSelf || !unicode.IsLetter(r) && !unicode.IsDigit(r)
	})
}

// checkCharacters reports an error for a line that is not one line of UTF-8 text.
func checkCharacters(line, except string) error {
	if !utf8.ValidString(line) {
		return fmt.Errorf("the line is not UTF-8")
	}
	for i, r := range line {
		if (unicode.IsControl(r) || r == '\u2028' || r == '\u2029') && !strings.ContainsRune(except, r) {
			return fmt.Errorf("the line has a character %U at %d", r, i)
		}
	}
	return nil
}

// checkTypes reports an error if a known key has a value of another type than types
// says: the name of the type, for texts followed by the maximum length.
func (d lineDocument) checkTypes(types map[string]string) error {
	for key, value := range d.keys {
		kind, known := types[key]
		if !known {
			if label := strings.TrimSuffix(key, "Label"); label == key || types[label] == "" {
				if !strings.HasPrefix(key, ownPrefix) {
					return fmt.Errorf("%s is not a known key", key)
				}
			}
			continue
		}
		if !isOfType(kind, value) {
			return fmt.Errorf("%s is not of type %s: %.60q", key, kind, value)
		}
	}
	return nil
}

func isOfType(kind, value string) bool {
	name, size, _ := strings.Cut(kind, " ")
	number, err := strconv.ParseInt(value, 10, 64)
	isNumber := err == nil && strconv.FormatInt(number, 10) == value
	a, addressErr := netip.ParseAddr(value)
	isAddress := addressErr == nil && a.Zone() == ""
	switch name {
	case "string":
		limit, _ := strconv.Atoi(size)
		return limit == 0 || len(value) <= limit
	case "integer":
		return isNumber && math.MinInt32 <= number && number <= math.MaxInt32
	case "port":
		return isNumber && 0 <= number && number <= 65535
	case "long":
		return isNumber
	case "level":
		return isNumber && 1 <= number && number <= 10
	case "timestamp":
		return isNumber && 0 <= number && number < maxMillis
	case "date": // milliseconds of 13 digits need no format
		return isNumber && len(value) == 13 && number > 0
	case "double":
		f, err := strconv.ParseFloat(value, 64)
		return err == nil && !math.IsInf(f, 0)
	case "ipv4_address":
		return isAddress && a.Is4()
	case "ipv6_address":
		return isAddress && a.Is6()
	case "ip_address":
		return isAddress
	case "keyword":
		return !strings.ContainsAny(value, " \t")
	}
	return false
}
