package poller

import (
	"cmp"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"ndrbridge/checkpoint"
	"ndrbridge/internal/appliance"
	"ndrbridge/transform"
)

// StreamContext is the name of the stream of detections' context.
const StreamContext = transform.StreamDetections + "/context"

// ContextOptions configures Contexts.
type ContextOptions struct {
	StreamOptions
	// Tags, Groups and Software are what is read of devices apart from their own fields.
	Tags, Groups, Software bool
	// Every is how often the members of tags and groups are read, and how old a device may be
	// before it is read again.
	Every time.Duration
	// Wait is how long the decision of a match that needs the context waits for it; 0: the
	// decision is made with what is known.
	Wait time.Duration
	// ForgetAfter is how long a device that no detection needs is remembered.
	ForgetAfter time.Duration
}

const (
	// maxContextDevices bounds the devices in a context, and the devices that are requested at
	// once.
	maxContextDevices = 100
	// maxContexts bounds the devices that are known in memory.
	maxContexts = 100_000
	// maxSets bounds the sets of a kind whose members are read, maxNames the sets of a device
	// that are shown, and maxName the length of each name, in bytes.
	maxSets, maxNames, maxName = 1000, 50, 256
	// contextPrefix begins the keys under which is remembered of which version the context was
	// delivered. Earlier, the detections source remembered contextMarks under such keys, too.
	contextPrefix = "?"
)

// ContextDevice is a device in a context.
type ContextDevice struct {
	ID          int64    `json:"id"`
	Name        string   `json:"name,omitempty"`
	Role        string   `json:"role,omitempty"`
	Address     string   `json:"ipaddr,omitempty"`
	Critical    bool     `json:"critical"`
	OnWatchlist bool     `json:"on_watchlist"`
	Tags        []string `json:"tags,omitempty"`
	Groups      []string `json:"groups,omitempty"`
	Software    []string `json:"software,omitempty"`
	// Read is when the device was read. The members of tags and groups were read at most
	// ContextOptions.Every earlier.
	Read time.Time `json:"read"`
	// Missing means that the appliance has no such device. It is not shown.
	Missing bool `json:"missing,omitempty"`
}

// contextMark is what is remembered of a version without its whole context.
type contextMark struct {
	devices []int64 // at least one
	since   int64   // when the wait for it began, in milliseconds since the epoch; 0: nothing waits
	known   int64   // digestOf the context that it has
}

func (m contextMark) encode() []byte {
	b := make([]byte, 0, (2+len(m.devices))*binary.MaxVarintLen64)
	b = binary.AppendVarint(binary.AppendVarint(b, m.since), m.known)
	for _, id := range m.devices {
		b = binary.AppendVarint(b, id)
	}
	return b
}

func parseContextMark(b []byte) (m contextMark, err error) {
	var ns []int64
	for len(b) > 0 {
		n, size := binary.Varint(b)
		if size <= 0 {
			break
		}
		ns, b = append(ns, n), b[size:]
	}
	if len(b) > 0 || len(ns) < 3 {
		return m, fmt.Errorf("what a version lacks of its context cannot be read: %d numbers before %x", len(ns), b)
	}
	return contextMark{since: ns[0], known: ns[1], devices: ns[2:]}, nil
}

// pendingContext is a version without its whole context.
type pendingContext struct {
	version
	contextMark
}

// key distinguishes the version from others of its detection.
func (v version) key() string {
	key := strconv.FormatInt(v.ModTime, 10)
	if v.Events > 1 {
		key += "-" + strconv.Itoa(v.Events)
	}
	return key
}

// Contexts is the source of the contexts of detections: what the appliance knows about their
// devices. Versions have what is known already, and never wait. For each version that lacks
// some of it, or has it from too long ago, an event follows with what is known then, if the
// version is still the last one and that is something else. With ContextOptions.Wait the event
// follows in any case, at once after that time. What a version lacks is remembered with it, in the
// commit that delivers it, so that none is forgotten.
type Contexts struct {
	stream
	memory   FollowUpStore
	client   *appliance.Client
	o        ContextOptions
	versions checkpoint.Source // of the detections

	position contextPosition
	kinds    []*setKind
	pending  map[int64]pendingContext

	mu      sync.Mutex
	devices map[int64]ContextDevice
	queue   []int64 // detections that may lack some of their context
	refused bool    // the appliance refuses to show devices
}

// contextPosition is when sets were last read, by the bridge's clock.
type contextPosition struct {
	Sets time.Time `json:"sets"`
}

