package configs

import "slices"

// Detections configures the stream of detections.
//
//	appliances:
//	  - name: hq
//	    url: https://sensor.example
//	    api_key_file: /run/secrets/hq
//	    detections: {start: -7d, enrich: [devices, format, link]}
type Detections struct {
	// Enabled turns the stream on.
	Enabled bool `yaml:"enabled" default:"true"`
	// Interval is the wait between polls when there is nothing new.
	Interval Duration `yaml:"interval" default:"10s" above:"0"`
	// Start is where the first poll begins: now, beginning, a negative duration or a
	// time. Later polls continue from the saved position.
	Start Start `yaml:"start" default:"now"`
	// Overlap is how late a version may become visible and still be found without waiting
	// for the reconcile sweep. The range of this length before the position is read
	// again: at every poll if it fits on one page, otherwise once, when this time has
	// passed.
	Overlap Duration `yaml:"overlap" default:"2m" min:"0"`
	// PageSize is the number of detections per request.
	PageSize int             `yaml:"page_size" default:"1000" min:"2" max:"20000"`
	Filter   DetectionFilter `yaml:"filter"`
	// Enrich lists what is added to the events of detections, each at most once: devices
	// (the participants' devices), format (the display name of the type), link (the URL
	// of the detection's page on the appliance).
	Enrich    []string            `yaml:"enrich" oneof:"devices,format,link"`
	Reconcile DetectionsReconcile `yaml:"reconcile"`
	// ForgetAfter is how long the state of a detection is kept after its last change. It
	// must be longer than [Detections.Overlap] and [DetectionsReconcile.Back].
	ForgetAfter Duration `yaml:"forget_after" default:"90d"`
}

// DetectionFilter is the appliance's own search filter: detections that do not match are
// never fetched. A key that is absent does not filter.
//
// A detection that stops matching is not fetched any more. So filter here by what does not
// change, and by everything else with the match of a sink.
//
// Its JSON is the filter object of the appliance's REST interface.
//
//	appliances:
//	  - name: hq
//	    url: https://sensor.example
//	    api_key_file: /run/secrets/hq
//	    detections:
//	      filter: {categories: [sec.botnet, sec.exfil]}
type DetectionFilter struct {
	// Categories are the categories to select: sec, perf or custom, or a part of one,
	// such as sec.botnet.
	Categories []string `yaml:"categories" json:"categories,omitempty" form:"category"`
	// Category is the older form of [DetectionFilter.Categories], for old appliances.
	Category string `yaml:"category" json:"category,omitempty" form:"category"`
	// Types are the detection types to select.
	Types []string `yaml:"types" json:"types,omitempty" form:"item"`
}

// Reconcile configures the slow sweep that finds objects that became visible late.
type Reconcile struct {
	// Every is the time between sweeps. 0: no sweeps.
	Every Duration `yaml:"every" default:"6h" min:"0"`
	// Back is how far back a sweep reads.
	Back Duration `yaml:"back" default:"72h" above:"0"`
}

// DetectionsReconcile configures the slow sweep that finds versions of detections that became
// visible late, and the look for detections that are no longer shown.
type DetectionsReconcile struct {
	Reconcile
	// Report lists the follow-ups about known detections that are not closed: hidden and
	// gone, if the appliance no longer shows one, and shown, if it is back. They are looked
	// for as often as the sweep runs. Absent: none.
	Report []string `yaml:"report" oneof:"hidden,gone,shown"`
}

// Audit configures the stream of audit log entries: what people and tools did on the
// appliance.
//
//	appliances:
//	  - name: hq
//	    url: https://sensor.example
//	    api_key_file: /run/secrets/hq
//	    audit: {start: beginning}
type Audit struct {
	// Enabled turns the stream on.
	Enabled bool `yaml:"enabled" default:"true"`
	// Interval is the wait between polls.
	Interval Duration `yaml:"interval" default:"30s" above:"0"`
	// Start is where the first poll begins, as for detections.
	Start Start `yaml:"start" default:"now"`
	// PageSize is the number of entries per request.
	PageSize int `yaml:"page_size" default:"500" min:"2" max:"10000"`
	// Reconcile is the sweep for entries that became visible late. The last 300 entries, or a
	// page if that is less, are read again with every new one.
	Reconcile Reconcile `yaml:"reconcile"`
}

