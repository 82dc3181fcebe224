//go:build e2e

package page

import (
	"fmt"
	"net/http"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/chromedp/chromedp"

	"ndrbridge/internal/admin"
	"ndrbridge/test/appliance"
	"ndrbridge/test/assert"
	"ndrbridge/test/loopback"
)

const allIsWell = "All is well"

func TestSinkFailureAndRecoveryAreShown(t *testing.T) {
	a, applianceURL := startAppliance(t)
	soc := loopback.Receive(t)
	url, _ := startBridge(t, settings{appliances: hq(applianceURL), sinks: webhook("soc", soc.URL)})
	p := openTab(t, url)
	p.awaitText("#verdict", allIsWell)
	p.awaitText(card("soc", ".state"), "Running")
	// The elements must stay the same, so that focus and scroll position are kept.
	eval[bool](p, "window.same = "+element(card("soc", ""))+", true")

	soc.Answer(http.StatusServiceUnavailable)
	a.AddMany(3)
	p.awaitText(card("soc", ".state"), "Retrying")
	p.awaitText("#verdict", "1 fault Sink soc retrying: receiver not available (503), next attempt ")
	p.awaitText(card("soc", "dd"), "3 events for")
	soc.Answer(http.StatusUnauthorized)
	p.awaitText(card("soc", ".state"), "Halted")
	p.awaitText("#verdict", "Sink soc halted: key rejected (401), next attempt ")
	p.await("the run book is linked", element("#verdict [data-part=runbook]")+".href.endsWith('/page/runbook.md#:~:text=%23%23%23%20NdrbridgeSinkHalted')")
	p.awaitText(card("soc", "[data-part=error]"), "401")
	p.await("it is announced", element("#announcer")+".textContent.includes('Halted')")
	p.await("it shows in the title", "document.title.startsWith('✕')")
	soc.Answer(0)
	p.click(`[aria-label="Retry now to deliver to sink soc"]`)
	p.awaitText(card("soc", ".state"), "Running")
	p.click(`[aria-label="Send test event to sink soc"]`)
	p.awaitText(card("soc", "[data-part=test-result]"), "The test event was delivered.")
	p.awaitText(card("soc", "[data-part=test-result]"), "204 No Content")
	p.awaitText("#verdict", allIsWell)
	p.awaitText(card("soc", "[data-part=delivered]"), "5") // the halt and its end, too
	assert.True(t, eval[bool](p, "window.same === "+element(card("soc", ""))), "the sink's card was replaced")
}

func TestDeadLetterIsViewedAndRequeued(t *testing.T) {
	a, applianceURL := startAppliance(t)
	soc := loopback.Receive(t)
	soc.Answer(http.StatusUnprocessableEntity)
	a.AddMany(2)
	d := a.Generate()
	d.ID = 1<<53 + 1 // beyond the precision of JavaScript's numbers
	a.Add(d)
	url, _ := startBridge(t, settings{appliances: hq(applianceURL), sinks: webhook("soc", soc.URL)})
	p := openTab(t, url)
	p.awaitText("#verdict", "Sink soc 3 dead letters")
	soc.Answer(0)
	p.click(`[aria-label="View the dead letters of sink soc"]`)
	p.await("all of them are listed", "document.querySelectorAll('.dead-letter').length === 3")
	p.awaitText("#dead-letters", "422")

	const view = `[aria-label^="View event 9007199254740993-"]`
	p.click(view)
	p.awaitText("#json", `"id": 9007199254740993,`)
	p.press("\x1b")
	p.await("Escape closes it", "!"+element("#json")+".open")
	p.await("the focus is back", fmt.Sprintf("document.activeElement.matches(%q)", view))

	p.click(".dead-letter:first-child [data-part=requeue]")
	await(t, "the requeued event", func() bool { n, again := count(soc); return n == 1 && again == 1 })
	p.await("two are left", "document.querySelectorAll('.dead-letter').length === 2")
	p.await("the focus moved to the next one", "document.activeElement.closest('.dead-letter')")

	p.click(".dead-letter:first-child [data-part=drop]")
	p.awaitText("#confirm", "never receives it")
	p.click("#confirm [data-part=no]")
	p.click(".dead-letter:first-child [data-part=drop]")
	p.click("#confirm [data-part=yes]")
	p.await("one is left", "document.querySelectorAll('.dead-letter').length === 1")
	p.await("the question is closed, which takes all clicks", "!"+element("#confirm")+".open")

	p.click("#dead-letters [data-part=requeue-all]")
	p.awaitText("#confirm", "marked as redelivered")
	p.click("#confirm [data-part=yes]")
	await(t, "all but the dropped event", func() bool { n, again := count(soc); return n == 2 && again == 2 })
	p.awaitText("#dead-letters", "There are no dead letters.")
	p.press("\x1b")
	p.awaitText("#verdict", allIsWell)
}

