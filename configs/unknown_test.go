package configs

import (
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"
)

// The match that replaces a former key of a filter is printed in quotes, and is valid.
func TestFormerFiltersPrintTheMatchThatReplacesThem(t *testing.T) {
	const others = `event.stream != "detections" || `
	for _, c := range []struct{ key, value, variable, want string }{
		{"status", "[new, .none]", "new, .none", `detection.status in ["new",null]`},
		{"status", "[NEW, In-Progress]", "NEW,In-Progress", `detection.status in ["new","in_progress"]`},
		{"resolution", "[action_taken]", "action_taken", `detection.resolution in ["action_taken"]`},
		{"assignee", `[ana, "o'neil", .me]`, "ana,o'neil,.me", `detection.assignee in ["ana","o'neil","OWNER OF THE API KEY"]`},
		{"ticket_id", "[SEC-1]", "SEC-1", `detection.ticket_id in ["SEC-1"]`},
		{"recommended", "false", "false", "detection.recommended == false"},
		{"risk_score_min", "60", "60", "detection.risk_score >= 60"},
	} {
		variable := "NDRBRIDGE_APPLIANCES_0_DETECTIONS_FILTER_" + strings.ToUpper(c.key)
		_, inFile := Parse("f.yaml", []byte(appliance("detections: {filter: {"+c.key+": "+c.value+"}}")), nil)
		_, inVariable := Parse("f.yaml", []byte(appliance("timeout: 1s")), []string{variable + "=" + c.variable})
		for place, err := range map[string]error{"detections.filter." + c.key + ": is not a known key": inFile, variable + ": is not a known variable": inVariable} {
			wantErrors(t, err, []string{place + " any more; filter at the sinks instead, with match: '"})
			_, quoted, _ := strings.Cut(err.Error(), "match: ")
			var match string
			if err := yaml.Unmarshal([]byte(quoted), &match); err != nil || match != others+c.want {
				t.Errorf("%q: %v, want %q", match, err, others+c.want)
			}
			parse(t, strings.Replace(valid, "name: log", "name: log, match: "+strings.TrimSpace(quoted), 1))
		}
	}
	for key, value := range map[string]string{"status": "[]", "risk_score_min": "", "score": "60"} {
		_, err := Parse("f.yaml", []byte(appliance("detections: {filter: {"+key+": "+value+"}}")), nil)
		if wantErrors(t, err, []string{"filter." + key + ": is not a known key"}); strings.Contains(err.Error(), "match") {
			t.Errorf("%s: %s prints a match: %v", key, value, err)
		}
	}
}
