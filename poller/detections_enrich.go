package poller

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"strconv"
	"strings"
	"time"

	"github.com/hashicorp/golang-lru/v2/simplelru"

	"ndrbridge/appliance"
	"ndrbridge/transform"
)

// EnrichClient is what an Enricher asks of an appliance. *appliance.Client is
// one.
type EnrichClient interface {
	SearchDevices(ctx context.Context, ids []int64, page *appliance.Page) error
	DetectionFormats(ctx context.Context, page *appliance.Page) error
}

// EnrichOptions say what is added to detections.
type EnrichOptions struct {
	Devices bool // the devices among the participants
	Format  bool // the display name of the detection's format
	Link    bool // to the detection in the appliance's own pages
	// URL is scheme and host of the appliance, and Product the product's word in
	// its paths, lower-cased for that; empty: service. Link needs both.
	URL, Product string
	// Timeout is how long a request may take, its wait for the rate limit
	// included; 0: DefaultEnrichTimeout.
	Timeout time.Duration
	// MaxDevices is how many devices are remembered, and asked for at once; 0:
	// DefaultMaxDevices.
	MaxDevices int
	// MaxAge is how old an answer is used at most; 0: DefaultEnrichAge. A format
	// that the appliance does not tell any more is used on.
	MaxAge time.Duration
	Now    func() time.Time
	Log    *slog.Logger
}

// The defaults of EnrichOptions.
const (
	DefaultEnrichTimeout = 2 * time.Second
	DefaultMaxDevices    = 4096
	DefaultEnrichAge     = time.Hour
)

const (
	// enrichPause is how long a kind of request is not made after it failed.
	enrichPause = time.Minute
	// formatsPause is how long an unknown type does not make the formats be asked
	// for again.
	formatsPause = 5 * time.Minute
	// maxDevicesSize bounds the devices of one event, in bytes: what is added must
	// not make it too large for a sink.
	maxDevicesSize = 256 << 10
	// maxParticipants bounds the devices of one detection that are looked for.
	maxParticipants = 1000
	// maxDevice bounds a device that is remembered, in bytes: of a longer one it is
	// only known that it is left out.
	maxDevice = 16 << 10
	// maxFormats and maxFormatName bound the formats that are remembered, and the
	// bytes of their names and types.
	maxFormats, maxFormatName = 4096, 256
)

// Enricher adds to detections what the appliance says about them elsewhere. It
// is no part of a promise: what cannot be had in time is left out, and the
// detection says so. One goroutine uses it.
type Enricher struct {
	client EnrichClient
	o      EnrichOptions
	link   string // up to a detection's id

	deviceRequests, formatRequests enrichRequests

	devices   *simplelru.LRU[int64, device]
	formats   map[format]string // display names
	formatsAt time.Time         // when they were told; zero: never
}

// device is what the appliance said about an id.
type device struct {
	object []byte // nil: it knows no such device
	at     time.Time
}

// format is what tells detection formats apart: a built-in and a custom one can
// share a type.
type format struct {
	kind   string
	custom bool
}