// setKind is a kind of sets, with the names of those of each device.
type setKind struct {
	kind  appliance.Members
	names map[int64][]string
	set   func(d *ContextDevice, names []string)
	off   time.Time // until when the kind is not read, since the appliance refuses it
}

// NewContexts returns Contexts that know nothing.
func NewContexts(client *appliance.Client, store FollowUpStore, o ContextOptions) *Contexts {
	c := &Contexts{
		stream: newStream(store, StreamContext, o.StreamOptions), memory: store, client: client, o: o,
		versions: checkpoint.Source{Appliance: o.Appliance, Stream: transform.StreamDetections},
		pending:  make(map[int64]pendingContext), devices: make(map[int64]ContextDevice),
	}
	if o.Tags {
		c.kinds = append(c.kinds, &setKind{kind: appliance.Tags, set: func(d *ContextDevice, names []string) { d.Tags = names }})
	}
	if o.Groups {
		c.kinds = append(c.kinds, &setKind{kind: appliance.DeviceGroups, set: func(d *ContextDevice, names []string) { d.Groups = names }})
	}
	return c
}

// of returns what is known of the devices of a detection that becomes an event, nil if it has none,
// and what to remember, nil if that is its whole context. It is safe for concurrent use.
func (c *Contexts) of(d transform.Detection) (context, mark []byte) {
	ids, _ := d.Devices(maxContextDevices)
	if len(ids) == 0 {
		return nil, nil
	}
	now := c.o.Now()
	c.mu.Lock()
	defer c.mu.Unlock()
	known := c.known(ids)
	if c.whole(ids, now) {
		return encodeContext(known, false), nil
	}
	lacks := contextMark{devices: ids, known: digestOf(known)}
	pending := c.o.Wait > 0 && !c.refused
	if pending {
		lacks.since = now.UnixMilli()
	}
	return encodeContext(known, pending), lacks.encode()
}

// marked reports that versions of these detections were committed that lack some of their context.
// It is safe for concurrent use.
func (c *Contexts) marked(detections []int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.queue = append(c.queue, detections...)
}

// whole reports whether all devices with some ids are known, and none is too old. c.mu must be
// held.
func (c *Contexts) whole(ids []int64, now time.Time) bool {
	return !slices.ContainsFunc(ids, func(id int64) bool {
		d, found := c.devices[id]
		return !found || now.Sub(d.Read) >= c.o.Every
	})
}

// known returns the known devices with some ids. c.mu must be held.
func (c *Contexts) known(ids []int64) (known []ContextDevice) {
	for _, id := range ids {
		if d, found := c.devices[id]; found && !d.Missing {
			known = append(known, d)
		}
	}
	return known
}

// digestOf identifies what is known of devices, whenever it was read; 0: nothing.
func digestOf(known []ContextDevice) int64 {
	if len(known) == 0 {
		return 0
	}
	undated := slices.Clone(known)
	for i := range undated {
		undated[i].Read = time.Time{}
	}
	return digest(encodeContext(undated, false))
}

// contextKey is the key under which is remembered that the context of a detection was delivered.
func contextKey(id int64) string { return contextPrefix + strconv.FormatInt(id, 10) }

// encodeContext encodes a context. pending means that an event follows with the rest, with which
// those decide that need the context.
func encodeContext(known []ContextDevice, pending bool) []byte {
	if len(known) == 0 && !pending { // as in a drain
		return []byte(`{"devices":[]}`)
	}
	if known == nil {
		known = []ContextDevice{}
	}
	b, err := json.Marshal(struct {
		Devices []ContextDevice `json:"devices"`
		Pending bool            `json:"pending,omitempty"`
	}{known, pending})
	if err != nil {
		panic(err) // texts, numbers and times
	}
	return b
}

// Poll reads sets that are due, and the devices that marked versions need. It returns Now while
// there are more.
func (c *Contexts) Poll(ctx context.Context) (Next, error) { return c.run(ctx, c.load, c.poll) }

