package configs

import "ndrbridge/transform/match"

// Evidence configures the records that are searched around detections. It requires that the owner
// of the key has full write privileges.
//
//	appliances:
//	  - name: hq
//	    url: https://sensor.example
//	    api_key_file: /run/secrets/hq
//	    evidence: {match: detection.risk_score >= 80, types: ["~http", "~dns"], related: true}
type Evidence struct {
	// Match selects the detections, by a CEL expression about their versions as in a sink.
	// Absent: no records are searched.
	Match string `yaml:"match"`
	// Types are record types such as ~dns. Absent: all types.
	Types []string `yaml:"types" form:"item"`
	// Before is how long before the detection's start the records begin.
	Before Duration `yaml:"before" default:"5m" min:"0"`
	// After is how long after its end, or its last update, they end.
	After Duration `yaml:"after" default:"5m" min:"0"`
	// MaxRecords is the maximum number of records in an event.
	MaxRecords int `yaml:"max_records" default:"100" min:"1" max:"1000"`
	// PerHour is the maximum number of searches within an hour. Further detections wait.
	PerHour int `yaml:"per_hour" default:"60" min:"1" max:"10000"`
	// Related adds up to 20 related detections, with one more request.
	Related bool `yaml:"related"`
}

func (e *Evidence) check(c checks, path string) {
	if e.Match == "" {
		return
	}
	if _, err := match.Compile(e.Match); err != nil {
		c.wrong(path+".match", "%v", err)
	}
}