func TestUnconvertedObjectIsViewedAndDropped(t *testing.T) {
	a, applianceURL := startAppliance(t)
	v := a.AddHuge(17 << 20) // larger than the limit of a response
	url, _ := startBridge(t, settings{appliances: hq(applianceURL), sinks: webhook("soc", loopback.Receive(t).URL)})
	p := openTab(t, url)
	p.awaitText("#verdict", "Stream hq/detections 1 object not converted")
	p.click(`[aria-label="View the dead letters of hq/detections"]`)
	p.awaitText("#dead-letters .dead-letter", "Drop")
	assert.False(t, eval[bool](p, "document.querySelector('#dead-letters [data-part=requeue]').checkVisibility()"), "an object of a source can be requeued")
	p.click("#dead-letters [data-part=view]")
	p.awaitText("#json", fmt.Sprint(v.ID))
	p.press("\x1b")
	p.click("#dead-letters [data-part=drop-all]")
	p.click("#confirm [data-part=yes]")
	p.awaitText("#dead-letters", "There are no dead letters.")
	p.press("\x1b")
	p.awaitText("#verdict", allIsWell)
}

func TestApplianceTextIsNotMarkup(t *testing.T) {
	a, applianceURL := startAppliance(t)
	hostile := []string{
		`<img src=x onerror="window.ran=1">`, `<script>window.ran=1</script>`, `"><svg onload=window.ran=1>`, `javascript:window.ran=1`,
		"{{constructor.constructor('window.ran=1')()}}", "a\u202egnp.exe", strings.Repeat("<b>", 3000),
	}
	const id = 4711
	for n, title := range hostile {
		d := a.Generate()
		d.ID, d.Title = id+int64(n), title
		a.Add(d)
	}
	a.AddAuditBody(map[string]any{"user": hostile[0], "operation": hostile[1], "details": map[string]any{"x": hostile[2]}})
	a.AddAuditBody(hostile[0])
	a.AddAuditBody(nil)
	soc := loopback.Receive(t)
	soc.Answer(http.StatusUnprocessableEntity)
	url, _ := startBridge(t, settings{appliances: hq(applianceURL), sinks: webhook("soc", soc.URL)})
	p := openTab(t, url)
	p.await("all events are there", fmt.Sprint("document.querySelectorAll('.event').length === ", len(hostile)+3))
	for _, title := range hostile[:5] {
		p.await("the title is shown as it is", fmt.Sprintf("[...document.querySelectorAll('.event .title')].some((e) => e.textContent === %q)", title))
	}
	for n := range len(hostile) + 3 {
		p.do(clickNth(".event", n))
		p.awaitText("#json", `"specversion"`)
		p.press("\x1b")
	}
	p.click(`[aria-label="View the dead letters of sink soc"]`)
	p.click(fmt.Sprintf(`[aria-label^="View event %d-"]`, id))
	p.awaitText("#json", "onerror")
	assert.False(t, eval[bool](p, "'ran' in window"), "a script of the appliance has run")
	n := eval[int](p, "document.querySelectorAll('img:not([src=\"page/icon.svg\"]), script:not([src=\"page/main.js\"]), b').length")
	assert.True(t, n <= 0, n, "elements come from the appliance")
}

