package preflight

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"

	"ndrbridge/configs"
	"ndrbridge/internal/appliance"
	"ndrbridge/internal/failure"
	"ndrbridge/internal/finding"
	"ndrbridge/internal/pipeline/endpoint"
	"ndrbridge/poller"
)

// applianceTrial sends an appliance one request of each kind that a bridge sends.
type applianceTrial struct {
	config  configs.Appliance
	tickets bool
	client  *appliance.Client
	now     func() time.Time
	found   []finding.Finding
	clock   bool   // the clocks were compared
	raise   string // the setting that gives a request more time
}

// checkAppliance tries an appliance, and adds what it has to r, unless that is nil.
func checkAppliance(ctx context.Context, a configs.Appliance, tickets bool, o Options, r *rehearsal) []finding.Finding {
	a.RateLimit = 0 // there are only a few sequential requests; the limiter would only use up the time
	// A slow request must time out early enough to leave time for the next ones.
	raise := "timeout"
	if half := configs.Duration(o.Timeout / 2); half < a.Timeout {
		a.Timeout, raise = half, "--timeout"
	}
	client, err := endpoint.NewClient(a, endpoint.ClientOptions{Version: o.Version})
	if err != nil {
		return unusable(err)
	}
	defer client.Close()
	t := &applianceTrial{config: a, tickets: tickets, client: client, now: o.Now, raise: raise}
	if strings.HasPrefix(a.URL, "http://") {
		t.add(finding.Warning, "tls", "plain http: anyone on the network path can read the key and alter responses", "use https in url")
	}
	if strings.HasPrefix(a.OAuth.TokenURL.Value(), "http://") {
		t.add(finding.Warning, "token tls", "plain http: anyone on the network path can read the client secret", "use https in oauth.token_url")
	}
	if !t.signIn(ctx) {
		return t.found
	}
	readable := a.Detections.Enabled && t.detections(ctx)
	if a.Audit.Enabled {
		t.audit(ctx)
	}
	for _, q := range a.Records {
		t.records(ctx, q)
	}
	if tickets {
		t.ticketing(ctx)
	}
	if readable && r != nil {
		t.rehearse(ctx, r)
	}
	return t.found
}

func (t *applianceTrial) add(result finding.Result, step, detail, advice string) {
	t.found = append(t.found, finding.Finding{Step: step, Result: result, Detail: detail, Advice: advice})
}

// signIn sends the first request and adds findings for every step of the connection.
// The request needs a valid key but no privilege. signIn reports whether the other
// requests can be tried.
func (t *applianceTrial) signIn(ctx context.Context) bool {
	paths := t.paths()
	for _, p := range paths {
		ctx = p.Watch(ctx)
	}
	firmware, err := t.client.Firmware(ctx)
	explained := false
	for i, p := range paths {
		var cause error
		if failed, ok := errors.AsType[*appliance.Error](err); ok && failed.Status == 0 && (len(paths) == 1 || forToken(failed) == (i == 0)) {
			cause = failed.Err
		}
		found, why := p.Findings(cause)
		if len(paths) > 1 && i == 0 {
			found = finding.At("token", found)
		}
		t.found = append(t.found, found...)
		explained = explained || why
	}
	if err != nil {
		if !explained {
			t.explainFailure(ctx, err)
		}
		return false
	}
	t.add(finding.OK, "key", "the appliance accepts it", "")
	if least := poller.MinFirmware(); t.config.Detections.Enabled && firmware.Compare(least) < 0 {
		t.add(finding.Failed, "firmware", fmt.Sprintf("%s has no mod_time on detections, which the bridge reads them by", firmware),
			fmt.Sprintf("upgrade the appliance to %s or later, or set detections.enabled to false", least))
		return false
	}
	t.add(finding.OK, "firmware", firmware.String(), "")
	return true
}

