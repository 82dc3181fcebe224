package poller

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"strconv"
	"strings"
	"time"

	"github.com/hashicorp/golang-lru/v2/simplelru"

	"ndrbridge/internal/appliance"
	"ndrbridge/internal/jsonscan"
	"ndrbridge/transform"
)

// EnrichOptions configures an Enricher.
type EnrichOptions struct {
	Devices bool // the devices among the participants
	Format  bool // the display name of the detection's format
	Link    bool // to the detection in the appliance's own pages
	// URL is the scheme and host of the appliance, and Product the product's name in its
	// paths, where it is lower-cased; empty: service. Link needs both.
	URL, Product string
	// MaxDevices is how many devices are cached, and requested at once; 0: 4096.
	MaxDevices int
	Log        *slog.Logger
}

const (
	// enrichTimeout is how long a request may take, including its wait for the rate limit.
	enrichTimeout = 2 * time.Second
	// enrichMaxAge is how long an answer is used. Formats are used longer while the appliance
	// does not answer.
	enrichMaxAge = time.Hour
	// enrichPause is the pause before a kind of request is made again after it failed.
	enrichPause = time.Minute
	// formatsPause is the pause before an unknown type makes the formats be requested
	// again.
	formatsPause = 5 * time.Minute
	// maxDevicesSize bounds the devices of one event, in bytes: they must not make it
	// too large for a sink.
	maxDevicesSize = 256 << 10
	// maxParticipants bounds the devices of one detection that are looked up.
	maxParticipants = 1000
	// maxDevice bounds the size of a device, in bytes: a larger one is left out.
	maxDevice = 16 << 10
	// maxFormats bounds the number of cached formats, and maxFormatName their names and
	// types, in bytes.
	maxFormats, maxFormatName = 4096, 256
)

// Enricher adds to detections what the appliance knows about them elsewhere. It guarantees
// nothing: data that cannot be read in time is left out, and the enrichment reports that.
// It is not safe for concurrent use.
type Enricher struct {
	client *appliance.Client
	o      EnrichOptions
	link   string // up to a detection's id

	deviceRequests, formatRequests enrichRequests

	devices   *simplelru.LRU[int64, device]
	formats   map[format]string // display names
	formatsAt time.Time         // when they were read; zero: never
}

// device is the appliance's answer about an id.
type device struct {
	object []byte // nil: there is no such device
	at     time.Time
}

// format identifies a detection format: a built-in and a custom one can share a type.
type format struct {
	kind   string
	custom bool
}

// NewEnricher returns an Enricher with empty caches.
func NewEnricher(client *appliance.Client, o EnrichOptions) *Enricher {
	o.Product = cmp.Or(o.Product, "service")
	o.MaxDevices = cmp.Or(o.MaxDevices, 4096)
	devices, err := simplelru.NewLRU[int64, device](o.MaxDevices, nil)
	if err != nil {
		panic(err) // a size above 0
	}
	return &Enricher{
		client: client, o: o, devices: devices,
		link:           strings.TrimSuffix(o.URL, "/") + "/" + strings.ToLower(o.Product) + "/#/detections/detail/",
		deviceRequests: enrichRequests{part: "devices"},
		formatRequests: enrichRequests{part: "format"},
	}
}

// Enrich returns what to add to each of the detections of a page, in their order. It makes
// at most one request for the devices, and one for the formats.
func (e *Enricher) Enrich(ctx context.Context, detections []transform.Detection) []transform.Enrichment {
	added := make([]transform.Enrichment, len(detections))
	if e.o.Devices {
		e.addDevices(ctx, detections, added)
	}
	if e.o.Format {
		e.addFormats(ctx, detections, added)
	}
	if e.o.Link {
		for i, d := range detections {
			added[i].Link = e.linkTo(d)
		}
	}
	return added
}

func (e *Enricher) addDevices(ctx context.Context, detections []transform.Detection, added []transform.Enrichment) {
	wanted := make([][]int64, len(detections))
	whole := make([]bool, len(detections))
	found := make(map[int64][]byte) // answers about the devices of this page; nil: no such device
	missing := make(map[int64]bool)
	var ask []int64
	for i, d := range detections {
		wanted[i], whole[i] = d.Devices(maxParticipants)
		for _, id := range wanted[i] {
			if known, ok := e.devices.Get(id); ok && time.Since(known.at) < enrichMaxAge {
				found[id] = known.object
			} else if !missing[id] && len(ask) < e.o.MaxDevices {
				missing[id] = true
				ask = append(ask, id)
			}
		}
	}
	if len(ask) > 0 {
		var page appliance.Page
		if e.request(ctx, &e.deviceRequests, func(ctx context.Context) error {
			return e.client.SearchDevices(ctx, ask, &page)
		}) {
			e.remember(ask, page.Objects, found)
		}
	}
	for i, ids := range wanted {
		var all bool
		if added[i].Devices, all = deviceArray(ids, found); !all || !whole[i] {
			fail(&added[i], e.deviceRequests.part)
		}
	}
}

