package appliance

import (
	"net/http"
	"strings"
)

func (a *Appliance) formatRoutes() []route {
	return []route{{http.MethodGet, "/detections/formats", a.getFormats, ""}}
}

// getFormats serves GET /detections/formats: one for each generated type.
func (a *Appliance) getFormats(*request) answer {
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
	return jsonAnswer(http.StatusOK, formats)
}