// RecordQuery configures a stream of records.
//
//	appliances:
//	  - name: hq
//	    url: https://sensor.example
//	    api_key_file: /run/secrets/hq
//	    records:
//	      - {name: dns, types: ["~dns"], start: -1d}
//	      - {name: errors, types: ["~http"], filter: {field: statusCode, operator: ">=", operand: 500}}
type RecordQuery struct {
	// Name identifies the query in the source of events, in metric labels and in commands:
	// 1 to 63 of a-z, 0-9 and -. It must be unique within the appliance.
	Name string `yaml:"name" required:"true" form:"name"`
	// Types are record types such as ~dns. Absent: all types.
	Types  []string     `yaml:"types" form:"item"`
	Filter RecordFilter `yaml:"filter"`
	// Interval is the wait between polls when there is nothing to read.
	Interval Duration `yaml:"interval" default:"30s" above:"0"`
	// Start is where the first poll begins, as for detections.
	Start Start `yaml:"start" default:"now"`
	// Window is the length of the time range of one search near the present.
	Window Duration `yaml:"window" default:"1m" min:"1ms"`
	// Delay is how long to wait for records that are stored late: a time range is read
	// when it is this old.
	Delay Duration `yaml:"delay" default:"30s" min:"0"`
	// PageSize is the number of records per request.
	PageSize int `yaml:"page_size" default:"1000" min:"2" max:"10000"`
	// Store is where the appliance keeps its records, which decides whether it supports
	// cursors: own is the product's record store, third_party is another one, and auto
	// detects which.
	Store string `yaml:"store" default:"auto" oneof:"auto,own,third_party"`
	// Recheck is the age at which a time range is read a second time, to find records that
	// were stored later than [RecordQuery.Delay]. It must be longer than that. 0: never.
	Recheck Duration `yaml:"recheck" default:"10m" min:"0"`
	// MaxWindowRecords is the maximum number of records in one search; a time range with
	// more is divided. At least [RecordQuery.PageSize].
	MaxWindowRecords int `yaml:"max_window_records" default:"10000"`
	// ContextTTL is how long the appliance keeps an unused cursor.
	ContextTTL Duration `yaml:"context_ttl" default:"1m" min:"1ms"`
}

func (d *Detections) check(c checks, path string) {
	for _, list := range []struct {
		path  string
		parts []string
	}{{path + ".enrich", d.Enrich}, {path + ".reconcile.report", d.Reconcile.Report}} {
		for i, part := range list.parts {
			if slices.Contains(list.parts[:i], part) {
				c.wrong(item(list.path, i), "%s is listed twice; keep one of them", part)
			}
		}
	}
	if len(d.Reconcile.Report) > 0 && d.Reconcile.Every <= 0 {
		c.wrong(path+".reconcile.report", "requires reconcile.every, which is 0: set how often to look")
	}
	for _, other := range []struct {
		name string
		d    Duration
	}{{"reconcile.back", d.Reconcile.Back}, {"overlap", d.Overlap}} {
		if d.ForgetAfter <= other.d {
			c.wrong(path+".forget_after", "is %s; it must be longer than %s, which is %s, otherwise detections are delivered twice", d.ForgetAfter, other.name, other.d)
		}
	}
	if f := d.Filter; f.Category != "" && len(f.Categories) > 0 {
		c.wrong(path+".filter.category", "is the older form of categories, which is also set; keep categories")
	}
}

func (q *RecordQuery) check(c checks, path string) {
	if q.Recheck > 0 && q.Recheck <= q.Delay {
		c.wrong(path+".recheck", "is %s; it must be longer than delay, which is %s, or 0", q.Recheck, q.Delay)
	}
	if q.MaxWindowRecords < q.PageSize {
		c.wrong(path+".max_window_records", "is %d; it must be at least %d", q.MaxWindowRecords, q.PageSize)
	}
}