// remember stores the answer to a request for ids in the cache and in found.
func (e *Enricher) remember(ids []int64, objects []appliance.Object, found map[int64][]byte) {
	for _, id := range ids {
		found[id] = nil
	}
	for _, o := range objects {
		var object struct{ ID json.RawMessage }
		if err := json.Unmarshal(o.Raw, &object); err != nil {
			continue
		}
		id, _ := jsonscan.Integer(object.ID) // 0, which was not requested, if there is none
		if _, asked := found[id]; asked && len(o.Raw) > maxDevice {
			delete(found, id)
		} else if asked {
			found[id] = bytes.Clone(o.Raw) // without the rest of the answer
		}
	}
	now := time.Now()
	for _, id := range ids {
		if object, ok := found[id]; ok {
			e.devices.Add(id, device{object, now})
		}
	}
}

// deviceArray returns the JSON array of the devices in found, or nil if there is no answer
// about any of them. whole is false if a device that may exist is left out.
func deviceArray(ids []int64, found map[int64][]byte) (array []byte, whole bool) {
	array, whole = []byte{'['}, true
	answered := len(ids) == 0
	for _, id := range ids {
		object, ok := found[id]
		if !ok || len(array)+len(object) > maxDevicesSize {
			whole = false
			continue
		}
		answered = true
		if object == nil {
			continue
		}
		if len(array) > 1 {
			array = append(array, ',')
		}
		array = append(array, object...)
	}
	if !answered {
		return nil, whole
	}
	return append(array, ']'), whole
}

func (e *Enricher) addFormats(ctx context.Context, detections []transform.Detection, added []transform.Enrichment) {
	age := time.Since(e.formatsAt)
	due := false
	for _, d := range detections {
		if kind := d.Type(); kind != "" {
			due = due || age >= enrichMaxAge || age >= formatsPause && e.displayName(kind, d.UserCreated()) == ""
		}
	}
	failed := due && !e.askFormats(ctx)
	for i, d := range detections {
		kind := d.Type()
		added[i].Format = e.displayName(kind, d.UserCreated())
		if failed && kind != "" && added[i].Format == "" {
			fail(&added[i], e.formatRequests.part)
		}
	}
}

// displayName returns the display name of a format, or "" if the appliance returned none.
func (e *Enricher) displayName(kind string, custom bool) string {
	if name, ok := e.formats[format{kind, custom}]; ok {
		return name
	}
	return e.formats[format{kind, !custom}]
}

func (e *Enricher) askFormats(ctx context.Context) bool {
	var page appliance.Page
	if !e.request(ctx, &e.formatRequests, func(ctx context.Context) error {
		return e.client.DetectionFormats(ctx, &page)
	}) {
		return false
	}
	e.formats, e.formatsAt = make(map[format]string, len(page.Objects)), time.Now()
	for _, o := range page.Objects {
		var f struct {
			Type          string
			DisplayName   string `json:"display_name"`
			IsUserCreated bool   `json:"is_user_created"`
		}
		if err := json.Unmarshal(o.Raw, &f); err == nil && f.DisplayName != "" &&
			len(f.DisplayName) <= maxFormatName && len(f.Type) <= maxFormatName && len(e.formats) < maxFormats {
			e.formats[format{f.Type, f.IsUserCreated}] = f.DisplayName
		}
	}
	return true
}

func (e *Enricher) linkTo(d transform.Detection) string {
	if url := d.URL(); strings.HasPrefix(url, "https://") || strings.HasPrefix(url, "http://") {
		return url
	}
	return e.link + strconv.FormatInt(d.ID, 10)
}

// fail records that a part could not be read.
func fail(added *transform.Enrichment, part string) {
	if added.Failed != "" {
		added.Failed += ","
	}
	added.Failed += part
}

// enrichRequests is the state of one kind of request.
type enrichRequests struct {
	part  string    // the enrichment that the requests are for
	until time.Time // when the next may be made after a failure; zero: the last was answered
}

// request makes a request of a kind, unless one failed a short while ago, and reports
// whether it was answered.
func (e *Enricher) request(ctx context.Context, kind *enrichRequests, send func(context.Context) error) bool {
	failing := !kind.until.IsZero()
	if failing && time.Now().Before(kind.until) {
		return false
	}
	limited, cancel := context.WithTimeout(ctx, enrichTimeout)
	defer cancel()
	err := send(limited)
	switch {
	case err == nil:
		if failing {
			kind.until = time.Time{}
			e.o.Log.Info("detections are enriched again", "with", kind.part)
		}
		return true
	case ctx.Err() != nil: // the bridge stops: this is no failure of the appliance
		return false
	}
	if !failing {
		e.o.Log.Warn("detections are delivered without an enrichment; it is requested again from time to time", "without", kind.part, "error", err)
	}
	pause := enrichPause
	if e, ok := errors.AsType[*appliance.Error](err); ok {
		pause = max(pause, e.RetryAfter)
	}
	kind.until = time.Now().Add(pause)
	return false
}
