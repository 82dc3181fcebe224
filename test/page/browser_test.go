//go:build e2e

// Package page tests the status page in Chromium, with a bridge that runs in this
// process. The build tag e2e excludes it from go test ./... because it needs more than
// Go: chromium or google-chrome in PATH, and axe-core, which npm ci --ignore-scripts
// installs here. make page runs both.
package page

import (
	"context"
	"encoding/json"
	"fmt"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/audits"
	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"

	"ndrbridge/test/require"
)

// patience is the time limit for a change to show on the page.
const patience = 20 * time.Second

// tab is a page in its own browser.
type tab struct {
	t   *testing.T
	ctx context.Context

	mu       sync.Mutex
	errors   []string // that the browser reported
	refusals bool     // error responses are expected
}

// openTab returns a newTab that has navigated to a URL.
func openTab(t *testing.T, url string) *tab {
	t.Helper()
	p := newTab(t)
	p.do(chromedp.Navigate(url))
	return p
}

// newTab starts a browser that runs until the test ends. The test fails if the browser
// reports errors, warnings or violations of the security policy.
func newTab(t *testing.T) *tab {
	t.Helper()
	program, err := exec.LookPath("chromium")
	if err != nil {
		program, err = exec.LookPath("google-chrome")
		require.NoError(t, err, "install chromium")
	}
	options := []chromedp.ExecAllocatorOption{chromedp.ExecPath(program)} // chromedp makes and removes the profile
	for _, flag := range []string{
		"headless", "no-sandbox", "disable-gpu", "disable-quic", "no-first-run", "disable-background-networking",
		"disable-component-update", "disable-sync", "disable-dev-shm-usage",
	} {
		options = append(options, chromedp.Flag(flag, true))
	}
	allocator, stop := chromedp.NewExecAllocator(context.Background(), options...)
	t.Cleanup(stop)
	p := &tab{t: t}
	var closeTab func()
	p.ctx, closeTab = chromedp.NewContext(allocator)
	t.Cleanup(closeTab)
	require.NoError(t, chromedp.Listen(p.ctx, p.listen))
	t.Cleanup(func() {
		for _, e := range p.reported() {
			t.Error("the browser reports: ", e)
		}
	})
	call(p, audits.Enable, cdp.Empty{})
	p.resize(1280, 900)
	return p
}

// run runs a subtest that uses the tab.
func (p *tab) run(name string, test func(t *testing.T)) {
	parent := p.t
	parent.Run(name, func(t *testing.T) {
		p.t = t
		defer func() { p.t = parent }()
		test(t)
	})
}

func call[P, R any](p *tab, command cdp.Command[P, R], params P) R {
	p.t.Helper()
	result, err := chromedp.Call(p.ctx, command, params)
	require.NoError(p.t, err)
	return result
}

func (p *tab) do(steps ...chromedp.Action[chromedp.Void]) {
	p.t.Helper()
	ctx, stop := context.WithTimeout(p.ctx, patience)
	defer stop()
	require.NoError(p.t, chromedp.Do(ctx, steps...))
}

func (p *tab) listen(event any) {
	var text string
	switch e := event.(type) {
	case *runtime.EventExceptionThrown:
		text = e.ExceptionDetails.Text
		if e.ExceptionDetails.Exception != nil {
			text += " " + e.ExceptionDetails.Exception.Description
		}
	case *runtime.EventConsoleAPICalled:
		if e.Type != runtime.ConsoleAPICalledTypeError && e.Type != runtime.ConsoleAPICalledTypeWarning {
			return
		}
		for _, a := range e.Args {
			text += string(a.Value) + a.Description
		}
	case *log.EventEntryAdded:
		if e.Entry.Level != log.EntryLevelError && e.Entry.Level != log.EntryLevelWarning {
			return
		}
		p.mu.Lock()
		expected := p.refusals && e.Entry.Source == log.EntrySourceNetwork
		p.mu.Unlock()
		if expected {
			return
		}
		text = fmt.Sprintf("%s: %s %s", e.Entry.Source, e.Entry.Text, e.Entry.URL)
	case *audits.EventIssueAdded:
		if e.Issue.Code != audits.InspectorIssueCodeContentSecurityPolicyIssue {
			return
		}
		details, _ := json.Marshal(e.Issue.Details)
		text = string(details)
	default:
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.errors = append(p.errors, text)
}

func (p *tab) reported() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.errors)
}

