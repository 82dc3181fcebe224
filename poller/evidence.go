package poller

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"

	"ndrbridge/checkpoint"
	"ndrbridge/internal/appliance"
	"ndrbridge/internal/jsonscan"
	"ndrbridge/transform"
)

// StreamEvidence is the name of the stream of evidence.
const StreamEvidence = transform.StreamDetections + "/evidence"

const (
	maxWaiting           = 10_000             // detections; while there are as many, the journal is not read
	evidenceDelay        = time.Minute        // after the end of the window: records are stored late
	maxEvidenceWindow    = 7 * 24 * time.Hour // searches are expensive
	maxEvidenceAddresses = 100
	maxEvidenceSize      = 256 << 10 // of an event, in bytes
	maxRelatedEvidence   = 20
)

// evidenceSkips are the reasons why detections get no evidence, by the names under which they are
// counted.
var evidenceSkips = map[string]string{
	"gone":      "the appliance no longer shows it",
	"forgotten": "it is forgotten",
	"unnamed":   "none of its participants has an address or a host name",
	"untimed":   "its version has no time",
	"trimmed":   "events left the journal before they were read", // events, of which some may be detections
}

// EvidenceStore is the part of the state that Evidence uses.
type EvidenceStore interface {
	FollowUpStore
	Read(ctx context.Context, after uint64, max checkpoint.Batch) ([]checkpoint.Record, error)
	Since(ctx context.Context, t time.Time) (seq uint64, err error)
}

// EvidenceOptions configures Evidence.
type EvidenceOptions struct {
	StreamOptions
	// Matches selects the versions of detections; if it fails, the version is selected.
	Matches func(transform.Event) (bool, error)
	// Types are the types of records; none: all.
	Types []string
	// Before and After extend the window from the detection's start to its end.
	Before, After       time.Duration
	MaxRecords, PerHour int
	// Related adds the related detections.
	Related bool
	// ForgetAfter is how long detections are remembered.
	ForgetAfter time.Duration
}

// Evidence is the source of records around detections. It reads the journal like a sink, and
// remembers each detection with the first version that matches, in the commit of its position
// there. When the window has passed, it searches for records of the detection's participants, and
// commits the event together with the memory that this is done.
type Evidence struct {
	stream
	client     *appliance.Client
	state      EvidenceStore
	detections checkpoint.Source
	o          EvidenceOptions

	position evidencePosition
	written  evidencePosition
	waiting  map[int64]evidenceState
	timed    bool    // the appliance's time is known
	done     []int64 // when searches ended, in the last hour
	page     appliance.RecordPage
}

// evidencePosition is the position of Evidence: the last event of the journal that it has read.
type evidencePosition struct {
	Seq uint64 `json:"seq"`
}

// evidenceState is what is remembered of a detection. Times are in milliseconds since the epoch.
type evidenceState struct {
	ModTime int64 `json:"mod_time"`
	From    int64 `json:"from"`
	Until   int64 `json:"until"`
	Done    int64 `json:"done,omitempty"` // 0: it waits
}

// entry returns what to remember. A detection that waits is never forgotten.
func (s evidenceState) entry(id int64) checkpoint.Entry {
	at := s.ModTime
	if s.Done == 0 {
		at = 1<<63 - 1
	}
	return checkpoint.Entry{Key: strconv.FormatInt(id, 10), Value: encodePosition(s), At: at}
}

// NewEvidence returns a source that continues from the position in store, or with the next event
// of the journal.
func NewEvidence(client *appliance.Client, store EvidenceStore, o EvidenceOptions) *Evidence {
	e := &Evidence{
		stream: newStream(store, StreamEvidence, o.StreamOptions), client: client, state: store, o: o,
		detections: checkpoint.Source{Appliance: o.Appliance, Stream: transform.StreamDetections},
	}
	e.page.Bind()
	return e
}

// Poll reads the journal to its end, and searches for the records of one detection if it is time
// for that. It returns Now while more detections wait for nothing else.
func (e *Evidence) Poll(ctx context.Context) (Next, error) { return e.run(ctx, e.load, e.poll) }

func (e *Evidence) poll(ctx context.Context) (Next, error) {
	if err := e.readJournal(ctx); err != nil {
		return Idle, err
	}
	if len(e.waiting) > 0 {
		if err := e.readTime(ctx); err != nil {
			return Idle, err
		}
	}
	now := e.now()
	e.done = slices.DeleteFunc(e.done, func(at int64) bool { return at <= now-time.Hour.Milliseconds() })
	id, due := e.oldest(now)
	e.progress.caughtUp(now)
	if due > 0 {
		of := e.waiting[id]
		e.progress.reached(of.Until, max(1, now-of.Until))
		if len(e.done) < e.o.PerHour {
			if err := e.gather(ctx, id, of, now); err != nil {
				return Idle, err
			}
			due--
		}
	}
	if due > 0 && len(e.done) < e.o.PerHour {
		return Now, nil
	}
	return Idle, nil
}