func TestSinkIsPausedAndResumed(t *testing.T) {
	t.Run("with the mouse", func(t *testing.T) {
		a, applianceURL := startAppliance(t)
		soc := loopback.Receive(t)
		url, _ := startBridge(t, settings{appliances: hq(applianceURL), sinks: webhook("soc", soc.URL)})
		p := openTab(t, url)
		p.click(`[aria-label="Pause sink soc"]`)
		p.awaitText(card("soc", ".state"), "Paused")
		a.AddMany(2)
		p.awaitText("#verdict", "1 reminder Sink soc paused, 2 events wait")
		p.click(`[aria-label="Resume sink soc"]`)
		p.awaitText(card("soc", ".state"), "Running")
		await(t, "the events", func() bool { n, _ := count(soc); return n == 2 })
	})
	t.Run("with the keyboard alone", func(t *testing.T) {
		_, applianceURL := startAppliance(t)
		url, _ := startBridge(t, settings{appliances: hq(applianceURL), sinks: webhook("soc", loopback.Receive(t).URL)})
		p := openTab(t, url)
		p.awaitText(card("soc", ".state"), "Running")
		p.tabTo(`[aria-label="Pause sink soc"]`)
		assert.True(t, eval[string](p, "getComputedStyle(document.activeElement).outlineStyle") != "none", "the focus cannot be seen")
		p.press("\r")
		p.awaitText(card("soc", ".state"), "Paused")
		p.await("the focus stays", `document.activeElement.matches('[aria-label="Resume sink soc"]')`)
		p.press("\r")
		p.awaitText(card("soc", ".state"), "Running")
	})
	t.Run("an error is shown beside the button", func(t *testing.T) {
		_, applianceURL := startAppliance(t)
		url, _ := startBridge(t, settings{appliances: hq(applianceURL), sinks: webhook("soc", loopback.Receive(t).URL)})
		p := openTab(t, url)
		p.expectRefusals()
		p.awaitText(card("soc", ".state"), "Running")
		// As if it had been removed from the configuration meanwhile.
		eval[bool](p, "window.fetch = ((f) => (url, o) => f(String(url).replace('soc/pause', 'gone/pause'), o))(window.fetch), true")
		p.click(`[aria-label="Pause sink soc"]`)
		p.awaitText(card("soc", "[data-part=action-error]"), "gone")
	})
}

func TestATestEventIsSent(t *testing.T) {
	_, applianceURL := startAppliance(t)
	soc := loopback.Receive(t)
	url, _ := startBridge(t, settings{appliances: hq(applianceURL), sinks: webhook("soc", soc.URL)})
	p := openTab(t, url)
	const button = `[aria-label="Send test event to sink soc"]`
	p.click(button)
	p.awaitText(card("soc", "[data-part=test-result]"), "The test event was delivered.")
	await(t, "the test event", func() bool { n, _ := count(soc); return n == 1 })
	soc.Answer(http.StatusForbidden)
	p.click(button)
	p.awaitText(card("soc", "[data-part=test-result]"), "The test event was not delivered.")
	p.awaitText(card("soc", "[data-part=test-result]"), "403 Forbidden")
	p.awaitText(card("soc", ".state"), "Running")
}

func TestAnApplianceIsPolledAtOnce(t *testing.T) {
	a, applianceURL := startAppliance(t)
	slow := strings.ReplaceAll(hq(applianceURL), "interval: 50ms", "interval: 1h")
	url, _ := startBridge(t, settings{appliances: slow, sinks: webhook("soc", loopback.Receive(t).URL)})
	p := openTab(t, url)
	p.awaitText("#verdict", allIsWell)
	p.awaitText("#appliances", "Reachable")
	a.AddMany(2)
	p.click(`[aria-label="Poll now: appliance hq"]`)
	p.await("the new events are there", "document.querySelectorAll('.event').length === 2")
}

