package configs

// Rules configures the events about tuning rules, which hide detections on the appliance: a rule
// is created, updated or removed, or expires.
//
//	appliances:
//	  - name: hq
//	    url: https://sensor.example
//	    api_key_file: /run/secrets/hq
//	    rules: {enabled: true}
type Rules struct {
	// Enabled turns the events on.
	Enabled bool `yaml:"enabled"`
	// Interval is the wait between two comparisons of the rules. A rule that exists for a
	// shorter time may not be noticed.
	Interval Duration `yaml:"interval" default:"1m" above:"0"`
}

// BlindSpots configures the events about times in which the appliance does not alert or store
// records. Each of the three kinds is a stream of its own.
//
//	appliances:
//	  - name: hq
//	    url: https://sensor.example
//	    api_key_file: /run/secrets/hq
//	    blind_spots: {exclusion_intervals: true, alerts: true, record_ingest: true}
type BlindSpots struct {
	// ExclusionIntervals reports exclusion intervals that begin and end. Those of every day or
	// week are taken to be in UTC.
	ExclusionIntervals bool `yaml:"exclusion_intervals"`
	// Alerts reports alerts that are disabled and enabled.
	Alerts bool `yaml:"alerts"`
	// RecordIngest reports that the record store halts the ingest of records, and resumes it.
	RecordIngest bool `yaml:"record_ingest"`
	// Interval is the wait between two comparisons. A blind spot that is open for a shorter
	// time may not be noticed.
	Interval Duration `yaml:"interval" default:"1m" above:"0"`
}
