package transform

import (
	"bytes"
	"slices"
	"strconv"
	"strings"

	"ndrbridge/internal/jsonscan"
)

// Severity is how severe an event is, in the words shown to people. A higher one is more
// severe.
type Severity int

// The severities. Detections without a risk score or with 0 are of SeverityUnknown.
const (
	SeverityUnknown Severity = iota
	SeverityLow
	SeverityMedium
	SeverityHigh
	SeverityCritical
)

// bands are the severities with their ranges of risk scores (0 to 99), and the severity
// numbers of OpenTelemetry.
var bands = [...]struct {
	word   string
	least  float64 // the lowest risk score
	number int32
}{
	SeverityUnknown:  {"unknown", 0, 9},
	SeverityLow:      {"low", 0, 9}, // above 0
	SeverityMedium:   {"medium", 31, 13},
	SeverityHigh:     {"high", 80, 17},
	SeverityCritical: {"critical", 90, 21},
}

// SeverityNumbers and SeverityTexts return the values of the attributes severitynumber and
// severitytext, from the least severe.
func SeverityNumbers() (numbers []int32) {
	for _, band := range bands {
		numbers = append(numbers, band.number)
	}
	return slices.Compact(numbers)
}

// SeverityTexts is described at SeverityNumbers.
func SeverityTexts() (texts []string) {
	for _, band := range bands {
		texts = append(texts, band.word)
	}
	return texts
}

// String returns the word shown to people, which is also the severitytext of events.
func (s Severity) String() string { return bands[s].word }

// severity sets both attributes of a severity.
func (a *Attributes) severity(s Severity) {
	a.SeverityNumber, a.SeverityText = bands[s].number, s.String()
}

// Severity returns the severity of an event, and false if it has none. Events that an
// earlier version stored have OpenTelemetry's short name as severitytext, or none if they are
// the bridge's own: theirs follows from the number and the risk score, or from the type.
func (e Event) Severity() (Severity, bool) {
	for s := range bands {
		if bands[s].word == e.SeverityText {
			return Severity(s), true
		}
	}
	if e.SeverityNumber == 0 && e.Stream() == StreamEvents {
		return ownSeverity(strings.TrimPrefix(e.Type, TypePrefix)), true
	}
	for s := SeverityCritical; s > SeverityLow; s-- {
		if e.SeverityNumber >= bands[s].number {
			return s, true
		}
	}
	for name, object := range jsonscan.Members(e.Data()) {
		if string(name) == "detection" && e.SeverityNumber != 0 {
			return min(severityOf(Detection{object: object}.field("risk_score"), nil), SeverityLow), true
		}
	}
	return SeverityUnknown, e.SeverityNumber != 0
}

// SeverityWord returns the word for the severity of an event, and "" if it has none.
func (e Event) SeverityWord() string {
	if s, found := e.Severity(); found {
		return s.String()
	}
	return ""
}

// severityOf returns the severity for a detection's risk score. That of a performance
// detection is never above medium.
func severityOf(riskScore, categories []byte) Severity {
	score, err := parseScore(riskScore)
	if err != nil || score <= 0 {
		return SeverityUnknown
	}
	severity := SeverityCritical
	for severity > SeverityLow && score < bands[severity].least {
		severity--
	}
	if severity > SeverityMedium {
		for category := range jsonscan.Elements(categories) {
			if string(category) == `"perf"` || bytes.HasPrefix(category, []byte(`"perf.`)) {
				return SeverityMedium
			}
		}
	}
	return severity
}

func parseScore(riskScore []byte) (float64, error) {
	return strconv.ParseFloat(string(jsonscan.Number(riskScore)), 64)
}
