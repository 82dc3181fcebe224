package configs

import (
	"regexp"
	"slices"
)

func (c checks) appliances(appliances []Appliance) {
	if len(appliances) == 0 {
		c.wrong("appliances", "names no appliance; add one with its name, url and api_key_file, or set NDRBRIDGE_APPLIANCES_0_NAME and so on")
	}
	before := make(map[string]string)
	for i := range appliances {
		c.appliance(item("appliances", i), &appliances[i], before)
	}
}

func (c checks) appliance(path string, a *Appliance, before map[string]string) {
	c.name(path+".name", a.Name, before)
	if a.Name == "bridge" {
		c.wrong(path+".name", "bridge is what the bridge calls itself in its own events; choose another name")
	}
	c.applianceURL(path+".url", a)
	c.credentials(path, a)
	if a.Product != "" && !word.MatchString(a.Product) {
		c.wrong(path+".product", "%q is no word; write letters, digits, - and _", a.Product)
	}
	if a.SchemeWord != "" && !word.MatchString(a.SchemeWord) {
		c.wrong(path+".scheme_word", "%q is no word; write letters, digits, - and _", a.SchemeWord)
	}
	c.tls(path+".tls", a.TLS)
	c.proxy(path+".proxy", a.Proxy)
	c.retry(path+".retry", a.Retry.Initial, a.Retry.Max)
	if !a.Detections.Enabled && !a.Audit.Enabled && len(a.Records) == 0 {
		c.wrong(path, "has no stream: enable detections or audit, or list records")
	}
	c.detections(path+".detections", a.Detections)
	names := make(map[string]string)
	for i, q := range a.Records {
		c.records(item(path+".records", i), q, names)
	}
}

var word = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9_-]*$`)

// applianceURL drops a slash at the end, which says nothing.
func (c checks) applianceURL(path string, a *Appliance) {
	if a.URL == "" {
		return // which was told
	}
	parsed := c.url(path, NewURL(a.URL), "https", "http")
	if parsed == nil {
		return
	}
	switch {
	case parsed.User != nil:
		c.wrong(path, "holds a user name; write scheme and host alone, and the key into api_key_file")
	case parsed.Path != "" && parsed.Path != "/", parsed.RawQuery != "", parsed.ForceQuery, parsed.Fragment != "":
		c.wrong(path, "goes on behind the host; write %s://%s, /api/v1 is added", parsed.Scheme, parsed.Host)
	default:
		a.URL = parsed.Scheme + "://" + parsed.Host
	}
}

func (c checks) credentials(path string, a *Appliance) {
	switch {
	case c.failedSecret(path+".api_key") || c.failed(path+".oauth"):
	case a.APIKey.IsSet() && a.OAuth.IsSet():
		c.wrong(path, "has an api_key and oauth; keep the one that this appliance takes")
	case !a.APIKey.IsSet() && !a.OAuth.IsSet():
		c.wrong(path, "has no way to sign in; set api_key_file, or api_key, or oauth for the cloud edition")
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
			c.wrong(item(path+".enrich", i), "%s is there twice; keep one of them", part)
		}
	}
	for _, other := range []struct {
		name string
		d    Duration
	}{{"reconcile.back", d.Reconcile.Back}, {"overlap", d.Overlap}} {
		if d.ForgetAfter <= other.d {
			c.wrong(path+".forget_after", "is %s; it must be longer than %s, which is %s, or detections come twice", d.ForgetAfter, other.name, other.d)
		}
	}
	c.filter(path+".filter", d.Filter)
}

func (c checks) records(path string, q RecordQuery, before map[string]string) {
	c.name(path+".name", q.Name, before)
	for i, kind := range q.Types {
		if kind == "" {
			c.wrong(item(path+".types", i), "is empty; write a record type such as ~dns, or drop the item")
		}
	}
	if q.Recheck > 0 && q.Recheck <= q.Delay {
		c.wrong(path+".recheck", "is %s; it must be longer than delay, which is %s, or 0", q.Recheck, q.Delay)
	}
	c.atLeast(path+".max_window_records", q.MaxWindowRecords, q.PageSize)
}

// categoryPattern takes more than the interface lists, since appliances use more.
var categoryPattern = regexp.MustCompile(`^(sec|perf|custom)(\.[a-z_]+)?$`)

func (c checks) filter(path string, f DetectionFilter) {
	for i, category := range f.Categories {
		c.category(item(path+".categories", i), category)
	}
	if f.Category != "" {
		c.category(path+".category", f.Category)
		if len(f.Categories) > 0 {
			c.wrong(path+".category", "is the old form of categories, which is set, too; keep categories")
		}
	}
	for _, list := range []struct {
		name  string
		texts []string
	}{{"assignee", f.Assignee}, {"ticket_id", f.TicketID}, {"types", f.Types}} {
		for i, text := range list.texts {
			if text == "" {
				c.wrong(item(path+"."+list.name, i), "is empty; write a value, or drop the item")
			}
		}
	}
}

func (c checks) category(path, category string) {
	if !categoryPattern.MatchString(category) {
		c.wrong(path, "%q is no category; write sec, perf or custom, or one of them with a part behind a dot, such as sec.botnet or perf.db", category)
	}
}
