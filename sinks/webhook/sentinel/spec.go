package sentinel

import (
	"net/url"
	"regexp"
	"strings"

	"ndrbridge/sinks/webhook"
	"ndrbridge/transform/format"
)

// Spec describes the preset.
func Spec() webhook.PresetSpec {
	return webhook.PresetSpec{
		Name:       "sentinel",
		Address:    "the logs ingestion endpoint: `https://ndr-x1.westeurope-1.ingest.monitor.azure.com`; requires `auth.oauth`",
		Limits:     "1 MB per request, and per event",
		OAuthScope: "https://monitor.azure.com//.default",
		Keys:       []string{"rule_id", "stream"},
		Formats:    []format.Name{format.OCSF, format.ECS},
		PublicPath: true,
		Defaults:   webhook.PresetDefaults{MaxBatchBytes: 4 << 20, Gzip: true, Concurrency: 8},
		Sample: webhook.PresetSettings{
			URL: "https://sentinel.example", RuleID: "dcr-00000000000000000000000000000000",
		},
		Check: checkSettings,
		Open:  func(s webhook.PresetSettings) (webhook.Preset, error) { return New(s) },
	}
}

var (
	ruleID     = regexp.MustCompile(`^dcr-[0-9a-f]{32}$`)
	streamName = regexp.MustCompile(`^(Custom|Microsoft)-[A-Za-z0-9_-]{1,100}$`)
)

func checkSettings(s webhook.PresetSettings) (errs []webhook.SettingError) {
	if u, err := url.Parse(s.URL); err == nil && strings.Contains(u.Path, "dataCollectionRules") {
		errs = append(errs, webhook.SettingError{Key: "url", Problem: "names a rule; write the logs ingestion endpoint only, https://host, and set rule_id"})
	}
	switch {
	case s.RuleID == "":
		errs = append(errs, webhook.SettingError{Key: "rule_id", Problem: "is missing; set it to the immutable id of the data collection rule, dcr- and 32 digits"})
	case !ruleID.MatchString(s.RuleID):
		errs = append(errs, webhook.SettingError{Key: "rule_id", Problem: "is not an immutable id of a data collection rule; write dcr- and 32 hexadecimal digits, as the rule's JSON view shows it"})
	}
	if s.Stream != "" && !streamName.MatchString(s.Stream) {
		errs = append(errs, webhook.SettingError{Key: "stream", Problem: "is not the name of a stream; write Custom- followed by letters, digits, _ and -, as in the rule's streamDeclarations"})
	}
	return errs
}