func (c *Contexts) poll(ctx context.Context) (Next, error) {
	if err := c.readMarks(ctx); err != nil {
		return Idle, err
	}
	now := c.o.Now()
	var entries []checkpoint.Entry
	failed := c.readSets(ctx, now)
	if !slices.ContainsFunc(c.kinds, func(k *setKind) bool { return k.names == nil }) {
		var err error
		entries, err = c.readDevices(ctx, now)
		failed = cmp.Or(err, failed)
		e, _ := errors.AsType[*appliance.Error](err)
		c.mu.Lock()
		c.refused = e != nil && isRefusal(e)
		c.mu.Unlock()
	}
	delivered, err := c.deliver(ctx, now, entries)
	if err != nil {
		return Idle, err
	}
	c.progress.caughtUp(now.UnixMilli())
	c.mu.Lock()
	more := len(c.queue) > 0 && len(c.pending) < contextChunk
	c.mu.Unlock()
	if failed != nil || !more && len(entries) == 0 && delivered < contextChunk {
		return Idle, failed
	}
	return Now, nil
}

// contextChunk is how many versions may be pending before no more marks are read, and how many are
// delivered at a time.
const contextChunk = 1000

// load reads what the store remembers: devices, and the marks of versions without an event.
func (c *Contexts) load(ctx context.Context) error {
	c.position = contextPosition{}
	clear(c.pending)
	if c.committed != nil {
		var err error
		if c.position, err = parsePosition[contextPosition](c.committed); err != nil {
			return err
		}
	}
	err := eachRemembered(ctx, c.memory, c.source, func(entries []checkpoint.Entry) error {
		c.mu.Lock()
		defer c.mu.Unlock()
		for _, e := range entries {
			id, err := strconv.ParseInt(e.Key, 10, 64)
			if err != nil {
				continue // of a version whose event was delivered
			}
			var d ContextDevice
			if err := json.Unmarshal(e.Value, &d); err != nil {
				return fmt.Errorf("read the remembered device %d: %w", id, err)
			}
			c.put(d)
		}
		return nil
	})
	if err != nil {
		return err
	}
	var ids []int64
	err = eachRemembered(ctx, c.memory, c.versions, func(entries []checkpoint.Entry) error {
		for _, e := range entries {
			key, earlier := strings.CutPrefix(e.Key, contextPrefix)
			id, err := strconv.ParseInt(key, 10, 64)
			if err != nil {
				continue // it has no position: no version of it was delivered
			}
			if !earlier {
				k, err := parseKnown(e.Value)
				if err != nil {
					return err
				}
				if k.context == nil {
					continue
				}
			}
			ids = append(ids, id)
		}
		return nil
	})
	c.mu.Lock()
	c.queue = append(c.queue, ids...)
	c.mu.Unlock()
	return err
}

// put adds a device. c.mu must be held.
func (c *Contexts) put(d ContextDevice) {
	if _, known := c.devices[d.ID]; !known && len(c.devices) >= maxContexts {
		for id := range c.devices { // any one: it is read again when it is needed
			delete(c.devices, id)
			break
		}
	}
	c.devices[d.ID] = d
}

// readMarks reads what the detections at the beginning of the queue lack, unless it was delivered.
func (c *Contexts) readMarks(ctx context.Context) error {
	if len(c.pending) >= contextChunk {
		return nil
	}
	c.mu.Lock()
	queue := c.queue[:min(len(c.queue), contextChunk)]
	c.mu.Unlock()
	versions, keys := make([]string, len(queue)), make([]string, len(queue))
	for i, id := range queue {
		versions[i], keys[i] = strconv.FormatInt(id, 10), contextKey(id)
	}
	values, err := c.store.Recall(ctx, c.versions, versions)
	if err != nil {
		return fmt.Errorf("recall which detections lack a context: %w", err)
	}
	done, err := c.store.Recall(ctx, c.source, keys)
	if err != nil {
		return fmt.Errorf("recall which contexts were delivered: %w", err)
	}
	for i, id := range queue {
		if values[i] == nil {
			continue // forgotten meanwhile
		}
		k, err := parseKnown(values[i])
		if err != nil {
			return err
		}
		if string(done[i]) == k.version().key() {
			continue
		}
		var mark contextMark
		if k.context != nil {
			mark, err = parseContextMark(k.context)
		} else {
			mark, err = c.earlierMark(ctx, id, k.version())
		}
		if err != nil {
			return fmt.Errorf("detection %d: %w", id, err)
		}
		if len(mark.devices) > 0 {
			c.pending[id] = pendingContext{k.version(), mark}
		}
	}
	c.mu.Lock()
	c.queue = c.queue[len(queue):]
	c.mu.Unlock()
	return nil
}