func TestSignIn(t *testing.T) {
	_, applianceURL := startAppliance(t)
	const token = "correct horse battery staple"
	url, _ := startBridge(t, settings{token: token, appliances: hq(applianceURL), sinks: webhook("soc", loopback.Receive(t).URL)})
	p := newTab(t)
	p.expectRefusals()
	p.do(chromedp.Navigate(url))
	rules := loadAxe(t)
	p.awaitShown("#token-form")
	rules.check(p, "the form")
	p.picture("sign-in", false)
	enter := func(token string) {
		p.await("the field has the focus", "document.activeElement.id === 'token'")
		p.press(strings.Split(token, "")...)
		p.press("\r")
	}
	enter("wrong")
	p.awaitText("#token-error", "This token was rejected")
	assert.Equal(t, eval[int](p, "sessionStorage.length"), 0, "a rejected token is kept")
	enter(token)
	p.awaitText("#verdict", allIsWell)
	p.click(`[aria-label="Pause sink soc"]`)
	p.awaitText(card("soc", ".state"), "Paused")
	assert.True(t, eval[string](p, "document.cookie") == "" && eval[int](p, "localStorage.length") == 0, "something is stored beyond the tab")
	p.click("#sign-out")
	p.awaitShown("#token-form")
	text := eval[string](p, "document.body.textContent")
	assert.True(t, !strings.Contains(text, "soc") && eval[int](p, "sessionStorage.length") == 0, "data remains after signing out")
}

// TestATokenForReadingIsOfferedNoActions signs in with admin.read_token, then with admin.token.
func TestATokenForReadingIsOfferedNoActions(t *testing.T) {
	a, applianceURL := startAppliance(t)
	a.AddMany(2)
	soc := loopback.Receive(t)
	soc.Answer(http.StatusUnprocessableEntity)
	url, _ := startBridge(t, settings{token: "all", readToken: "look", appliances: hq(applianceURL), sinks: webhook("soc", soc.URL)})
	p := newTab(t)
	p.expectRefusals()
	p.do(chromedp.Navigate(url))
	signIn := func(token string) {
		p.await("the field has the focus", "document.activeElement?.id === 'token'")
		p.press(strings.Split(token, "")...)
		p.press("\r")
		p.awaitText("#verdict", "Sink soc 2 dead letters")
		p.click(`[aria-label="View the dead letters of sink soc"]`)
		p.await("all of them are listed", "document.querySelectorAll('.dead-letter').length === 2")
	}
	const offered = `[...document.querySelectorAll("button")].filter((b) => b.checkVisibility()).map((b) => b.textContent).join()`

	signIn("look")
	p.awaitText("header.top", "signed in with read access only")
	got := eval[string](p, offered)
	assert.True(t, !strings.Contains(got, "Pause") && !strings.Contains(got, "Drop") && !strings.Contains(got, "Requeue") && strings.Contains(got, "View"), "it offers", got)
	p.press("\x1b")
	p.click("#sign-out")
	signIn("all")
	got = eval[string](p, offered)
	assert.True(t, strings.Contains(got, "Pause") && strings.Contains(got, "Drop all") && strings.Contains(got, "Requeue all"), "it offers", got)
}

func TestEventsAreFilteredBySeverity(t *testing.T) {
	a, applianceURL := startAppliance(t)
	add := func(title string, risk int) {
		d := a.Generate()
		d.Title, d.RiskScore, d.Categories = title, &risk, []string{"sec"}
		a.Add(d)
	}
	add("quiet", 10)
	add("loud", 99)
	a.AddAudit(1)
	url, _ := startBridge(t, settings{appliances: hq(applianceURL), sinks: webhook("soc", loopback.Receive(t).URL)})
	p := openTab(t, url)
	p.await("all are shown", "document.querySelectorAll('.event').length === 3")
	choose := func(value string) {
		eval[bool](p, fmt.Sprintf("%[1]s.value = %[2]q, %[1]s.dispatchEvent(new Event('change', {bubbles: true}))", element("#severity"), value))
	}
	choose("critical")
	p.await("only the critical one is shown", "[...document.querySelectorAll('.event .title')].map((e) => e.textContent).join() === 'loud'")
	p.awaitText(".event", "critical")
	add("louder", 98)
	add("quieter", 5)
	p.await("new events are filtered", "[...document.querySelectorAll('.event .title')].map((e) => e.textContent).join() === 'louder,loud'")
	choose("")
	p.await("all are shown again", "document.querySelectorAll('.event').length === 5")

	p.click("#freeze")
	add("later", 50)
	p.awaitText("#events-note", "frozen; 1 newer")
	p.await("a frozen list does not change", "document.querySelectorAll('.event').length === 5")
	p.click("#freeze")
	p.awaitText(".event", "later")
}

