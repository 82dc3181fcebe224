package configs

import (
	"regexp"
	"slices"
)

func (c checks) appliances(appliances []Appliance) {
	if len(appliances) == 0 {
		c.wrong("appliances", "has no appliances; add one with name, url and api_key_file, or set NDRBRIDGE_APPLIANCES_0_NAME and so on")
	}
	before := make(map[string]string)
	for i := range appliances {
		c.appliance(item("appliances", i), &appliances[i], before)
	}
}

func (c checks) appliance(path string, a *Appliance, before map[string]string) {
	c.name(path+".name", a.Name, before)
	if a.Name == "bridge" {
		c.wrong(path+".name", "is reserved for the bridge's own events; choose another name")
	}
	c.applianceURL(path+".url", a)
	c.credentials(path, a)
	if a.Product != "" && !word.MatchString(a.Product) {
		c.wrong(path+".product", "%q is invalid; write letters, digits, - and _, beginning with a letter", a.Product)
	}
	if a.SchemeWord != "" && !word.MatchString(a.SchemeWord) {
		c.wrong(path+".scheme_word", "%q is invalid; write letters, digits, - and _, beginning with a letter", a.SchemeWord)
	}
	c.tls(path+".tls", a.TLS)
	c.proxy(path+".proxy", a.Proxy)
	c.retry(path+".retry", a.Retry.Initial, a.Retry.Max)
	if !a.Detections.Enabled && !a.Audit.Enabled && len(a.Records) == 0 {
		c.wrong(path, "has no streams; enable detections or audit, or add records")
	}
	c.detections(path+".detections", a.Detections)
	names := make(map[string]string)
	for i, q := range a.Records {
		c.records(item(path+".records", i), q, names)
	}
}

var word = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9_-]*$`)

// applianceURL checks the URL of an appliance and removes a trailing slash.
func (c checks) applianceURL(path string, a *Appliance) {
	if a.URL == "" {
		return // reported as missing
	}
	parsed := c.url(path, NewURL(a.URL), "https", "http")
	if parsed == nil {
		return
	}
	switch {
	case parsed.User != nil:
		c.wrong(path, "contains a user name; write only scheme and host, and put the key into api_key_file")
	case parsed.Path != "" && parsed.Path != "/", parsed.RawQuery != "", parsed.ForceQuery, parsed.Fragment != "":
		c.wrong(path, "has something after the host; write %s://%s, /api/v1 is appended", parsed.Scheme, parsed.Host)
	default:
		a.URL = parsed.Scheme + "://" + parsed.Host
	}
}

func (c checks) credentials(path string, a *Appliance) {
	switch {
	case c.failedSecret(path+".api_key") || c.failed(path+".oauth"):
	case a.APIKey.IsSet() && a.OAuth.IsSet():
		c.wrong(path, "has both api_key and oauth; keep the one that this appliance accepts")
	case !a.APIKey.IsSet() && !a.OAuth.IsSet():
		c.wrong(path, "has no credentials; set api_key_file, api_key, or, for the cloud edition, oauth")
	case a.OAuth.IsSet():
		if a.OAuth.TokenURL.Value() == "" {
			c.missing(path + ".oauth.token_url")
		} else {
			c.url(path+".oauth.token_url", a.OAuth.TokenURL, "https", "http")
		}
		c.present(path+".oauth.client_id", a.OAuth.ClientID)
		c.presentSecret(path+".oauth.client_secret", a.OAuth.ClientSecret)
	}
}

func (c checks) detections(path string, d Detections) {
	for i, part := range d.Enrich {
		if slices.Contains(d.Enrich[:i], part) {
			c.wrong(item(path+".enrich", i), "%s is listed twice; keep one of them", part)
		}
	}
	for _, other := range []struct {
		name string
		d    Duration
	}{{"reconcile.back", d.Reconcile.Back}, {"overlap", d.Overlap}} {
		if d.ForgetAfter <= other.d {
			c.wrong(path+".forget_after", "is %s; it must be longer than %s, which is %s, otherwise detections are delivered twice", d.ForgetAfter, other.name, other.d)
		}
	}
	c.filter(path+".filter", d.Filter)
}

func (c checks) records(path string, q RecordQuery, before map[string]string) {
	c.name(path+".name", q.Name, before)
	for i, kind := range q.Types {
		if kind == "" {
			c.wrong(item(path+".types", i), "is empty; write a record type such as ~dns, or remove the item")
		}
	}
	if q.Recheck > 0 && q.Recheck <= q.Delay {
		c.wrong(path+".recheck", "is %s; it must be longer than delay, which is %s, or 0", q.Recheck, q.Delay)
	}
	c.atLeast(path+".max_window_records", q.MaxWindowRecords, q.PageSize)
}

// categoryPattern matches more than the documented categories, because appliances use
// others too.
var categoryPattern = regexp.MustCompile(`^(sec|perf|custom)(\.[a-z_]+)?$`)

func (c checks) filter(path string, f DetectionFilter) {
	for i, category := range f.Categories {
		c.category(item(path+".categories", i), category)
	}
	if f.Category != "" {
		c.category(path+".category", f.Category)
		if len(f.Categories) > 0 {
			c.wrong(path+".category", "is the older form of categories, which is also set; keep categories")
		}
	}
	for _, list := range []struct {
		name  string
		texts []string
	}{{"assignee", f.Assignee}, {"ticket_id", f.TicketID}, {"types", f.Types}} {
		for i, text := range list.texts {
			if text == "" {
				c.wrong(item(path+"."+list.name, i), "is empty; write a value, or remove the item")
			}
		}
	}
}

func (c checks) category(path, category string) {
	if !categoryPattern.MatchString(category) {
		c.wrong(path, "%q is not a category; write sec, perf or custom, or a part of one, such as sec.botnet or perf.db", category)
	}
}
