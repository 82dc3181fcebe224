package admin

import (
	"regexp"
	"strings"
)

// maxReasonKind is the maximum length of a kind of reason, in bytes.
const maxReasonKind = 300

const digits = "0123456789"

// The parts of a reason that differ between dead letters, and what resembles them.
var (
	times = regexp.MustCompile(`\b\d{4}-\d\d-\d\d(?:[T ]\d\d:\d\d(?:[\d:.,+Z-]*[\dZ])?)?`)
	uuids = regexp.MustCompile(`\b[[:xdigit:]]{8}(?:-[[:xdigit:]]{4}){3}-[[:xdigit:]]{12}`)
	// longWords are ids if they have digits and letters: no name with digits is as long.
	longWords = regexp.MustCompile(`\b[0-9A-Za-z]{12,}`)
	// numbers are those of names, the addresses in URLs, statuses, and any others with the parts of
	// decimal numbers, addresses and versions.
	numbers  = regexp.MustCompile(`[A-Za-z]\d+|//\d[\d.,:]*|\b[45]\d\d\b|\d+(?:[.,:]\d+)*`)
	statuses = regexp.MustCompile(`^[45]\d\d$`)
)

// ReasonKind returns a reason with everything replaced that differs between dead letters
// of one kind: times by <time>, ids by <id> and numbers by <number>. HTTP's error statuses,
// numbers that belong to a name such as v1, and addresses in URLs stay. A long reason is
// truncated.
func ReasonKind(reason string) string {
	kind := reason[:min(len(reason), 2*maxReasonKind)] // the rest makes no difference
	kind = times.ReplaceAllString(kind, "<time>")
	kind = uuids.ReplaceAllString(kind, "<id>")
	kind = longWords.ReplaceAllStringFunc(kind, func(word string) string {
		if strings.Trim(word, digits) == "" || !strings.ContainsAny(word, digits) {
			return word
		}
		return "<id>"
	})
	kind = numbers.ReplaceAllStringFunc(kind, func(number string) string {
		const longestOfName = 2
		isOfName := !strings.Contains(digits, number[:1])
		switch {
		case strings.HasPrefix(number, "//"), statuses.MatchString(number), isOfName && len(number) <= 1+longestOfName:
			return number
		case isOfName:
			return number[:1] + "<number>"
		}
		return "<number>"
	})
	kind = strings.ToValidUTF8(kind, "?")
	if len(kind) > maxReasonKind {
		kind = strings.ToValidUTF8(kind[:maxReasonKind], "") + "…"
	}
	return kind
}