func TestStoppedBridgeIsShown(t *testing.T) {
	_, applianceURL := startAppliance(t)
	s := settings{state: filepath.Join(t.TempDir(), "state.db"), appliances: hq(applianceURL), sinks: webhook("soc", loopback.Receive(t).URL)}
	url, stop := startBridge(t, s)
	p := openTab(t, url)
	p.expectRefusals()
	p.awaitText("#verdict", allIsWell)
	stop()
	p.awaitText("#verdict", "The bridge does not answer. This page shows its status of")
	p.await("the status is marked as stale", "'stale' in document.body.dataset")
	p.picture("gone", false)
	s.admin = strings.TrimPrefix(url, "http://")
	startBridge(t, s)
	p.awaitText("#verdict", allIsWell)
	p.await("the status is current", "!('stale' in document.body.dataset)")
}

func TestHiddenPageCatchesUp(t *testing.T) {
	a, applianceURL := startAppliance(t)
	a.AddMany(3)
	url, _ := startBridge(t, settings{appliances: hq(applianceURL), sinks: webhook("soc", loopback.Receive(t).URL)})
	p := openTab(t, url)
	p.await("the events are there", "document.querySelectorAll('.event').length === 3")
	for _, hidden := range []bool{true, false} {
		eval[bool](p, fmt.Sprintf("Object.defineProperty(document, 'hidden', {value: %t, configurable: true}), document.dispatchEvent(new Event('visibilitychange'))", hidden))
		a.AddMany(2)
	}
	p.await("all events are there, each of them once", "document.querySelectorAll('.event').length === 7")
	p.awaitText(card("soc", ""), "Delivered 7")
}

func TestJSONAndMessages(t *testing.T) {
	_, applianceURL := startAppliance(t)
	url, _ := startBridge(t, settings{appliances: hq(applianceURL), sinks: webhook("soc", loopback.Receive(t).URL)})
	p := openTab(t, url)
	p.awaitText("#verdict", allIsWell)
	for _, c := range []struct{ name, json, pretty string }{
		{"numbers keep their digits", `{"id":18446744073709551615,"n":1.10,"e":-1E+2}`, "{\n  \"id\": 18446744073709551615,\n  \"n\": 1.10,\n  \"e\": -1E+2\n}"},
		{"empty ones stay on a line", `{"a":[],"b":{ },"c":[[]]}`, "{\n  \"a\": [],\n  \"b\": {},\n  \"c\": [\n    []\n  ]\n}"},
		{"strings may contain anything", `["{\"a\\",",[}:","\\\\"]`, "[\n  \"{\\\"a\\\\\",\n  \",[}:\",\n  \"\\\\\\\\\"\n]"},
		{"literals", `[true,false,null,""]`, "[\n  true,\n  false,\n  null,\n  \"\"\n]"},
		{"a value by itself", `"x"`, `"x"`},
	} {
		t.Run(c.name, func(t *testing.T) {
			assert.Equal(t, eval[string](p, fmt.Sprintf("import('/page/pretty.js').then((m) => m.pretty(%q))", c.json)), c.pretty)
		})
	}
	for _, c := range []struct{ name, json, raw string }{
		{"numbers of a member keep their digits", `{"v":[{"e":{"id":9007199254740993}, "x":1},{"e": [1.10] }]}`, `{"id":9007199254740993}|[1.10]`},
		{"members elsewhere are left out", `{"e":1,"v":[{"x":{"e":2},"y":"e","e":"a,}\"e\":3"}]}`, `"a,}\"e\":3"`},
		{"there is none", `{"v":[]}`, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			assert.Equal(t, eval[string](p, fmt.Sprintf("import('/page/pretty.js').then((m) => m.raw(%q, 'e', 3).join('|'))", c.json)), c.raw)
		})
	}
	for _, c := range []struct{ name, stream, messages string }{
		{"a message has a type and data", "id: 1\nevent: a.b\ndata: {}\n\n", `[{"event":"a.b","data":"{}"}]`},
		{"comments are ignored", ":\n\n: x\n\ndata:1\n\n", `[{"event":"","data":"1"}]`},
		{"lines may end with CRLF", "event: a\r\ndata: 1\r\n\r\n", `[{"event":"a","data":"1"}]`},
		{"data may have lines", "data: 1\ndata: 2\n\n", `[{"event":"","data":"1\n2"}]`},
		{"a message without data is ignored", "event: a\n\ndata: 1\n\n", `[{"event":"","data":"1"}]`},
		{"an incomplete message is ignored", "data: 1\n\ndata: 2\n", `[{"event":"","data":"1"}]`},
	} {
		t.Run(c.name, func(t *testing.T) {
			// The network may deliver a byte at a time.
			got := eval[string](p, fmt.Sprintf(`(async () => {
				const {messages} = await import('/page/messages.js');
				const bytes = new TextEncoder().encode(%q);
				const body = new ReadableStream({start(c) { for (const b of bytes) c.enqueue(new Uint8Array([b])); c.close(); }});
				const all = [];
				for await (const m of messages(body)) all.push(m);
				return JSON.stringify(all);
			})()`, c.stream))
			assert.Equal(t, got, c.messages)
		})
	}
}