// NewEnricher returns an Enricher that remembers nothing yet.
func NewEnricher(client EnrichClient, o EnrichOptions) *Enricher {
	if o.Product == "" {
		o.Product = "service"
	}
	if o.Timeout <= 0 {
		o.Timeout = DefaultEnrichTimeout
	}
	if o.MaxDevices <= 0 {
		o.MaxDevices = DefaultMaxDevices
	}
	if o.MaxAge <= 0 {
		o.MaxAge = DefaultEnrichAge
	}
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

// Enrich returns what is to be added to each of the detections of a page, in
// their order. It makes one request at most for the devices, and one for the
// formats.
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
	told := make(map[int64][]byte) // what the appliance said about the devices of this page
	missing := make(map[int64]bool)
	var ask []int64
	for i, d := range detections {
		wanted[i], whole[i] = d.Devices(maxParticipants)
		for _, id := range wanted[i] {
			if known, ok := e.devices.Get(id); ok && e.o.Now().Sub(known.at) < e.o.MaxAge {
				told[id] = known.object
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
			e.remember(ask, page.Objects, told)
		}
	}
	for i, ids := range wanted {
		var all bool
		if added[i].Devices, all = deviceArray(ids, told); !all || !whole[i] {
			fail(&added[i], e.deviceRequests.part)
		}
	}
}

// remember keeps the answer to a request for ids, here and in told.
func (e *Enricher) remember(ids []int64, objects []appliance.Object, told map[int64][]byte) {
	for _, id := range ids {
		told[id] = nil
	}
	for _, o := range objects {
		var object struct{ ID int64 }
		if err := json.Unmarshal(o.Raw, &object); err != nil {
			continue
		}
		if _, asked := told[object.ID]; asked && len(o.Raw) > maxDevice {
			delete(told, object.ID)
		} else if asked {
			told[object.ID] = bytes.Clone(o.Raw) // without the rest of the answer
		}
	}
	now := e.o.Now()
	for _, id := range ids {
		if object, ok := told[id]; ok {
			e.devices.Add(id, device{object, now})
		}
	}
}

// deviceArray returns the JSON array of the devices that the appliance told;
// nil where it did not say about any. whole is false where one of them is left
// out that the appliance may know.
func deviceArray(ids []int64, told map[int64][]byte) (array []byte, whole bool) {
	array, whole = []byte{'['}, true
	said := len(ids) == 0
	for _, id := range ids {
		object, ok := told[id]
		if !ok || len(array)+len(object) > maxDevicesSize {
			whole = false
			continue
		}
		said = true
		if object == nil {
			continue
		}
		if len(array) > 1 {
			array = append(array, ',')
		}
		array = append(array, object...)
	}
	if !said {
		return nil, whole
	}
	return append(array, ']'), whole
}

func (e *Enricher) addFormats(ctx context.Context, detections []transform.Detection, added []transform.Enrichment) {
	age := e.o.Now().Sub(e.formatsAt)
	due := false
	for _, d := range detections {
		if kind := d.Type(); kind != "" {
			due = due || age >= e.o.MaxAge || age >= formatsPause && e.displayName(kind, d.UserCreated()) == ""
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

// displayName is empty where the appliance told none.
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
	e.formats, e.formatsAt = make(map[format]string, len(page.Objects)), e.o.Now()
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

// fail notes that a part could not be had.
func fail(added *transform.Enrichment, part string) {
	if added.Failed != "" {
		added.Failed += ","
	}
	added.Failed += part
}

// enrichRequests is how one kind of requests is doing.
type enrichRequests struct {
	part    string // what they are made for
	failing bool
	until   time.Time // while failing: when the next may be made
}

// request makes a request of a kind, unless one failed a short while ago, and
// reports whether it was answered.
func (e *Enricher) request(ctx context.Context, kind *enrichRequests, send func(context.Context) error) bool {
	if kind.failing && e.o.Now().Before(kind.until) {
		return false
	}
	limited, cancel := context.WithTimeout(ctx, e.o.Timeout)
	defer cancel()
	err := send(limited)
	switch {
	case err == nil:
		if kind.failing {
			kind.failing = false
			e.o.Log.Info("detections are enriched again", "with", kind.part)
		}
		return true
	case ctx.Err() != nil: // the bridge stops, which says nothing about the appliance
		return false
	}
	if !kind.failing {
		kind.failing = true
		e.o.Log.Warn("detections go without an enrichment; it is asked for again from time to time", "without", kind.part, "error", err)
	}
	pause := enrichPause
	if e, ok := errors.AsType[*appliance.Error](err); ok {
		pause = max(pause, e.RetryAfter)
	}
	kind.until = e.o.Now().Add(pause)
	return false
}