// paths returns the path to the appliance, preceded by the path to the token endpoint
// if that is at another address.
func (t *applianceTrial) paths() []*finding.Path {
	to := func(text, key string) *finding.Path {
		u, err := url.Parse(text)
		if err != nil {
			u = &url.URL{} // it was checked when the configuration was read
		}
		p := &finding.Path{Peer: failure.Peer{Address: finding.HostPort(u), Key: key, Now: t.now}, Insecure: t.config.TLS.InsecureSkipVerify}
		proxy, err := endpoint.ProxyURL(t.config.Proxy)
		if proxy == nil && err == nil {
			proxy, _ = http.ProxyFromEnvironment(&http.Request{URL: u})
		}
		if proxy != nil {
			p.Proxy = finding.HostPort(proxy)
		}
		return p
	}
	own := to(t.config.URL, "url")
	if !t.config.OAuth.IsSet() {
		return []*finding.Path{own}
	}
	token := to(t.config.OAuth.TokenURL.Value(), "oauth.token_url")
	if token.Address == own.Address {
		return []*finding.Path{own}
	}
	return []*finding.Path{token, own}
}

// forToken reports whether the first request failed because no token could be obtained:
// tokens are requested by POST, the firmware version by GET.
func forToken(e *appliance.Error) bool { return e.Method == http.MethodPost }

// explainFailure adds a finding that explains why the first request failed.
func (t *applianceTrial) explainFailure(ctx context.Context, err error) {
	e, ok := errors.AsType[*appliance.Error](err)
	if !ok {
		t.found = append(t.found, finding.Failure("answer", err))
		return
	}
	token, _ := url.Parse(t.config.OAuth.TokenURL.Value())
	own, _ := url.Parse(t.config.URL)
	plain := !forToken(e) && own.Scheme == "http" && t.config.Proxy.Value() == ""
	if plain && (e.Status == 0 || e.Status == http.StatusBadRequest) && finding.ExpectsTLS(ctx, finding.HostPort(own)) {
		t.found = append(t.found, finding.PlainToTLS("https"))
		return
	}
	detail := answerText(e)
	switch {
	case forToken(e) && e.Status == http.StatusNotFound:
		t.add(finding.Failed, "token", "the token endpoint "+token.Host+" "+detail,
			"check oauth.token_url; only the cloud edition has a token endpoint: for another one, set api_key_file instead of oauth")
	case forToken(e):
		t.add(finding.Failed, "token", "the token endpoint "+token.Host+" "+detail, "check oauth.token_url, oauth.client_id and the client secret")
	case e.Foreign != "" && (e.Status/100 == 2 || e.Status/100 == 4 && e.Status != http.StatusTooManyRequests && e.Status != http.StatusProxyAuthRequired):
		advice := "set url to the appliance's own address (scheme, host and port), and check what stands in between, such as a proxy with a login page"
		if e.Status == http.StatusNotFound {
			advice += "; if url is right, set product to the product's word"
		}
		t.add(finding.Failed, "interface", "this does not look like an appliance: it "+detail, advice)
	case e.Refused() && t.config.OAuth.IsSet():
		t.add(finding.Failed, "key", "a token was issued, but the appliance "+detail, "check what the owner of oauth.client_id may do, and that url is of the same tenant as oauth.token_url")
	case e.Refused():
		t.add(finding.Failed, "key", "the appliance "+detail,
			"check the API key, that nobody deleted it, that url is the appliance's own address, and that product (now "+t.config.Product+") or scheme_word is the product's word in Authorization; the cloud edition takes no API keys: set oauth there")
	case e.Status == http.StatusNotFound:
		shown := t.config.URL + "/api/v1/explore/ shows in its paths"
		if t.config.OAuth.IsSet() { // the cloud edition has no explorer
			shown = "the paths in the vendor's documentation of the interface begin with, behind /api/v1"
		}
		t.add(finding.Failed, "product", detail+" at "+e.Path, "set product to the product's word, which "+shown+", and check url")
	case e.Status/100 == 2:
		t.add(finding.Failed, "interface", detail, "set url to the appliance's own address")
	case e.Status/100 == 3:
		t.add(finding.Failed, "interface", detail, "set url to the target of the redirect, if that is the appliance; if it is a login page, to the appliance's own address")
	case e.Status == http.StatusTooManyRequests || e.Status/100 == 5:
		t.add(finding.Failed, "interface", detail, "see whether the appliance is starting up or overloaded, and check again")
	case errors.Is(e.Err, context.DeadlineExceeded):
		t.add(finding.Failed, "answer", "the connection is established, but no answer arrives within "+t.config.Timeout.String(), "see whether the appliance is overloaded, or whether something else listens there; or raise "+t.raise)
	default:
		t.add(finding.Failed, "answer", detail, "check url, proxy, and the files of secrets")
	}
}

