package transform

import (
	"bytes"
	"strconv"
)

// Severity is an OpenTelemetry severity: its number and its short name.
type Severity struct {
	Number int32
	Text   string
}

// The severities that risk scores fall into.
var (
	severityInfo  = Severity{9, "INFO"}
	severityWarn  = Severity{13, "WARN"}
	severityError = Severity{17, "ERROR"}
	severityFatal = Severity{21, "FATAL"}
)

// severityOf bands a detection's risk score (0 to 99). No score is the lowest
// band, and a performance detection never ranks above a medium one.
func severityOf(riskScore, categories []byte) Severity {
	score, err := strconv.ParseFloat(string(riskScore), 64)
	if err != nil {
		return severityInfo
	}
	severity := severityFatal
	switch {
	case score < 31:
		severity = severityInfo
	case score < 80:
		severity = severityWarn
	case score < 90:
		severity = severityError
	}
	if severity.Number > severityWarn.Number {
		for category := range Elements(categories) {
			if string(category) == `"perf"` || bytes.HasPrefix(category, []byte(`"perf.`)) {
				return severityWarn
			}
		}
	}
	return severity
}