// earlierMark returns what an earlier release remembered that a version of a detection lacks.
func (c *Contexts) earlierMark(ctx context.Context, id int64, of version) (m contextMark, err error) {
	values, err := c.store.Recall(ctx, c.versions, []string{contextKey(id)})
	if err != nil || values[0] == nil {
		return m, err
	}
	mark, err := parsePosition[struct {
		version
		Devices []int64   `json:"devices"`
		Since   time.Time `json:"since"`
		Known   string    `json:"known"`
	}](values[0])
	if err != nil || mark.version != of {
		return m, err
	}
	m = contextMark{devices: mark.Devices, since: mark.Since.UnixMilli()}
	known, err := strconv.ParseUint(mark.Known, 16, 64)
	if m.known = int64(known | 1<<63); m.known == digest(encodeContext(nil, false)) {
		m.known = 0
	}
	return m, err
}

// readSets reads the members of the sets, if that is due. It returns the error of a refusal of
// all that is read, or of the appliance's failure.
func (c *Contexts) readSets(ctx context.Context, now time.Time) error {
	if now.Sub(c.position.Sets) < c.o.Every && !slices.ContainsFunc(c.kinds, func(k *setKind) bool { return k.names == nil }) {
		return nil
	}
	for _, k := range c.kinds {
		if now.Before(k.off) {
			continue
		}
		names, err := c.membersOf(ctx, k.kind)
		e, _ := errors.AsType[*appliance.Error](err)
		switch {
		case e != nil && isRefusal(e):
			k.off, k.names = now.Add(offFor), map[int64][]string{}
			c.log.Warn("the appliance refuses a part of the context, which is off until it is asked again; the rest goes on",
				"part", strings.TrimPrefix(string(k.kind), "/"), "again_in", offFor, "error", err)
		case err != nil:
			return err
		default:
			k.names = names
		}
	}
	c.position.Sets = now
	c.mu.Lock()
	defer c.mu.Unlock()
	for id, d := range c.devices {
		c.devices[id] = c.inSets(d)
	}
	return nil
}

// inSets returns a device with the names of its sets.
func (c *Contexts) inSets(d ContextDevice) ContextDevice {
	for _, k := range c.kinds {
		k.set(&d, k.names[d.ID])
	}
	return d
}

// membersOf returns the names of the sets of a kind, for each device in one.
func (c *Contexts) membersOf(ctx context.Context, kind appliance.Members) (map[int64][]string, error) {
	var page appliance.Page
	if err := c.client.Sets(ctx, kind, &page); err != nil {
		return nil, err
	}
	type set struct {
		ID   int64
		Name string
	}
	var sets []set
	for _, o := range page.Objects[:min(len(page.Objects), maxSets)] {
		var s set
		if err := json.Unmarshal(o.Raw, &s); err == nil && s.Name != "" {
			sets = append(sets, s)
		}
	}
	slices.SortFunc(sets, func(a, b set) int { return cmp.Compare(a.Name, b.Name) })
	names := make(map[int64][]string)
	for _, s := range sets {
		err := c.client.DevicesIn(ctx, kind, s.ID, &page)
		if e, ok := errors.AsType[*appliance.Error](err); ok && (e.Status == http.StatusNotFound || errors.Is(err, appliance.ErrTooLarge)) {
			c.log.Warn("the devices of a set are not known", "set", s.Name, "error", err) // it was deleted, or has too many
			continue
		}
		if err != nil {
			return nil, err
		}
		for _, o := range page.Objects {
			var d struct{ ID int64 }
			if err := json.Unmarshal(o.Raw, &d); err == nil && len(names[d.ID]) < maxNames && len(names) < maxContexts {
				names[d.ID] = append(names[d.ID], bounded(s.Name))
			}
		}
	}
	return names, nil
}

// bounded returns at most maxName bytes of a text.
func bounded(text string) string {
	return strings.ToValidUTF8(text[:min(len(text), maxName)], "")
}