// readTime makes a request unless the appliance's time is known: before that, it may be that of a
// single answer with a wrong Date.
func (e *Evidence) readTime(ctx context.Context) error {
	if e.timed {
		return nil
	}
	defer e.page.Release()
	if err := e.client.SearchDetections(ctx, appliance.Search{ModTime: e.o.Now().UnixMilli(), Limit: 1}, &e.page.Page); err != nil {
		return fmt.Errorf("read the appliance's time: %w", err)
	}
	e.timed = true
	return nil
}

// now returns the appliance's time if it is known, otherwise the local one.
func (e *Evidence) now() int64 {
	now := e.o.Now()
	if e.timed {
		ahead, _ := e.client.ClockSkew()
		now = now.Add(ahead)
	}
	return now.UnixMilli()
}

// oldest returns the detection that waits longest of those whose window has passed, and how many
// these are.
func (e *Evidence) oldest(now int64) (oldest int64, due int) {
	for id, s := range e.waiting {
		if s.Until+evidenceDelay.Milliseconds() > now {
			continue
		}
		if last := e.waiting[oldest]; due == 0 || cmp.Or(cmp.Compare(s.Until, last.Until), cmp.Compare(id, oldest)) < 0 {
			oldest = id
		}
		due++
	}
	return oldest, due
}