func TestUnreachableApplianceIsShown(t *testing.T) {
	a, applianceURL := startAppliance(t)
	url, _ := startBridge(t, settings{appliances: hq(applianceURL), sinks: webhook("soc", loopback.Receive(t).URL)})
	p := openTab(t, url)
	p.awaitText("#appliances .state", "Reachable")
	p.awaitText("#appliances", "firmware 26.3.0.1234")
	a.SetHazards(appliance.Hazards{ServerError: 1, ServerErrorStatus: http.StatusInternalServerError})
	p.awaitText("#appliances .state", "Not reachable")
	p.awaitText("#verdict", "Appliance hq not reachable: ")
	a.SetHazards(appliance.Hazards{})
	p.awaitText("#verdict", allIsWell)
}

func TestClusterIsShown(t *testing.T) {
	_, applianceURL := startAppliance(t)
	url, _ := startBridge(t, settings{appliances: hq(applianceURL), sinks: webhook("soc", loopback.Receive(t).URL)})
	var state atomic.Pointer[admin.Cluster]
	p := openTab(t, withCluster(t, url, state.Load))
	p.awaitText("#verdict", allIsWell)
	p.await("a bridge alone shows no cluster", "!"+element("#cluster")+".checkVisibility()")

	state.Store(someCluster())
	p.awaitText("#cluster-title", "Cluster prod, as seen by bridge-2")
	p.awaitText("#cluster", "bridge-1 owns the log")
	p.awaitText("#cluster", "Generation 2 of the log, ")
	p.awaitText("#verdict", "Cluster no standby is ready")
	p.awaitText("#verdict", "Member bridge-3 reports an error")
	p.awaitText("#cluster", "open /var/lib/ndrbridge/state.db: no space left on device")
	p.awaitText("#verdict", "Member bridge-2 configuration differs")
	p.awaitText(`.member[data-key="bridge-1"]`, "Owns the log")
	p.awaitText(`.member[data-key="bridge-2"]`, "Different configuration")
	p.awaitText(`.member[data-key="bridge-2"]`, "Standby, cannot take over yet")
	p.awaitText(`.member[data-key="bridge-2"]`, "Copy up to message 1200 of generation 2, 3 messages behind")
	p.awaitText(`.member[data-key="bridge-3"]`, "Does not follow the log")

	alone := someCluster()
	alone.Members = alone.Members[:1]
	state.Store(alone)
	p.awaitText("#verdict", "Cluster only one member")
	p.await("the other members are gone", "document.querySelectorAll('.member').length === 1")
	well := someCluster()
	well.Members = well.Members[:2]
	well.Members[1].Config, well.Members[1].Ready = admin.ConfigSame, true
	state.Store(well)
	p.awaitText("#verdict", allIsWell)

	p.expectRefusals()
	lost := someCluster()
	lost.Owner, lost.WithoutOwnerSeconds, lost.Error = "", 90, "NATS lost a part of the log: run ndrbridge cluster recover"
	state.Store(lost)
	p.awaitText("#verdict", "The bridge cannot report its status: no member owns the log.")
	p.awaitText("#verdict", "Cluster no member polls")
	p.awaitText("#cluster", "NATS lost a part of the log: run ndrbridge cluster recover")
	p.awaitText("#cluster", "No owner for 2 min")
	state.Store(well)
	p.awaitText("#verdict", allIsWell)
}