// expectRefusals ignores error responses and failed requests, which the browser reports
// as errors.
func (p *tab) expectRefusals() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.refusals = true
}

func (p *tab) resize(width, height int64) {
	p.t.Helper()
	call(p, emulation.SetDeviceMetricsOverride, emulation.SetDeviceMetricsOverrideParams{
		Width: width, Height: height, DeviceScaleFactor: 1, Mobile: width < 600,
	})
}

// prefer sets the colour scheme, light or dark.
func (p *tab) prefer(scheme string) {
	p.t.Helper()
	call(p, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{Features: []*emulation.MediaFeature{
		{Name: "prefers-color-scheme", Value: scheme}, {Name: "prefers-reduced-motion", Value: "reduce"},
	}})
}

// eval returns the value of a JavaScript expression.
func eval[T any](p *tab, expression string) T {
	p.t.Helper()
	v, err := tryEval[T](p, expression)
	require.NoError(p.t, err, expression)
	return v
}

func tryEval[T any](p *tab, expression string) (T, error) {
	ctx, stop := context.WithTimeout(p.ctx, patience)
	defer stop()
	return chromedp.Run(ctx, chromedp.Evaluate[T](expression, func(e *runtime.EvaluateParams) { e.AwaitPromise = new(true) }))
}

// await waits until a JavaScript expression is true, also of the page that replaces the current one
// meanwhile.
func (p *tab) await(what, expression string) {
	p.t.Helper()
	for deadline := time.Now().Add(patience); ; time.Sleep(20 * time.Millisecond) {
		switch holds, err := tryEval[bool](p, "Boolean("+expression+")"); {
		case err == nil && holds:
			return
		case err != nil && !strings.Contains(err.Error(), "Inspected target navigated"):
			p.t.Fatalf("%s: %v", expression, err)
		case time.Now().After(deadline):
			p.t.Fatalf("gave up waiting: %s\nThe page shows:\n%s", what, eval[string](p, "document.body.innerText"))
		}
	}
}

// element returns JavaScript for the element that a selector matches.
func element(selector string) string { return fmt.Sprintf("document.querySelector(%q)", selector) }

// awaitText waits until an element's text contains text, ignoring line breaks.
func (p *tab) awaitText(selector, text string) {
	p.t.Helper()
	p.await(fmt.Sprintf("%s shows %q", selector, text), fmt.Sprintf("%s?.innerText.replace(/\\s+/g, ' ').includes(%q)", element(selector), text))
}

// awaitShown waits until an element is visible.
func (p *tab) awaitShown(selector string) {
	p.t.Helper()
	p.await(selector+" is shown", element(selector)+"?.checkVisibility()")
}

// click clicks an element with the mouse when it is visible.
func (p *tab) click(selector string) {
	p.t.Helper()
	p.awaitShown(selector)
	p.do(chromedp.Click(chromedp.CSS(selector)))
}

// press presses keys one after the other.
func (p *tab) press(keys ...string) {
	p.t.Helper()
	for _, key := range keys {
		p.do(chromedp.KeyEvent(key))
	}
}

// tabTo presses Tab until the focused element matches a selector.
func (p *tab) tabTo(selector string) {
	p.t.Helper()
	var passed []string
	for range 100 {
		p.press("\t")
		if eval[bool](p, fmt.Sprintf("document.activeElement.matches(%q)", selector)) {
			return
		}
		passed = append(passed, eval[string](p, "document.activeElement.outerHTML.slice(0, 80)"))
	}
	p.t.Fatalf("Tab does not reach %s, only:\n%s", selector, strings.Join(passed, "\n"))
}

// card returns the selector of a sink's card, or of a part of it.
func card(sink, part string) string {
	return strings.TrimSpace(fmt.Sprintf("#sinks > [data-key=%q] %s", sink, part))
}

// clickNth clicks the element with index n among those that a selector matches.
func clickNth(selector string, n int) chromedp.Action[chromedp.Void] {
	return chromedp.Evaluate[chromedp.Void](fmt.Sprintf("document.querySelectorAll(%q)[%d].click()", selector, n))
}
