package bridge

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"

	"ndrbridge/appliance"
	"ndrbridge/configs"
	"ndrbridge/poller"
	"ndrbridge/preflight"
)

// applianceTrial asks an appliance what a bridge asks it, a little of each.
type applianceTrial struct {
	config  configs.Appliance
	tickets bool
	client  *appliance.Client
	now     func() time.Time
	found   []preflight.Finding
	clock   bool   // it was compared
	raise   string // what gives a request more time
}

// checkAppliance tries an appliance. kept, if set, is what the state keeps of it.
func checkAppliance(ctx context.Context, a configs.Appliance, kept *identityPosition, tickets bool, o CheckOptions) []preflight.Finding {
	a.RateLimit = 0 // a few requests, one after the other: waiting for a turn would only use up the time
	// Who is late is said to be, and leaves time to what is asked next.
	raise := "timeout"
	if half := configs.Duration(o.Timeout / 2); half < a.Timeout {
		a.Timeout, raise = half, "--timeout"
	}
	client, err := newClient(a, o.Version, nil, nil, nil)
	if err != nil {
		return unusable(err)
	}
	defer client.Close()
	t := &applianceTrial{config: a, tickets: tickets, client: client, now: o.Now, raise: raise}
	if strings.HasPrefix(a.URL, "http://") {
		t.add(preflight.Warning, "tls", "plain http: whoever is on the way can read the key, and change what is shown", "use https in url")
	}
	if strings.HasPrefix(a.OAuth.TokenURL.Value(), "http://") {
		t.add(preflight.Warning, "token tls", "plain http: whoever is on the way can read the client secret", "use https in oauth.token_url")
	}
	if !t.signIn(ctx) {
		return t.found
	}
	if kept != nil {
		t.identity(ctx, *kept)
	}
	if a.Detections.Enabled {
		t.detections(ctx)
	}
	if a.Audit.Enabled {
		t.audit(ctx)
	}
	for _, q := range a.Records {
		t.records(ctx, q)
	}
	if tickets {
		t.ticketing(ctx)
	}
	return t.found
}

func (t *applianceTrial) add(result preflight.Result, step, detail, advice string) {
	t.found = append(t.found, preflight.Finding{Step: step, Result: result, Detail: detail, Advice: advice})
}

// signIn makes the first request, and tells all of the way there. What it asks for
// needs a key and no privilege.
func (t *applianceTrial) signIn(ctx context.Context) bool {
	ways := t.ways()
	for _, w := range ways {
		ctx = w.Watch(ctx)
	}
	firmware, err := t.client.Firmware(ctx)
	explained := false
	for i, w := range ways {
		var cause error
		if failed, ok := errors.AsType[*appliance.Error](err); ok && failed.Status == 0 && (len(ways) == 1 || forToken(failed) == (i == 0)) {
			cause = failed.Err
		}
		found, why := w.Findings(cause)
		if len(ways) > 1 && i == 0 {
			found = preflight.At("token", found)
		}
		t.found = append(t.found, found...)
		explained = explained || why
	}
	if err != nil {
		if !explained {
			t.refused(ctx, err)
		}
		return false
	}
	t.add(preflight.OK, "key", "the appliance accepts it", "")
	if least := poller.MinFirmware(); t.config.Detections.Enabled && firmware.Compare(least) < 0 {
		t.add(preflight.Failed, "firmware", fmt.Sprintf("%s has no mod_time on detections, which they are read by", firmware),
			fmt.Sprintf("upgrade the appliance to %s or later, or set detections.enabled to false", least))
		return false
	}
	t.add(preflight.OK, "firmware", firmware.String(), "")
	return true
}

// ways are those to the token endpoint, if that is elsewhere, and to the appliance.
func (t *applianceTrial) ways() []*preflight.Path {
	to := func(text, key string) *preflight.Path {
		u, err := url.Parse(text)
		if err != nil {
			u = &url.URL{} // it was checked when the configuration was read
		}
		w := &preflight.Path{Address: preflight.HostPort(u), Key: key, Now: t.now, Insecure: t.config.TLS.InsecureSkipVerify}
		proxy, err := proxyURL(t.config.Proxy)
		if proxy == nil && err == nil {
			proxy, _ = http.ProxyFromEnvironment(&http.Request{URL: u})
		}
		if proxy != nil {
			w.Proxy = preflight.HostPort(proxy)
		}
		return w
	}
	own := to(t.config.URL, "url")
	if !t.config.OAuth.IsSet() {
		return []*preflight.Path{own}
	}
	token := to(t.config.OAuth.TokenURL.Value(), "oauth.token_url")
	if token.Address == own.Address {
		return []*preflight.Path{own}
	}
	return []*preflight.Path{token, own}
}

