package transform

import (
	"bytes"
	"strconv"

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

// bands are the severities with their ranges of risk scores (0 to 99), and the severities
// of OpenTelemetry that events carry: number and short name.
var bands = [...]struct {
	word   string
	least  float64 // the lowest risk score
	number int32
	text   string
}{
	SeverityUnknown:  {"unknown", 0, 9, "INFO"},
	SeverityLow:      {"low", 0, 9, "INFO"}, // above 0
	SeverityMedium:   {"medium", 31, 13, "WARN"},
	SeverityHigh:     {"high", 80, 17, "ERROR"},
	SeverityCritical: {"critical", 90, 21, "FATAL"},
}

// String returns the word shown to people, in lower case.
func (s Severity) String() string { return bands[s].word }

// SeverityOf returns the severity for the severity number of an event and, as JSON, its
// risk score, which distinguishes the two lowest.
func SeverityOf(number int32, riskScore []byte) Severity {
	for s := SeverityCritical; s > SeverityLow; s-- {
		if number >= bands[s].number {
			return s
		}
	}
	if score, err := parseScore(riskScore); err == nil && score > 0 {
		return SeverityLow
	}
	return SeverityUnknown
}

// SeverityWord returns the word for the severity of a detection's event, and "" for other
// events.
func (e Event) SeverityWord() string {
	if e.SeverityNumber == 0 {
		return ""
	}
	var riskScore []byte
	for name, object := range jsonscan.Members(e.Data()) {
		if string(name) == "detection" {
			riskScore = Detection{object: object}.field("risk_score")
		}
	}
	return SeverityOf(e.SeverityNumber, riskScore).String()
}

// severityOf returns the severity for a detection's risk score. Without a score it is low,
// and that of a performance detection is never above medium.
func severityOf(riskScore, categories []byte) Severity {
	score, err := parseScore(riskScore)
	if err != nil {
		return SeverityLow
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