// load takes over the committed position, and what is remembered.
func (e *Evidence) load(ctx context.Context) (err error) {
	e.waiting, e.done = make(map[int64]evidenceState), nil
	if e.committed == nil {
		next, err := e.state.Since(ctx, time.Date(9999, 1, 1, 0, 0, 0, 0, time.UTC))
		if err != nil {
			return fmt.Errorf("read the end of the journal: %w", err)
		}
		return e.commit(ctx, evidencePosition{next - 1}, checkpoint.Commit{})
	}
	err = eachRemembered(ctx, e.state, e.source, func(entries []checkpoint.Entry) error {
		for _, entry := range entries {
			s, err := parsePosition[evidenceState](entry.Value)
			if err != nil {
				return err
			}
			if id, err := strconv.ParseInt(entry.Key, 10, 64); err == nil && s.Done == 0 {
				e.waiting[id] = s
			}
			if s.Done > 0 {
				e.done = append(e.done, s.Done)
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	e.position, err = parsePosition[evidencePosition](e.committed)
	e.written = e.position
	return err
}

func (e *Evidence) commit(ctx context.Context, p evidencePosition, c checkpoint.Commit) error {
	var err error
	if c.ForgetBefore, err = forgottenBefore(ctx, e.store, e.detections, e.o.ForgetAfter); err != nil {
		return err
	}
	if err := e.write(ctx, c, encodePosition(p)); err != nil {
		return err
	}
	e.position, e.written = p, p
	return nil
}

// readJournal lets the detections wait whose versions match, up to the end of the journal.
func (e *Evidence) readJournal(ctx context.Context) error {
	const lazy = 1000 // events without a match are read again after a crash
	for len(e.waiting) < maxWaiting {
		records, err := e.state.Read(ctx, e.position.Seq, checkpoint.Batch{MaxEvents: 500, MaxBytes: 1 << 20})
		if err != nil || len(records) == 0 {
			return err
		}
		if missed := records[0].Seq - e.position.Seq - 1; missed > 0 {
			e.o.Log.Warn("events left the journal before their detections could get evidence", "events", missed)
			e.skipped("trimmed", int(missed))
		}
		found := make(map[int64]evidenceState)
		var keys []string
		for _, r := range records {
			id, err := strconv.ParseInt(r.Event.Subject, 10, 64)
			isVersion := r.Event.Appliance == e.o.Appliance && r.Event.Stream() == transform.StreamDetections && !r.Event.IsFollowUp()
			if _, seen := found[id]; err != nil || !isVersion || seen {
				continue
			}
			matches, err := e.o.Matches(r.Event)
			if err != nil {
				e.o.Log.Debug("evidence.match fails for a version, which is selected", "error", err)
			}
			if !matches {
				continue
			}
			if err := e.readTime(ctx); err != nil {
				return err
			}
			if s, ok := e.windowOf(r.Event.Data()); ok {
				found[id] = s
				keys = append(keys, strconv.FormatInt(id, 10))
			} else {
				e.skip(id, "untimed")
			}
		}
		values, err := e.store.Recall(ctx, e.source, keys)
		if err != nil {
			return fmt.Errorf("recall which detections have evidence: %w", err)
		}
		p, c := evidencePosition{records[len(records)-1].Seq}, checkpoint.Commit{}
		for i, key := range keys {
			id, _ := strconv.ParseInt(key, 10, 64)
			s := found[id]
			if values[i] != nil { // it has some, and is remembered for as long as the detection
				old, err := parsePosition[evidenceState](values[i])
				if err != nil {
					return err
				}
				delete(found, id)
				if old.Done == 0 || old.ModTime >= s.ModTime {
					continue
				}
				old.ModTime = s.ModTime
				s = old
			}
			c.Remember = append(c.Remember, s.entry(id))
		}
		if len(c.Remember) > 0 || p.Seq-e.written.Seq >= lazy {
			if err := e.commit(ctx, p, c); err != nil {
				return err
			}
		}
		e.position = p
		for id, s := range found {
			e.waiting[id] = s
		}
	}
	return nil
}

// windowOf returns what to remember of a version; ok is false if it has no times.
func (e *Evidence) windowOf(data []byte) (s evidenceState, ok bool) {
	var modTime, updated, ended, started int64
	for name, value := range jsonscan.Members(jsonscan.At(data, "detection")) {
		switch string(name) {
		case "mod_time":
			modTime, _ = jsonscan.Millis(value)
		case "update_time":
			updated, _ = jsonscan.Millis(value)
		case "end_time":
			ended, _ = jsonscan.Millis(value)
		case "start_time":
			started, _ = jsonscan.Millis(value)
		}
	}
	// None of the other times is later, or it would be waited for.
	end := min(cmp.Or(ended, updated, modTime), modTime, e.now())
	start := min(cmp.Or(started, end), end)
	s = evidenceState{ModTime: modTime, From: start - e.o.Before.Milliseconds(), Until: end + e.o.After.Milliseconds()}
	s.From = max(1, s.From, s.Until-maxEvidenceWindow.Milliseconds())
	return s, end > 0 && s.From < s.Until
}

// evidence is what an event says about the records.
type evidence struct {
	From      int64             `json:"from"`
	Until     int64             `json:"until"`
	Total     *int64            `json:"total,omitempty"` // that the record store reports
	Truncated bool              `json:"truncated"`
	Dropped   int               `json:"dropped,omitzero"` // that were outside the window, or of others
	Records   []json.RawMessage `json:"records"`
}

// relatedDetection is what an event says about a related detection.
type relatedDetection struct {
	ID        int64           `json:"id"`
	Title     string          `json:"title,omitempty"`
	Type      string          `json:"type,omitempty"`
	RiskScore json.RawMessage `json:"risk_score,omitempty"`
}

// skip reports that a detection gets no evidence, for one of evidenceSkips.
func (e *Evidence) skip(id int64, reason string) {
	e.o.Log.Info("a detection gets no evidence", "detection", id, "because", evidenceSkips[reason])
	e.skipped(reason, 1)
}

func (e *Evidence) skipped(reason string, n int) {
	e.metrics.skipped.WithLabelValues(e.source.Appliance, e.source.Stream, reason).Add(float64(n))
}

// gather commits the evidence of a detection.
func (e *Evidence) gather(ctx context.Context, id int64, s evidenceState, now int64) error {
	event, skipped, err := e.evidence(ctx, id, s)
	var c checkpoint.Commit
	key := strconv.FormatInt(id, 10)
	if err != nil {
		if !e.onlyThat(ctx, key, fmt.Sprintf("the evidence of detection %d", id), err, func() error {
			return e.client.SearchRecords(ctx, appliance.RecordSearch{From: 1, Until: 2, Types: e.o.Types, Limit: 1}, &e.page)
		}) {
			return err
		}
		c.Dead = []checkpoint.DeadLetter{deadLetter(key+"-evidence", err, nil, e.o.Now())}
	}
	delete(e.objects, key)
	if event != nil {
		c.Events = []transform.Event{*event}
	}
	s.Done = now
	c.Remember = []checkpoint.Entry{s.entry(id)}
	if err := e.commit(ctx, e.position, c); err != nil {
		return err
	}
	if skipped != "" {
		e.skip(id, skipped)
	}
	delete(e.waiting, id)
	e.done = append(e.done, now)
	return nil
}

// evidence returns the event of a detection, or for which of evidenceSkips there is none.
func (e *Evidence) evidence(ctx context.Context, id int64, s evidenceState) (event *transform.Event, skipped string, err error) {
	defer e.page.Release()
	// The searches use the same page: a request that waits for memory must not hold any.
	err = e.client.Detection(ctx, id, &e.page.Page)
	if failed, ok := errors.AsType[*appliance.Error](err); ok && failed.Status == 404 {
		return nil, "gone", nil
	}
	if err != nil {
		return nil, "", err
	}
	values, err := e.store.Recall(ctx, e.detections, []string{strconv.FormatInt(id, 10)})
	switch {
	case err != nil:
		return nil, "", fmt.Errorf("recall detection %d: %w", id, err)
	case values[0] == nil:
		return nil, "forgotten", nil
	}
	last, err := parseKnown(values[0])
	if err != nil {
		return nil, "", err
	}
	of, err := e.namesOf(ctx, id, e.page.Objects[0].Raw)
	if err != nil {
		return nil, "", err
	}
	if len(of.addresses)+len(of.hosts) == 0 {
		return nil, "unnamed", nil
	}
	f := transform.FollowUp{
		Kind: "evidence", Key: strconv.FormatInt(s.ModTime, 10), Name: "evidence",
		Detection: transform.Remembered(id, last.modTime, last.created, last.tracked), Recorded: e.o.Now(),
	}
	capacity := maxEvidenceSize - len(last.tracked) - 4<<10
	if e.o.Related {
		related, err := e.related(ctx, id, s)
		if err != nil {
			return nil, "", err
		}
		if related != nil {
			f.Related = related
			capacity -= len(encodePosition(related))
		}
	}
	found, err := e.search(ctx, s, of, capacity)
	if err != nil {
		return nil, "", err
	}
	if found.Dropped > 0 {
		e.o.Log.Warn("the record store returned records that were not asked for, which are dropped", "detection", id, "records", found.Dropped)
	}
	f.Value, f.At = found, e.page.Date
	made, err := e.events.FollowUp(f)
	return &made, "", err
}

// names are how records name the participants of a detection.
type names struct {
	addresses map[netip.Addr]bool
	hosts     map[string]bool // in lower case; empty if there are addresses
}

// namesOf returns the names of the participants. A device without an address has those that the
// appliance knows of it now.
func (e *Evidence) namesOf(ctx context.Context, id int64, detection []byte) (names, error) {
	of := names{addresses: make(map[netip.Addr]bool), hosts: make(map[string]bool)}
	add := func(value []byte) (added bool) {
		for a := range addressesIn(value) {
			if len(of.addresses) < maxEvidenceAddresses {
				of.addresses[a], added = true, true
			}
		}
		return added
	}
	var devices []int64
	for participant := range jsonscan.Elements(jsonscan.At(detection, "participants")) {
		if add(jsonscan.At(participant, "object_value")) {
			continue
		}
		host := strings.ToLower(transform.Text(jsonscan.At(participant, "hostname")))
		if host != "" && len(host) <= maxName && len(of.hosts) < maxEvidenceAddresses {
			of.hosts[host] = true
		}
		device, err := jsonscan.Integer(jsonscan.At(participant, "object_id"))
		if err == nil && transform.Text(jsonscan.At(participant, "object_type")) == "device" && len(devices) < maxEvidenceAddresses {
			devices = append(devices, device)
		}
	}
	if len(devices) > 0 {
		var page appliance.Page
		defer page.Release()
		err := e.client.SearchDevices(ctx, devices, &page)
		if failed, ok := errors.AsType[*appliance.Error](err); ok && (isRefusal(failed) || errors.Is(err, appliance.ErrTooLarge)) {
			e.o.Log.Warn("the addresses of devices cannot be read; the evidence is searched without them", "detection", id, "error", err)
		} else if err != nil {
			return of, err
		}
		for _, device := range page.Objects {
			add(jsonscan.At(device.Raw, "ipaddr4"))
			add(jsonscan.At(device.Raw, "ipaddr6"))
		}
	}
	if len(of.addresses) > 0 {
		clear(of.hosts) // to search for a host name takes long
	}
	return of, nil
}

// search searches for the records with one of the names in the window of s. Each record is checked:
// the record store may ignore a filter. All of them have at most capacity bytes.
func (e *Evidence) search(ctx context.Context, s evidenceState, of names, capacity int) (found evidence, err error) {
	type rule struct {
		Field    string `json:"field,omitempty"`
		Operator string `json:"operator"`
		Operand  any    `json:"operand,omitempty"`
		Rules    []rule `json:"rules,omitempty"`
	}
	any := rule{Operator: "or"}
	for address := range of.addresses {
		any.Rules = append(any.Rules, rule{Field: ".ipaddr", Operator: "=", Operand: address.String()})
	}
	for host := range of.hosts {
		any.Rules = append(any.Rules, rule{Field: ".any", Operator: "=", Operand: host})
	}
	slices.SortFunc(any.Rules, func(a, b rule) int { return cmp.Compare(a.Operand.(string), b.Operand.(string)) })
	r := appliance.RecordSearch{From: s.From, Until: s.Until, Types: e.o.Types, Filter: encodePosition(any), Limit: e.o.MaxRecords}
	for {
		err := e.client.SearchRecords(ctx, r, &e.page)
		if err == nil {
			break
		}
		if !errors.Is(err, appliance.ErrTooLarge) || r.Limit <= 1 {
			return found, err
		}
		r.Limit /= 2
	}
	found = evidence{From: s.From, Until: s.Until, Truncated: e.page.TerminatedEarly, Records: []json.RawMessage{}}
	if rows := int64(len(e.page.Objects)); e.page.Total >= 0 {
		found.Total = new(e.page.Total)
		found.Truncated = found.Truncated || e.page.Total > rows
	} else {
		found.Truncated = found.Truncated || rows >= int64(r.Limit)
	}
	for _, o := range e.page.Objects {
		at := transform.ParseRecord(o.Raw, o.Repaired).Time
		switch {
		case at < s.From || at > s.Until || !of.in(o.Raw):
			found.Dropped++
		case len(o.Raw)+1 > capacity:
			found.Truncated = true
		default:
			capacity -= len(o.Raw) + 1
			found.Records = append(found.Records, o.Raw)
		}
	}
	return found, nil
}

// related returns the related detections; none if the appliance does not show them.
func (e *Evidence) related(ctx context.Context, id int64, s evidenceState) ([]relatedDetection, error) {
	var page appliance.Page
	err := e.client.RelatedDetections(ctx, id, s.From, s.Until, &page)
	if failed, ok := errors.AsType[*appliance.Error](err); ok && (isRefusal(failed) || errors.Is(err, appliance.ErrTooLarge)) {
		e.o.Log.Warn("the related detections cannot be read; the evidence is sent without them", "detection", id, "error", err)
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	all := []relatedDetection{}
	for _, o := range page.Objects {
		var d relatedDetection
		d.ID, err = jsonscan.Integer(jsonscan.At(o.Raw, "id"))
		if err != nil || d.ID == id || len(all) == maxRelatedEvidence {
			continue
		}
		d.Title, d.Type = bounded(transform.Text(jsonscan.At(o.Raw, "title"))), bounded(transform.Text(jsonscan.At(o.Raw, "type")))
		if score := jsonscan.Number(jsonscan.At(o.Raw, "risk_score")); len(score) <= 20 {
			d.RiskScore = slices.Clone(score)
		}
		all = append(all, d)
	}
	return all, nil
}

// in reports whether a record has one of the names: an address in a field whose name ends in addr, or
// whose value has a type that begins with ipaddr; a host name in any field.
func (n names) in(record []byte) bool {
	for name, value := range jsonscan.Members(jsonscan.At(record, "_source")) {
		isAddress := strings.HasSuffix(strings.ToLower(string(name)), "addr") ||
			strings.HasPrefix(transform.Text(jsonscan.At(value, "type")), "ipaddr")
		if len(value) > 0 && value[0] == '{' {
			value = jsonscan.At(value, "value")
		}
		if isAddress {
			for a := range addressesIn(value) {
				if n.addresses[a] {
					return true
				}
			}
		}
		if len(n.hosts) == 0 {
			continue
		}
		for text := range textsIn(value) {
			if n.hosts[strings.ToLower(text)] {
				return true
			}
		}
	}
	return false
}

// textsIn yields the text in a JSON value, or those in an array.
func textsIn(value []byte) iter.Seq[string] {
	return func(yield func(string) bool) {
		if len(value) > 0 && value[0] != '[' {
			yield(transform.Text(value))
			return
		}
		for element := range jsonscan.Elements(value) {
			if !yield(transform.Text(element)) {
				return
			}
		}
	}
}

// addressesIn yields the addresses in a JSON value.
func addressesIn(value []byte) iter.Seq[netip.Addr] {
	return func(yield func(netip.Addr) bool) {
		for text := range textsIn(value) {
			if a, err := netip.ParseAddr(text); err == nil && !yield(a.Unmap().WithZone("")) {
				return
			}
		}
	}
}
