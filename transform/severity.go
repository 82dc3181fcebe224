package transform

import (
	"bytes"
	"strconv"

	"ndrbridge/internal/jsonscan"
)

// severity is an OpenTelemetry severity: its number and its short name.
type severity struct {
	number int32
	text   string
}

// The severities of the bands of risk scores.
var (
	severityInfo  = severity{9, "INFO"}
	severityWarn  = severity{13, "WARN"}
	severityError = severity{17, "ERROR"}
	severityFatal = severity{21, "FATAL"}
)

// severityOf returns the band of a detection's risk score (0 to 99). A detection
// without a score is in the lowest band, and a performance detection is never above the
// medium one.
func severityOf(riskScore, categories []byte) severity {
	score, err := strconv.ParseFloat(string(jsonscan.Number(riskScore)), 64)
	if err != nil {
		return severityInfo
	}
	band := severityFatal
	switch {
	case score < 31:
		band = severityInfo
	case score < 80:
		band = severityWarn
	case score < 90:
		band = severityError
	}
	if band.number > severityWarn.number {
		for category := range jsonscan.Elements(categories) {
			if string(category) == `"perf"` || bytes.HasPrefix(category, []byte(`"perf.`)) {
				return severityWarn
			}
		}
	}
	return band
}