// readDevices reads the next of the devices that pending versions need, and returns what to
// remember.
func (c *Contexts) readDevices(ctx context.Context, now time.Time) ([]checkpoint.Entry, error) {
	var ids []int64
	c.mu.Lock()
	for _, mark := range c.pending {
		for _, id := range mark.devices {
			d, found := c.devices[id]
			if (!found || now.Sub(d.Read) >= c.o.Every) && !slices.Contains(ids, id) && len(ids) < maxContextDevices {
				ids = append(ids, id)
			}
		}
	}
	c.mu.Unlock()
	if len(ids) == 0 {
		return nil, nil
	}
	var page appliance.Page
	if err := c.client.SearchDevices(ctx, ids, &page); err != nil {
		return nil, err
	}
	read := make(map[int64]ContextDevice)
	for _, id := range ids {
		read[id] = ContextDevice{ID: id, Read: now, Missing: true}
	}
	for _, o := range page.Objects {
		var from struct {
			ID                int64
			Name              string `json:"display_name"`
			Role              string
			Address           string `json:"ipaddr4"`
			Critical          bool
			CustomCriticality string `json:"custom_criticality"`
			OnWatchlist       bool   `json:"on_watchlist"`
		}
		if err := json.Unmarshal(o.Raw, &from); err != nil {
			continue
		}
		if _, asked := read[from.ID]; asked {
			read[from.ID] = ContextDevice{
				ID: from.ID, Name: bounded(from.Name), Role: bounded(from.Role), Address: bounded(from.Address),
				Critical: from.Critical || from.CustomCriticality == "critical", OnWatchlist: from.OnWatchlist, Read: now,
			}
		}
	}
	var entries []checkpoint.Entry
	for _, id := range ids {
		d := c.inSets(read[id])
		if c.o.Software && !d.Missing {
			var err error
			if d.Software, err = c.software(ctx, id); err != nil {
				return nil, err
			}
		}
		c.mu.Lock()
		c.put(d)
		c.mu.Unlock()
		entries = append(entries, checkpoint.Entry{Key: strconv.FormatInt(id, 10), Value: encodePosition(d), At: now.UnixMilli()})
	}
	return entries, nil
}

// software returns the names and versions of a device's software; none if the appliance has none.
func (c *Contexts) software(ctx context.Context, id int64) (names []string, err error) {
	var page appliance.Page
	err = c.client.DeviceSoftware(ctx, id, &page)
	if e, ok := errors.AsType[*appliance.Error](err); ok && e.Status == http.StatusNotFound {
		return nil, nil
	}
	for _, o := range page.Objects {
		var s struct{ Name, Version string }
		if err := json.Unmarshal(o.Raw, &s); err == nil && s.Name != "" && len(names) < maxNames {
			names = append(names, bounded(strings.TrimSpace(s.Name+" "+s.Version)))
		}
	}
	return names, err
}

// deliver commits what was read, and the events of pending versions whose context is known, or
// whose wait is over. It returns how many are pending no more.
func (c *Contexts) deliver(ctx context.Context, now time.Time, entries []checkpoint.Entry) (delivered int, err error) {
	ready := make(map[int64][]ContextDevice)
	c.mu.Lock()
	for id, mark := range c.pending {
		over := c.o.Wait > 0 && (c.refused || now.UnixMilli()-mark.since >= c.o.Wait.Milliseconds())
		if len(ready) < contextChunk && (over || c.whole(mark.devices, now)) {
			ready[id] = c.known(mark.devices)
		}
	}
	c.mu.Unlock()
	ids := slices.Sorted(maps.Keys(ready))
	keys := make([]string, len(ids))
	for i, id := range ids {
		keys[i] = strconv.FormatInt(id, 10)
	}
	values, err := c.store.Recall(ctx, c.versions, keys)
	if err != nil {
		return 0, fmt.Errorf("recall the detections whose context is known: %w", err)
	}
	commit := checkpoint.Commit{Remember: entries, ForgetBefore: max(0, now.Add(-c.o.ForgetAfter).UnixMilli())}
	for i, id := range ids {
		mark := c.pending[id]
		commit.Remember = append(commit.Remember, checkpoint.Entry{
			Key: contextKey(id), Value: []byte(mark.key()), At: now.UnixMilli(),
		})
		if values[i] == nil || c.o.Wait == 0 && digestOf(ready[id]) == mark.known {
			continue // forgotten meanwhile, or nothing that the version does not have
		}
		last, err := parseKnown(values[i])
		if err != nil {
			return 0, err
		}
		if last.version() != mark.version {
			continue // a later version has its own context
		}
		event, err := c.events.FollowUp(transform.FollowUp{
			Kind: "context", Key: mark.key(), At: now, Recorded: now,
			Detection: transform.Remembered(id, last.modTime, last.created, last.tracked),
			Name:      "context", Value: json.RawMessage(encodeContext(ready[id], false)),
		})
		if err != nil {
			return 0, err
		}
		commit.Events = append(commit.Events, event)
	}
	if len(commit.Remember) == 0 {
		return 0, nil
	}
	if err := c.write(ctx, commit, encodePosition(c.position)); err != nil {
		return 0, err
	}
	for _, id := range ids {
		delete(c.pending, id)
	}
	return len(ids), nil
}
