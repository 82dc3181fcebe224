package access

import (
	"net/http"
	"slices"
	"strings"

	"ndrbridge/test/appliance/rest"
)

// policy is for which users keys can be generated.
type policy string

const (
	policyAll   policy = "all"
	policyLocal policy = "local"
)

func (p policy) allows(kind string) bool {
	return p == policyAll || p == policyLocal && kind == "local"
}

// settings are those of API access. They are immutable.
type settings struct {
	Policy policy `json:"policy"`
	CORS   cors   `json:"cors"`
}

// cors are the origins whose pages may send requests.
type cors struct {
	Any     bool     `json:"any"`
	Origins []string `json:"origins"`
}

func (c *Control) currentSettings() settings {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return c.settings
}

func (c *Control) getSettings(*rest.Request) rest.Answer {
	return rest.JSON(http.StatusOK, c.currentSettings())
}

func (c *Control) putSettings(r *rest.Request) rest.Answer {
	var body settings
	if err := r.Decode(&body); err != nil {
		return rest.BadRequest(err)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.settings = body
	return rest.NoContent()
}

// allows reports whether pages of an origin may send requests.
func (c cors) allows(origin string) bool {
	return c.Any || slices.ContainsFunc(c.Origins, func(o string) bool { return strings.EqualFold(o, origin) })
}

// SetCORS sets the headers of the answer to a request from a page of another origin, if the
// settings allow that origin.
func (c *Control) SetCORS(h http.Header, r *http.Request) {
	origin := r.Header.Get("Origin")
	if origin == "" {
		return
	}
	h.Add("Vary", "Origin")
	if c.currentSettings().CORS.allows(origin) {
		h.Set("Access-Control-Allow-Origin", origin)
		h.Set("Access-Control-Expose-Headers", "Date, Location, Retry-After")
	}
}

// IsPreflight reports whether a browser asks with a request whether a page may send another.
func IsPreflight(r *http.Request) bool {
	return r.Method == http.MethodOptions && r.Header.Get("Origin") != "" && r.Header.Get("Access-Control-Request-Method") != ""
}

// Preflight returns the answer to such a request, except for the headers that SetCORS sets.
// methods are those that the path has.
func (c *Control) Preflight(r *http.Request, methods []string) rest.Answer {
	if origin := r.Header.Get("Origin"); !c.currentSettings().CORS.allows(origin) {
		return rest.Refuse(http.StatusForbidden, "the origin %s may not send requests; add it to the settings of API access", origin)
	}
	answer := rest.NoContent()
	answer.Header = http.Header{
		"Access-Control-Allow-Methods": {strings.Join(methods, ", ")},
		"Access-Control-Allow-Headers": {"Accept, Authorization, Content-Type"},
		"Access-Control-Max-Age":       {"600"},
	}
	return answer
}
