package appliance

import "net/http"

// systemRoutes are the operations of the system resource, whose path begins with
// the product's word.
func (a *Appliance) systemRoutes(word string) []route {
	get := func(path string, body map[string]string) route {
		return route{http.MethodGet, word + path, func(*request) answer { return jsonAnswer(http.StatusOK, body) }, ""}
	}
	platform, edition := "sensor", "standard"
	if a.options.Console {
		platform = "console"
	}
	if a.options.OAuth != nil {
		edition = "cloud"
	}
	const address = "192.0.2.10"
	return []route{
		get("", map[string]string{
			"display_host": a.options.Host, "external_hostname": a.options.Host, "hostname": a.options.Host,
			"mgmt_ipaddr": address, "platform": platform, "version": a.options.Firmware,
		}),
		get("/version", map[string]string{"version": a.options.Firmware}),
		get("/platform", map[string]string{"platform": platform}),
		get("/edition", map[string]string{"edition": edition}),
		get("/idrac", map[string]string{"ipaddr": "192.0.2.11"}),
		{http.MethodGet, word + "/ticketing", a.getTicketing, ""},
		{http.MethodPatch, word + "/ticketing", a.patchTicketing, typeJSON},
	}
}

func (a *Appliance) getTicketing(*request) answer {
	a.store.RLock()
	defer a.store.RUnlock()
	return jsonAnswer(http.StatusOK, map[string]bool{"enabled": a.store.ticketing})
}

func (a *Appliance) patchTicketing(r *request) answer {
	body, err := r.object()
	if err != nil {
		return badRequest(err)
	}
	var enabled *bool
	_, err = body.take("enabled", &enabled)
	if err := firstOf([]error{err, body.end("")}); err != nil {
		return badRequest(err)
	}
	if enabled != nil {
		a.SetTicketing(*enabled)
	}
	return noContent()
}

// SetTicketing switches external ticket tracking on or off, as PATCH of the
// ticketing resource does.
func (a *Appliance) SetTicketing(enabled bool) {
	a.store.Lock()
	defer a.store.Unlock()
	a.store.ticketing = enabled
}
