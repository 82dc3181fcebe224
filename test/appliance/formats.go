package appliance

import (
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"

	"ndrbridge/test/appliance/rest"
	"ndrbridge/test/appliance/tuning"
)

// formatHandlers returns the handlers of formats of detections and tuning rules.
func (a *Appliance) formatHandlers() rest.Handlers {
	handlers := rest.Handlers{
		"GET /detections/formats":         a.formats.list,
		"POST /detections/formats":        a.formats.create,
		"PATCH /detections/formats/{id}":  a.formats.patch,
		"DELETE /detections/formats/{id}": a.formats.remove,
	}
	maps.Copy(handlers, a.resources.tuningRules.Handlers())
	return handlers
}

// maxFormats is the number of custom formats that an appliance holds.
const maxFormats = 1000

// format is a detection format. It is immutable.
type format struct {
	Type            string                    `json:"type"`
	DisplayName     string                    `json:"display_name"`
	Author          string                    `json:"author"`
	Categories      []string                  `json:"categories"`
	MitreCategories []string                  `json:"mitre_categories"`
	IsUserCreated   bool                      `json:"is_user_created"`
	Properties      map[string]formatProperty `json:"properties"`
}

type formatProperty struct {
	IsOptional bool   `json:"is_optional"`
	Status     string `json:"status"`
	IsTunable  bool   `json:"is_tunable"`
	DataType   string `json:"data_type"`
}

// formats are the formats of an appliance. A built-in and a custom one can share a type.
type formats struct {
	mu      sync.RWMutex
	builtIn []format
	custom  []format
}

// newFormats returns a format for each generated type.
func newFormats(o Options) *formats {
	f := new(formats)
	for _, k := range catalog() {
		made := format{
			Type: k.name, DisplayName: k.title, Author: o.Product, Categories: k.categories,
			MitreCategories: []string{}, Properties: propertiesOf(k),
		}
		for _, technique := range k.techniques {
			made.MitreCategories = append(made.MitreCategories, technique.ID)
		}
		if strings.HasPrefix(k.name, "custom.") {
			made.Author, made.IsUserCreated = o.User, true
			f.custom = append(f.custom, made)
		} else {
			f.builtIn = append(f.builtIn, made)
		}
	}
	return f
}

// propertiesOf returns the properties that detections of a kind can have: those that are
// generated, and those of some types that tests add.
func propertiesOf(k kind) map[string]formatProperty {
	properties := make(map[string]formatProperty)
	add := func(dataType string, tunable bool, names ...string) {
		for _, name := range names {
			properties[name] = formatProperty{IsOptional: true, Status: "active", IsTunable: tunable, DataType: dataType}
		}
	}
	add("string", true, "tool", "ports", "version")
	add("number", true, "server_port")
	add("number", false, "client_port")
	add("ipaddr", true, "peers")
	switch k.name {
	case "dns_tunnel", "botnet_beacon":
		add("string", true, "registered_domain_name", "top_level_domain")
	case "data_exfiltration", "custom.printer_talks_out":
		add("string", true, "uris")
	case "hacking_tools":
		add("string", true, "hacking_tool")
	}
	return properties
}

// tunable returns the properties that rules for a detection type can use. It reports false if
// no format has the type.
func (f *formats) tunable(kind string) (names map[string]bool, ok bool) {
	f.mu.RLock()
	defer f.mu.RUnlock()
	module := map[string]string{tuning.AllSecurity: "sec", tuning.AllPerformance: "perf"}[kind]
	names, ok = make(map[string]bool), module != ""
	for _, format := range slices.Concat(f.builtIn, f.custom) {
		if format.Type != kind && (module == "" || !slices.Contains(format.Categories, module)) {
			continue
		}
		ok = true
		for name, property := range format.Properties {
			names[name] = names[name] || property.IsTunable
		}
	}
	return names, ok
}

func (f *formats) list(*rest.Request) rest.Answer {
	f.mu.RLock()
	defer f.mu.RUnlock()
	return rest.JSON(http.StatusOK, slices.Concat(f.builtIn, f.custom))
}

// of returns the position of the custom format with a type, or -1.
func (f *formats) of(kind string) int {
	return slices.IndexFunc(f.custom, func(c format) bool { return c.Type == kind })
}

func (f *formats) create(r *rest.Request) rest.Answer {
	made := format{Author: r.Caller.Name, Categories: []string{}, MitreCategories: []string{}, IsUserCreated: true, Properties: map[string]formatProperty{}}
	if err := r.Decode(&made); err != nil {
		return rest.BadRequest(err)
	}
	made.Categories = withModule(made.Categories)
	f.mu.Lock()
	defer f.mu.Unlock()
	switch {
	case made.Type == tuning.AllSecurity, made.Type == tuning.AllPerformance:
		return rest.BadRequest(fmt.Errorf("type: tuning rules use %s for all types of a module; choose another", made.Type))
	case f.of(made.Type) >= 0:
		return rest.BadRequest(fmt.Errorf("type: a custom format with the type %s exists already", made.Type))
	case len(f.custom) >= maxFormats:
		return rest.Unprocessable("there are %d custom formats, which is the maximum; delete some first", maxFormats)
	}
	f.custom = append(f.custom, made)
	answer := rest.Created("/detections/formats/" + url.PathEscape(made.Type))
	answer.Audit = auditFormat(r, "Create", "Created", made.Type)
	return answer
}

func (f *formats) patch(r *rest.Request) rest.Answer {
	kind := r.Parameters["id"]
	f.mu.Lock()
	defer f.mu.Unlock()
	i := f.of(kind)
	if i < 0 {
		return f.refuse(kind)
	}
	changed := f.custom[i]
	changed.Categories, changed.MitreCategories = nil, nil // not to be decoded into
	if err := r.Decode(&changed); err != nil {
		return rest.BadRequest(err)
	}
	if changed.Categories = withModule(changed.Categories); len(changed.Categories) == 0 {
		changed.Categories = f.custom[i].Categories
	}
	if changed.MitreCategories == nil {
		changed.MitreCategories = f.custom[i].MitreCategories
	}
	f.custom[i] = changed
	answer := rest.NoContent()
	answer.Audit = auditFormat(r, "Modify", "Changed", kind)
	return answer
}

func (f *formats) remove(r *rest.Request) rest.Answer {
	kind := r.Parameters["id"]
	f.mu.Lock()
	defer f.mu.Unlock()
	i := f.of(kind)
	if i < 0 {
		return f.refuse(kind)
	}
	f.custom = slices.Delete(f.custom, i, i+1)
	answer := rest.NoContent()
	answer.Audit = auditFormat(r, "Delete", "Deleted", kind)
	return answer
}

// refuse returns the answer to a change of a type that no custom format has.
func (f *formats) refuse(kind string) rest.Answer {
	if slices.ContainsFunc(f.builtIn, func(b format) bool { return b.Type == kind }) {
		return rest.Unprocessable("the format %s is built in and cannot be changed", kind)
	}
	return rest.NotFound("no format has the type %s", kind)
}

// withModule returns the categories with the module, sec or perf, that contains the only one.
func withModule(categories []string) []string {
	if len(categories) == 1 {
		if module, _, below := strings.Cut(categories[0], "."); below {
			return []string{module, categories[0]}
		}
	}
	return categories
}

func auditFormat(r *rest.Request, operation, verb, kind string) *rest.Audit {
	return &rest.Audit{Operation: operation, Component: r.Operation.Tag, Details: verb + " detection format " + kind}
}