// forToken reports whether the first request failed before it was sent, since there was
// no token for it: the version is asked for by GET.
func forToken(e *appliance.Error) bool { return e.Method == http.MethodPost }

// refused words why the first request failed.
func (t *applianceTrial) refused(ctx context.Context, err error) {
	e, ok := errors.AsType[*appliance.Error](err)
	if !ok {
		t.found = append(t.found, preflight.Failure("answer", err))
		return
	}
	token, _ := url.Parse(t.config.OAuth.TokenURL.Value())
	own, _ := url.Parse(t.config.URL)
	plain := !forToken(e) && own.Scheme == "http" && t.config.Proxy.Value() == ""
	if plain && (e.Status == 0 || e.Status == http.StatusBadRequest) && preflight.ExpectsTLS(ctx, preflight.HostPort(own)) {
		t.found = append(t.found, preflight.PlainToTLS("https"))
		return
	}
	detail := answerText(e)
	switch {
	case forToken(e):
		t.add(preflight.Failed, "token", "the token endpoint "+token.Host+" "+detail, "check oauth.token_url, oauth.client_id and the client secret")
	case e.Refused() && t.config.OAuth.IsSet():
		t.add(preflight.Failed, "key", "a token was given out, and the appliance "+detail, "check what the owner of oauth.client_id may do, and that url is of the same tenant as oauth.token_url")
	case e.Refused():
		t.add(preflight.Failed, "key", "the appliance "+detail,
			"check the API key, that nobody deleted it, and that product (now "+t.config.Product+") or scheme_word is the product's word in Authorization")
	case e.Status == http.StatusNotFound:
		t.add(preflight.Failed, "product", detail+" at "+e.Path,
			"set product to the product's word, which "+t.config.URL+"/api/v1/explore/ shows in its paths, and check url")
	case e.Status/100 == 2:
		t.add(preflight.Failed, "interface", detail, "set url to the appliance's own address: a portal, a proxy or a page to sign in at answers there")
	case e.Status/100 == 3:
		t.add(preflight.Failed, "interface", detail, "set url to where it leads, if that is the appliance")
	case e.Status == http.StatusTooManyRequests || e.Status/100 == 5:
		t.add(preflight.Failed, "interface", detail, "see whether the appliance starts up or is overloaded, and check again")
	case errors.Is(e.Err, context.DeadlineExceeded):
		t.add(preflight.Failed, "answer", "the connection stands, and no answer comes within "+t.config.Timeout.String(), "see whether the appliance is overloaded, or whether something else listens there; or raise "+t.raise)
	default:
		t.add(preflight.Failed, "answer", detail, "check url, proxy, and the files of secrets")
	}
}

// answerText is what came back, without the advice that goes with it.
func answerText(e *appliance.Error) string {
	if e.Status == 0 {
		return e.Err.Error()
	}
	text := fmt.Sprintf("answers %d", e.Status)
	if words := http.StatusText(e.Status); words != "" {
		text += " " + words
	}
	if e.Excerpt != "" {
		text += fmt.Sprintf(", %q", e.Excerpt)
	}
	if e.Err != nil && (e.Status/100 == 2 || e.Status/100 == 3) {
		text += ": " + e.Err.Error()
	}
	return text
}

// outOfTime tells of a step that failed, or was not begun, since the time of the trial
// is over: that says nothing against the appliance.
func (t *applianceTrial) outOfTime(ctx context.Context, step string) bool {
	if !errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return false
	}
	t.add(preflight.Untried, step, "the time of the trial ended before there was an answer", "raise --timeout")
	return true
}

// unreadable words why a stream cannot be read. privilege is what its reader needs.
func (t *applianceTrial) unreadable(ctx context.Context, step string, err error, privilege, filter string) {
	e, ok := errors.AsType[*appliance.Error](err)
	switch {
	case t.outOfTime(ctx, step):
	case !ok:
		t.found = append(t.found, preflight.Failure(step, err))
	case e.Refused():
		t.add(preflight.Failed, step, "the appliance "+answerText(e), "the owner of the key needs "+privilege)
	case e.Status == http.StatusBadRequest || e.Status == http.StatusUnprocessableEntity:
		t.add(preflight.Failed, step, "the appliance "+answerText(e), "see "+filter)
	default:
		t.add(preflight.Failed, step, answerText(e), "check again; if it stays, see the appliance's own log")
	}
}
