package appliance

import (
	"cmp"
	"net/http"
	"strconv"
	"strings"

	"ndrbridge/test/appliance/rest"
)

// systemHandlers returns the handlers of the system resource.
func (a *Appliance) systemHandlers() rest.Handlers {
	get := func(body func() map[string]string) rest.Handler {
		return func(*rest.Request) rest.Answer { return rest.JSON(http.StatusOK, body()) }
	}
	return rest.Handlers{
		"GET /service": get(func() map[string]string {
			i := a.identity.Load()
			return map[string]string{
				"display_host": i.Host, "external_hostname": i.Host, "hostname": i.Host,
				"mgmt_ipaddr": i.Address, "platform": i.Platform, "version": i.Firmware,
			}
		}),
		"GET /service/version":     get(func() map[string]string { return map[string]string{"version": a.identity.Load().Firmware} }),
		"GET /service/platform":    get(func() map[string]string { return map[string]string{"platform": a.identity.Load().Platform} }),
		"GET /service/edition":     get(func() map[string]string { return map[string]string{"edition": a.options.Edition} }),
		"GET /service/idrac":       get(func() map[string]string { return map[string]string{"ipaddr": "192.0.2.11"} }),
		"GET /service/ticketing":   a.getTicketing,
		"PATCH /service/ticketing": a.patchTicketing,
	}
}

// Identity is an appliance's identity in the system resource.
type Identity struct {
	Host     string // empty: Options.Host
	Address  string // of its management interface; empty: 192.0.2.10
	Platform string // empty: sensor, or console
	Firmware string // empty: Options.Firmware; does not affect its behaviour
}

// SetIdentity sets the identity that the system resource returns.
func (a *Appliance) SetIdentity(i Identity) {
	platform := "sensor"
	if a.options.Console {
		platform = "console"
	}
	i.Host = cmp.Or(i.Host, a.options.Host)
	i.Address = cmp.Or(i.Address, "192.0.2.10")
	i.Platform = cmp.Or(i.Platform, platform)
	i.Firmware = cmp.Or(i.Firmware, a.options.Firmware)
	a.identity.Store(&i)
}

func (a *Appliance) getTicketing(*rest.Request) rest.Answer {
	a.store.RLock()
	defer a.store.RUnlock()
	return rest.JSON(http.StatusOK, map[string]bool{"enabled": a.store.ticketing})
}

func (a *Appliance) patchTicketing(r *rest.Request) rest.Answer {
	body, err := parseObject(r.Data)
	if err != nil {
		return rest.BadRequest(err)
	}
	var enabled *bool
	body.take("enabled", &enabled)
	if err := body.end(""); err != nil {
		return rest.BadRequest(err)
	}
	if enabled != nil {
		a.SetTicketing(*enabled)
	}
	return rest.NoContent()
}

// SetTicketing enables or disables external ticket tracking, like a PATCH of the ticketing
// resource.
func (a *Appliance) SetTicketing(enabled bool) {
	a.store.Lock()
	defer a.store.Unlock()
	a.store.ticketing = enabled
}

// before reports whether the firmware is older than a dotted version, comparing number by
// number. A part that is not a number counts as 0.
func before(firmware string, numbers ...int) bool {
	parts := strings.Split(firmware, ".")
	for i, number := range numbers {
		var have int
		if i < len(parts) {
			have, _ = strconv.Atoi(parts[i])
		}
		if have != number {
			return have < number
		}
	}
	return false
}

// getFormats serves GET /detections/formats: one for each generated type.
func (a *Appliance) getFormats(*request) rest.Answer {
	type format struct {
		Type          string   `json:"type"`
		DisplayName   string   `json:"display_name"`
		Author        string   `json:"author"`
		Categories    []string `json:"categories"`
		IsUserCreated bool     `json:"is_user_created"`
		Released      *int64   `json:"released"` // milliseconds; null if created by a user
	}
	const firstRelease, month = 1546300800000, 30 * 86_400_000
	formats := []format{}
	for i, k := range catalog() {
		f := format{Type: k.name, DisplayName: k.title, Author: a.options.Product, Categories: k.categories}
		if strings.HasPrefix(k.name, "custom.") {
			f.Author, f.IsUserCreated = a.options.User, true
		} else {
			f.Released = new(int64(firstRelease + i*month))
		}
		formats = append(formats, f)
	}
	return rest.JSON(http.StatusOK, formats)
}
