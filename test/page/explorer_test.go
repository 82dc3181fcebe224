//go:build e2e

package page

import (
	"fmt"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/chromedp"

	"ndrbridge/test/appliance"
	"ndrbridge/test/appliance/explorer"
	"ndrbridge/test/appliance/openapi"
	"ndrbridge/test/assert"
	"ndrbridge/test/require"
)

func TestExplorerListsEveryOperation(t *testing.T) {
	p, _ := openExplorer(t)
	description, err := openapi.Load("service")
	require.NoError(t, err)
	var want []string
	for _, o := range description.Operations {
		want = append(want, o.Method+o.Path)
	}
	p.await("all are listed", fmt.Sprintf("document.querySelectorAll('.opblock').length >= %d", len(want)))
	listed := strings.Fields(eval[string](p, `[...document.querySelectorAll('.opblock')].map((e) =>
		e.querySelector('.opblock-summary-method').textContent + e.querySelector('.opblock-summary-path').dataset.path).join(' ')`))
	slices.Sort(listed)
	slices.Sort(want)
	assert.EqualSlices(t, listed, want, "it lists")
}

func TestExplorerSendsCallsAndShowsSamples(t *testing.T) {
	p, applianceURL := openExplorer(t)
	const version = ".opblock:has([data-path='/service/version']) "
	p.click(version + ".opblock-summary-control")
	for _, language := range []string{"cURL", "Python", "Ruby"} {
		p.wantSample(version, language, applianceURL+"/api/v1/service/version", "Authorization", "Service apikey=KEY")
	}

	credential := "Service apikey=" + appliance.DefaultAPIKey
	p.click(".auth-wrapper .authorize")
	p.click("#api_key_value")
	p.press(strings.Split(credential, "")...)
	p.click("form:has(#api_key_value) .authorize")
	p.click(".modal-ux .btn-done")
	p.click(version + ".execute")
	p.awaitText(version+".live-responses-table tbody .response-col_status", "200")
	p.awaitText(version+".live-responses-table tbody .response-col_description", `"version": "26.3.0.1234"`)

	// The samples are of what was sent now.
	run(t, "bash", p.wantSample(version, "cURL", credential))
	run(t, "python3", p.wantSample(version, "Python", credential))
	p.wantSample(version, "Ruby", credential)

	const create = ".opblock-post:has([data-path='/emailgroups']) "
	p.click(create + ".opblock-summary-control")
	p.wantSample(create, "Python", `method="POST"`, `"Content-Type": "application/json"`, `\"group_name\":`, `\"email_addresses\":`)
	p.wantSample(create, "Ruby", "Net::HTTP::Post", `\"group_name\":`)

	const change = ".opblock-patch:has([data-path='/emailgroups/{id}']) "
	p.click(change + ".opblock-summary-control")
	p.awaitText(change, "x-privileges")
	p.awaitText(change, "Fields that are not sent keep their values.")
}

// openExplorer opens the explorer of an appliance. The test fails if the page requests anything
// from another server.
func openExplorer(t *testing.T) (p *tab, applianceURL string) {
	t.Helper()
	_, applianceURL = startAppliance(t)
	p = newTab(t)
	requested := watchRequests(p)
	t.Cleanup(func() {
		for _, url := range requested() {
			assert.True(t, strings.HasPrefix(url, applianceURL+"/") || strings.HasPrefix(url, "data:"), "it requests", url)
		}
	})
	p.do(chromedp.Navigate(applianceURL + explorer.Path))
	return p, applianceURL
}

// run runs a sample, which must print the version.
func run(t *testing.T, program, sample string) {
	t.Helper()
	output, err := exec.CommandContext(t.Context(), program, "-c", sample).CombinedOutput()
	assert.True(t, err == nil && strings.Contains(string(output), `{"version":"26.3.0.1234"}`), "it prints", string(output), err, sample)
}

// wantSample returns the sample in a language of the operation that a selector matches. It
// checks that the sample has the given parts.
func (p *tab) wantSample(operation, language string, parts ...string) string {
	p.t.Helper()
	button := fmt.Sprintf("[...document.querySelectorAll(%q)].find((e) => e.textContent === %q)", operation+".request-snippets .btn", language)
	p.await(language+" is offered", button)
	eval[bool](p, button+".click(), true")
	p.await(language+" is chosen", button+".classList.contains('active')")
	sample := eval[string](p, element(operation+".request-snippets pre")+".textContent")
	for _, part := range parts {
		assert.Contains(p.t, sample, part, "the sample in", language, "lacks")
	}
	return sample
}

// watchRequests returns a function that returns the addresses that a tab has requested.
func watchRequests(p *tab) (requested func() []string) {
	p.t.Helper()
	var mu sync.Mutex
	var urls []string
	if err := chromedp.Listen(p.ctx, func(event any) {
		if sent, ok := event.(*network.EventRequestWillBeSent); ok {
			mu.Lock()
			defer mu.Unlock()
			urls = append(urls, sent.Request.URL)
		}
	}); err != nil {
		p.t.Fatal(err)
	}
	call(p, network.Enable, network.EnableParams{})
	return func() []string {
		mu.Lock()
		defer mu.Unlock()
		return slices.Clone(urls)
	}
}
