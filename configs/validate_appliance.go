package configs

import (
	"math"
	"regexp"
	"slices"
	"time"
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
	if !word.MatchString(a.Product) {
		c.wrong(path+".product", "%q is no word; write letters, digits, - and _", a.Product)
	}
	if a.SchemeWord != "" && !word.MatchString(a.SchemeWord) {
		c.wrong(path+".scheme_word", "%q is no word; write letters, digits, - and _", a.SchemeWord)
	}
	c.positive(path+".timeout", a.Timeout)
	if !(a.RateLimit > 0) || math.IsInf(a.RateLimit, 0) {
		c.wrong(path+".rate_limit", "is %v; write how many requests a second, above 0", a.RateLimit)
	}
	c.tls(path+".tls", a.TLS)
	c.proxy(path+".proxy", a.Proxy)
	c.retry(path+".retry", a.Retry.Initial, a.Retry.Max)
	c.positive(path+".auth_retry", a.AuthRetry)
	c.atLeast(path+".unreachable_after", a.UnreachableAfter, 1)
	if !a.Detections.Enabled && !a.Audit.Enabled && len(a.Records) == 0 {
		c.wrong(path, "has no stream: enable detections or audit, or list records")
	}
	c.detections(path+".detections", a.Detections)
	c.audit(path+".audit", a.Audit)
	names := make(map[string]string)
	for i, q := range a.Records {
		c.records(item(path+".records", i), q, names)
	}
}

var word = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9_-]*$`)

// applianceURL drops a slash at the end, which says nothing.
func (c checks) applianceURL(path string, a *Appliance) {
	if a.URL == "" {
		c.missing(path)
		return
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
	c.positive(path+".interval", d.Interval)
	c.notNegative(path+".overlap", d.Overlap)
	c.between(path+".page_size", d.PageSize, 2, 20000)
	for i, part := range d.Enrich {
		if slices.Contains(d.Enrich[:i], part) {
			c.wrong(item(path+".enrich", i), "%s is there twice; keep one of them", part)
		}
	}
	c.notNegative(path+".reconcile.every", d.Reconcile.Every)
	c.positive(path+".reconcile.back", d.Reconcile.Back)
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

func (c checks) audit(path string, a Audit) {
	c.positive(path+".interval", a.Interval)
	c.between(path+".page_size", a.PageSize, 2, maxPage)
}

// maxPage is how many records the interface returns at most.
const maxPage = 10000

func (c checks) records(path string, q RecordQuery, before map[string]string) {
	c.name(path+".name", q.Name, before)
	for i, kind := range q.Types {
		if kind == "" {
			c.wrong(item(path+".types", i), "is empty; write a record type such as ~dns, or drop the item")
		}
	}
	c.positive(path+".interval", q.Interval)
	c.atLeastMillisecond(path+".window", q.Window)
	c.notNegative(path+".delay", q.Delay)
	c.between(path+".page_size", q.PageSize, 2, maxPage)
	c.notNegative(path+".recheck", q.Recheck)
	if q.Recheck > 0 && q.Recheck <= q.Delay {
		c.wrong(path+".recheck", "is %s; it must be longer than delay, which is %s, or 0", q.Recheck, q.Delay)
	}
	c.atLeast(path+".max_window_records", q.MaxWindowRecords, q.PageSize)
	c.atLeastMillisecond(path+".context_ttl", q.ContextTTL)
}

func (c checks) between(path string, n, least, most int) {
	if n < least || n > most {
		c.wrong(path, "is %d; it must lie between %d and %d", n, least, most)
	}
}

func (c checks) atLeastMillisecond(path string, d Duration) {
	if time.Duration(d) < time.Millisecond {
		c.wrong(path, "is %s; it must be 1ms or longer", d)
	}
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
	if f.RiskScoreMin != nil && (*f.RiskScoreMin < 0 || *f.RiskScoreMin > 100) {
		c.wrong(path+".risk_score_min", "is %d; it must lie between 0 and 100", *f.RiskScoreMin)
	}
}

func (c checks) category(path, category string) {
	if !categoryPattern.MatchString(category) {
		c.wrong(path, "%q is no category; write sec, perf or custom, or one of them with a part behind a dot, such as sec.botnet or perf.db", category)
	}
}
