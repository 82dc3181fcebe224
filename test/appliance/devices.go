package appliance

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
)

// HideDevices makes devices unknown.
func (a *Appliance) HideDevices(ids ...int64) {
	a.store.Lock()
	defer a.store.Unlock()
	a.store.hidden = append(a.store.hidden, ids...)
}

func (a *Appliance) deviceRoutes() []route {
	return []route{
		{http.MethodPost, "/devices/search", a.searchDevices, typeJSON},
		{http.MethodGet, "/detections/formats", a.getFormats, ""},
	}
}

// searchDevices serves POST /devices/search, for devices by their ids. Every id
// above 0 is one of a device.
func (a *Appliance) searchDevices(r *request) answer {
	body, err := r.object()
	if err != nil {
		return badRequest(err)
	}
	var search struct {
		filter struct {
			Field, Operator string
			Operand         []int64
		}
		limit, offset *int
	}
	var errs []error
	for name, into := range map[string]any{"filter": &search.filter, "limit": &search.limit, "offset": &search.offset} {
		_, err := body.takeOptional(name, into)
		errs = append(errs, err)
	}
	if search.filter.Field != "id" || search.filter.Operator != "in" {
		errs = append(errs, errors.New("filter: devices can be searched here by id alone, with the operator in"))
	}
	if err := firstOf(append(errs, body.end(""))); err != nil {
		return badRequest(err)
	}
	a.store.RLock()
	defer a.store.RUnlock()
	elements := [][]byte{}
	for _, id := range search.filter.Operand {
		if id > 0 && !slices.Contains(a.store.hidden, id) && (search.limit == nil || len(elements) < *search.limit) {
			elements = append(elements, device(id))
		}
	}
	return arrayAnswer(elements)
}

func device(id int64) []byte {
	h := mix(uint64(id))
	role := []string{"http_server", "pc", "printer", "db_server", "domain_controller"}[h%5]
	return fmt.Appendf(nil, `{"id":%d,"service_id":"%016x","discovery_id":"%016x","display_name":"%s-%d","default_name":"Device %016x",`+
		`"ipaddr4":"10.%d.%d.%d","ipaddr6":null,"macaddr":"02:%02X:%02X:%02X:%02X:%02X","role":%q,"auto_role":%q,"analysis":"advanced",`+
		`"critical":%t,"on_watchlist":false,"device_class":"node","vendor":null,"mod_time":1750935535971,"discover_time":1644418590000}`,
		id, h, h, role, id, h, byte(h>>8), byte(h>>16), byte(h>>24), byte(h>>32), byte(h>>40), byte(h>>48), byte(h>>56), byte(h), role, role, h%9 == 0)
}

// getFormats serves GET /detections/formats.
func (a *Appliance) getFormats(*request) answer {
	type format struct {
		Type          string   `json:"type"`
		DisplayName   string   `json:"display_name"`
		Author        string   `json:"author"`
		Categories    []string `json:"categories"`
		IsUserCreated bool     `json:"is_user_created"`
	}
	formats := []format{}
	for _, k := range catalog() {
		formats = append(formats, format{Type: k.name, DisplayName: k.title, Author: a.options.Product, Categories: k.categories})
	}
	return jsonAnswer(http.StatusOK, formats)
}
