package admin

import "strings"

// maxReasonKind is the maximum length of a kind of reason, in bytes.
const maxReasonKind = 300

// ReasonKind returns a reason with everything replaced that differs between dead letters
// of one kind: times by <time>, ids by <id> and numbers by <number>. HTTP's error statuses,
// numbers that belong to a name such as v1, and addresses in URLs stay. A long reason is
// truncated.
func ReasonKind(reason string) string {
	reason = reason[:min(len(reason), 2*maxReasonKind)] // the rest makes no difference
	var kind strings.Builder
	for i := 0; i < len(reason) && kind.Len() <= maxReasonKind; {
		n, placeholder := variable(reason, i)
		if placeholder == "" {
			kind.WriteString(reason[i : i+n])
		} else {
			kind.WriteString(placeholder)
		}
		i += n
	}
	text := strings.ToValidUTF8(kind.String(), "?")
	if len(text) > maxReasonKind {
		text = strings.ToValidUTF8(text[:maxReasonKind], "") + "…"
	}
	return text
}

// variable returns the length of the part of text at i, at least 1, and what replaces it;
// empty: it stays.
func variable(text string, i int) (n int, placeholder string) {
	word, digits := 0, 0
	for i+word < len(text) && (isDigit(text[i+word]) || isLetter(text[i+word])) {
		if isDigit(text[i+word]) {
			digits++
		}
		word++
	}
	const longWord = 12 // no name with digits is as long
	switch starts := i == 0 || !isLetter(text[i-1]); {
	case digits == 0:
		return max(1, word), ""
	case starts && shaped(text[i:], "0000-00-00"):
		return timeLength(text[i:]), "<time>"
	case starts && shaped(text[i:], "xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx"):
		return len("xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx"), "<id>"
	case starts && word >= longWord && digits < word:
		return word, "<id>"
	}
	for n < word && isLetter(text[i+n]) {
		n++
	}
	if n > 0 {
		return n, "" // the letters before the digits
	}
	n = digitsOf(text[i:])
	switch {
	case n <= 2 && i > 0 && isLetter(text[i-1]): // part of a name
		return n, ""
	case n == len("422") && n == word && (text[i] == '4' || text[i] == '5') && (i == 0 || !isLetter(text[i-1])):
		return n, "" // a status
	}
	// The parts of a decimal number, an address or a version.
	for i+n+1 < len(text) && strings.IndexByte(".,:", text[i+n]) >= 0 && isDigit(text[i+n+1]) {
		n += 1 + digitsOf(text[i+n+1:])
	}
	if strings.HasSuffix(text[:i], "//") {
		return n, ""
	}
	return n, "<number>"
}

// timeLength returns the length of the date and, if one follows it, the time at the start
// of text.
func timeLength(text string) int {
	n := len("0000-00-00")
	if n+6 > len(text) || text[n] != 'T' && text[n] != ' ' || !shaped(text[n+1:], "00:00") {
		return n
	}
	for n++; n < len(text) && (isDigit(text[n]) || strings.IndexByte(":.,+-Z", text[n]) >= 0); n++ {
	}
	// What ends a sentence is not part of it.
	return len(strings.TrimRight(text[:n], ":.,+-"))
}

// shaped reports whether text begins with bytes as in shape: 0 stands for a digit, x for a
// digit or letter, and any other byte for itself.
func shaped(text, shape string) bool {
	if len(text) < len(shape) {
		return false
	}
	for i := range len(shape) {
		switch b := text[i]; shape[i] {
		case '0':
			if !isDigit(b) {
				return false
			}
		case 'x':
			if !isDigit(b) && !isLetter(b) {
				return false
			}
		default:
			if b != shape[i] {
				return false
			}
		}
	}
	return true
}

// digitsOf returns the number of digits at the start of text.
func digitsOf(text string) (n int) {
	for n < len(text) && isDigit(text[n]) {
		n++
	}
	return n
}

func isDigit(b byte) bool { return '0' <= b && b <= '9' }

func isLetter(b byte) bool { return 'a' <= b|0x20 && b|0x20 <= 'z' }