// answerText describes the response, without advice.
func answerText(e *appliance.Error) string {
	if e.Status == 0 {
		return e.Err.Error()
	}
	text := fmt.Sprintf("answers %d", e.Status)
	if words := http.StatusText(e.Status); words != "" {
		text += " " + words
	}
	if e.Foreign != "" {
		text += " with " + e.Foreign
	}
	if e.Excerpt != "" {
		text += fmt.Sprintf(", %q", e.Excerpt)
	}
	if e.Err != nil && (e.Status/100 == 2 || e.Status/100 == 3) {
		text += ": " + e.Err.Error()
	}
	return text
}

// outOfTime reports whether the time of the trial is over, and adds a finding if so: a
// step that failed or was not begun then proves nothing about the appliance.
func (t *applianceTrial) outOfTime(ctx context.Context, step string) bool {
	if !errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return false
	}
	t.add(finding.Untried, step, "the time of the trial ended before an answer arrived", "raise --timeout")
	return true
}

// explainUnreadable adds a finding that explains why a stream cannot be read. privilege names
// the privilege that reading needs unless the answer names it, without how to run the bridge
// without the stream, filter the keys to check if the request is invalid.
func (t *applianceTrial) explainUnreadable(ctx context.Context, step string, err error, privilege, without, filter string) {
	e, ok := errors.AsType[*appliance.Error](err)
	switch {
	case t.outOfTime(ctx, step):
	case !ok:
		t.found = append(t.found, finding.Failure(step, err))
	case e.Refused():
		if named := e.Privileges(); named != "" {
			privilege = named
		}
		t.add(finding.Failed, step, "the appliance "+answerText(e), "the owner of the key needs "+privilege+"; or "+without)
	case e.Status == http.StatusBadRequest || e.Status == http.StatusUnprocessableEntity:
		t.add(finding.Failed, step, "the appliance "+answerText(e), "see "+filter)
	default:
		t.add(finding.Failed, step, answerText(e), "check again; if the error persists, see the appliance's own log")
	}
}

// ticketing checks whether the appliance accepts ticket changes.
func (t *applianceTrial) ticketing(ctx context.Context) {
	const step = "ticketing"
	enabled, known, err := t.client.Ticketing(ctx)
	tracked := err == nil && known && enabled
	e, _ := errors.AsType[*appliance.Error](err)
	switch {
	case e != nil && (e.Refused() || e.Status == http.StatusNotFound):
		t.add(finding.Remark, step, "whether external ticket tracking is on cannot be read with this key: the appliance "+answerText(e), "")
	case err != nil && t.outOfTime(ctx, step):
	case err != nil:
		t.add(finding.Warning, step, err.Error(), "check again; if the error persists, see the appliance's own log")
	case !known:
		t.add(finding.Remark, step, "the appliance's answer does not show whether external ticket tracking is on", "")
	case !enabled:
		t.add(finding.Failed, step, "external ticket tracking is off", "switch it on in the appliance's administration settings; for a console, also on its sensors")
		return
	default:
		t.add(finding.OK, step, "external ticket tracking is on", "")
	}
	t.write(ctx, tracked)
}

// write sends a change without effect for all detections of a ticket that no detection
// has. A read-only key is refused. Acceptance does not prove that the key may write:
// the interface does not document whether an appliance checks the privileges first.
// tracked means that the appliance is known to accept tickets.
func (t *applianceTrial) write(ctx context.Context, tracked bool) {
	const step = "write"
	err := t.client.PatchTicket(ctx, "ndrbridge-check", appliance.DetectionChange{})
	e, _ := errors.AsType[*appliance.Error](err)
	answer := "accepts it"
	if e != nil {
		answer = answerText(e)
	}
	switch {
	case e != nil && e.Refused():
		t.add(finding.Failed, step, "the key may not write tickets: the appliance "+answer,
			"the owner of the key needs "+cmp.Or(e.Privileges(), "the write privilege")+"; or set tickets.enabled to false")
	case err == nil, e != nil && (e.Status == http.StatusNotFound || e.Status == http.StatusBadRequest || e.Status == http.StatusUnprocessableEntity && tracked):
		t.add(finding.Remark, step, "the key may write, as far as can be tested without changing anything: asked to change a ticket that no detection has, the appliance "+answer, "")
	case t.outOfTime(ctx, step):
	default:
		t.add(finding.Warning, step, err.Error(), "check again; if the error persists, no ticket can be written: see the appliance's own log")
	}
}
