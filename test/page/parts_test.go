//go:build e2e

package page

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/chromedp/chromedp/kb"

	"ndrbridge/test/assert"
	"ndrbridge/test/loopback"
)

func TestTroubledPartsComeFirstAndAreLinked(t *testing.T) {
	a, applianceURL := startAppliance(t)
	soc := loopback.Receive(t)
	soc.Answer(http.StatusUnauthorized)
	a.AddMany(3)
	url, _ := startBridge(t, settings{
		appliances: hq(applianceURL) + "  - {name: away, url: \"http://127.0.0.1:9\", api_key: stand-in-key, retry: {initial: 50ms, max: 200ms}}\n",
		sinks: webhook("first", loopback.Receive(t).URL) +
			strings.Replace(webhook("odd", loopback.Receive(t).URL), "batch:", "match: int(detection.title) > 0, batch:", 1) +
			webhook("soc", soc.URL),
	})
	p := openTab(t, url)
	keys := func(parent string) string {
		return fmt.Sprintf("[...document.querySelectorAll('%s > .card')].map((c) => c.dataset.key).join()", parent)
	}
	p.await("the halted sink is first", keys("#sinks")+" === 'soc,odd,first'")
	p.await("the unreachable appliance is first", keys("#appliances")+" === 'away,hq'")
	p.awaitText(card("soc", ".target"), "127.0.0.1:")
	p.awaitText(card("soc", "[data-part=next-fact]"), "Next attempt")
	p.awaitText(card("soc", ""), "Last delivery none since the start")
	p.await("a sink that runs has no next attempt", element(card("first", "[data-part=next-fact]"))+".hidden")
	p.await("its last delivery is shown, in UTC when one points at it", fmt.Sprintf("/^\\d{4}-\\d\\d-\\d\\d \\d\\d:\\d\\d:\\d\\d UTC$/.test(%s.title)", element(card("first", "[data-part=last]"))))
	p.awaitText("#zone", "Times in ")
	p.awaitText("#verdict", "Sink odd match failed for 3 events")

	p.click(`#verdict a[href="#/sinks/soc"]`)
	p.await("its title has the focus", fmt.Sprintf("document.activeElement === %s", element(card("soc", "h3"))))
	p.await("it is in view", fmt.Sprintf("%s.getBoundingClientRect().top >= 0 && %[1]s.getBoundingClientRect().top < innerHeight", element(card("soc", "h3"))))

	p.run("cards keep their places and the focus while they are used", func(t *testing.T) {
		eval[bool](p, element(card("first", "[data-part=switch]"))+".focus(), true")
		p.press("\r")
		p.awaitText(card("first", ".state"), "Paused")
		p.await("the focus stays", `document.activeElement.matches('[aria-label="Resume sink first"]')`)
		p.press("\r")
	})
	p.run("healthy parts are folded on a phone", func(t *testing.T) {
		p.resize(360, 780)
		p.awaitText(card("first", ".state"), "Running")
		p.await("a healthy sink is folded", "!"+element(card("first", ".fold"))+".checkVisibility()")
		p.await("a troubled one is not", element(card("soc", ".fold"))+".checkVisibility()")
		p.awaitShown(card("odd", "[data-part=match-errors]"))
		p.click(`[aria-label="More about sink first"]`)
		p.await("it is unfolded", element(card("first", ".fold"))+".checkVisibility()")
		p.await("it says so", element(`[aria-label="Less about sink first"]`)+".ariaExpanded === 'true'")
		p.click(`[aria-label="Less about sink first"]`)
		eval[bool](p, "import('/page/route.js').then((r) => r.reveal(['sinks', 'first'])).then(() => true)")
		assert.True(t, eval[bool](p, element(card("first", "[data-part=unfold]"))+".ariaExpanded === 'true'"), "a card that a link unfolds is said to be folded")
	})
	p.run("a match that matches nothing is reported", func(t *testing.T) {
		expression := `import('/page/verdict.js').then((v) => [999, 1000].map((n) => v.matchesNothing({consecutive_filtered: n})).join("|"))`
		if got, want := eval[string](p, expression), "|its match has matched none of the last 1,000 events."; got != want {
			t.Errorf("%s, want %s", got, want)
		}
	})
	p.run("a failure of a match that is over is no trouble", func(t *testing.T) {
		expression := `import('/page/verdict.js').then((v) => [v.trouble({match: {errors: 2}}), v.matchFailure({errors: 2})].join(" "))`
		got, want := eval[string](p, expression), "0 its match failed for 2 events, but for none since it was changed."
		assert.Equal(t, got, want)
	})
	p.run("a card shows that another appliance answers", func(t *testing.T) {
		got := eval[string](p, `import('/page/appliances.js').then(({showAppliances}) => {
			const parent = document.createElement('div');
			showAppliances(parent, [{name: 'x', reachable: true, streams: [], replaced: {since: '2026-01-31T08:00:00Z', reason: 'its serial number differs'}}]);
			return parent.querySelector('[data-part=replaced]').textContent;
		})`)
		assert.Contains(t, got, "another appliance seems to answer under this name: its serial number differs.")
	})
	p.run("a group of dead letters that are gone is not listed", func(t *testing.T) {
		eval[bool](p, `import('/page/dead.js').then(({openDeadLetters}) => {
			const time = '2026-01-31T08:00:00Z';
			const dead_letters = ['1', '2'].map((key) => ({key, time, bytes: 1, class: 'rejected', reason: 'r' + key, reason_kind: 'r' + key}));
			const groups = [1, 5].map((count, i) => ({class: 'rejected', reason: 'r' + (i + 1), count, first: time, last: time}));
			const answers = {'/sinks/soc/dead': {dead_letters, next: '2'}, '/dead': {groups}, '/sinks/soc/requeue': {}};
			const real = window.fetch;
			window.fetch = async (url, o) => {
				const answer = answers[new URL(url).pathname.replace('/api/v1', '')];
				return answer ? Response.json(answer) : real(url, o);
			};
			openDeadLetters({name: 'sink soc', path: ['sinks', 'soc'], sink: 'soc'});
			return true;
		})`)
		p.awaitText("#dead-letters", "1 × rejected: r1")
		p.click(`[aria-label="Requeue 1"]`)
		p.await("the group is gone", "!document.querySelector('#dead-letters').innerText.includes('r1')")
		p.awaitText("#dead-letters", "5 × rejected: r2")
		p.press("\x1b")
	})
	p.run("changes are as people read them", func(t *testing.T) {
		for changes, want := range map[string]string{
			"{end_time: {from: null, to: +new Date(2025, 0, 31, 8, 5, 9)}}":                                                                                  "end time: none → Jan 31, 2025, 08:05:09",
			"{participants: {from: 1, to: 2, added: [{hostname: 'a'}, {object_value: '10.0.0.1'}, null], removed: [{id: 7}], changed: [{username: 'ana'}]}}": "participants: 1 → 2, joined: a, 10.0.0.1, none, left: 7, changed: ana",
			"{end_time: {from: '1795438357278', to: 1e300}, participants: {from: 2, to: [1e12]}}":                                                            "end time: 1795438357278 → 1e+300, participants: 2 → [1000000000000]",
		} {
			expression := "import('/page/describe.js').then((d) => d.changesOf(" + changes + ").map((c) => `${c.field}: ${c.change}`).join(', '))"
			assert.Equal(t, eval[string](p, expression), want, changes)
		}
	})
	p.run("a follow-up says what was learned", func(t *testing.T) {
		for _, test := range []struct{ kind, member, want string }{
			{"hidden", "visibility: {explanation: 'hidden by rule 12', rules: [{id: 12, description: 'Nightly copy', author: 'ada'}, null]}",
				"Scan: hidden · hidden by rule 12 · rule 12 · Nightly copy · ada · rule none"},
			{"noted", "note: {text: 'Isolate <it>.', author: 'ada'}", "Scan: noted · ada · Isolate <it>."},
			{"context", "context: {devices: [{id: 1, name: 'db1', critical: true, on_watchlist: false}, {id: 2}]}", "Scan: context · db1 · critical · device 2"},
			{"evidence", "evidence: {total: 7, records: [{}]}", "Scan: evidence · 1 of 7 records"},
			{"evidence", "evidence: {records: 'x'}", "Scan: evidence · 0 of none records"},
			{"updated", "context: {devices: [{id: 1}]}", "Scan: updated"},
		} {
			expression := "import('/page/describe.js').then((d) => d.describe({type: 'io.ndrbridge.detection." + test.kind + "', data: {detection: {title: 'Scan'}, " + test.member + "}})).then((e) => `${e.title}: ${e.detail}`)"
			assert.Equal(t, eval[string](p, expression), test.want, test.member)
		}
	})
	p.run("the banner names the most severe trouble first", func(t *testing.T) {
		sinks := "[{name: 'a', dead_letters: 1}, {name: 'b', over_lag: true}, {name: 'c', state: 'retrying', error: 'x'}, {name: 'd', state: 'halted', error: 'x'}]"
		expression := "import('/page/verdict.js').then((v) => v.verdict({sinks: " + sinks + ", appliances: [], state: {journal: {}}})).then(({title, lines}) => [title, ...lines.map((l) => l.target[1])].join(' '))"
		assert.Equal(t, eval[string](p, expression), "4 faults d c b a", "sinks")
	})
	p.run("the banner names each writer that fails", func(t *testing.T) {
		status := "{sinks: [], state: {journal: {}}, appliances: [{name: 'a', streams: [], tickets: {state: 'running'}, rules: {state: 'halted', error: 'x'}, notes: {state: 'retrying', error: 'x', cause: 'timeout'}}]}"
		expression := "import('/page/verdict.js').then((v) => v.verdict(" + status + ").lines.map((l) => l.name + ' ' + l.cause).join(', '))"
		assert.Equal(t, eval[string](p, expression), "Tuning rules of a cannot be written: see its error, Notes of a cannot be written: timeout")
	})
	p.run("each fault has a section of the run book", func(t *testing.T) {
		for name, status := range map[string]string{
			"a bridge": `{reload: {ok: false, time: '2026-01-31T08:00:00Z', error: 'x'}, state: {journal: {full: true}}, unconfigured: [{name: 'old'}],
				cluster: {owner: 'a', error: 'x', members: [{member: 'b', error: 'x', config: 'differs'}]},
				sinks: [...['halted', 'stuck', 'retrying', 'paused'].map((state) => ({name: state, state})),
					{name: 'a', fills_journal_in_seconds: 9, over_lag: true, dead_letters: 1, match: {error: 'x', errors: 1, matched: 0, consecutive_filtered: 1000}}],
				appliances: [
					{name: 'a', reachable: false, streams: [{stream: 'audit', dead_letters: 1}], replaced: {}, clock_skew_seconds: 9, tickets: {state: 'halted', error: 'x'}},
					{name: 'b', reachable: false, cause: 'key rejected (401)', streams: [], tickets: {state: 'retrying', error: 'x'}},
					{name: 'c', streams: [{stream: 'audit', failures: 2}, {stream: 'detections', failures: 2, cause: 'key rejected (403)'}]}],
				intakes: [{intake: 'nats', error: 'x'}]}`,
			"a cluster without an owner": `{state: {journal: {}}, sinks: [], appliances: [], cluster: {owner: '', members: []}}`,
			"a cluster of one":           `{state: {journal: {}}, sinks: [], appliances: [], cluster: {owner: 'a', members: [{member: 'a'}]}}`,
		} {
			missing := eval[string](p, `Promise.all([import('/page/verdict.js'), fetch(new URL('/page/runbook.md', location)).then((r) => r.text())]).then(([{verdict}, book]) =>
				verdict(`+status+`).lines.filter((l) => !book.split('\n').includes('### ' + l.section)).map((l) => l.name + ' ' + l.cause).join())`)
			assert.Equal(t, missing, "", name, "shows faults without a section")
		}
	})
	p.run("each mistake in a configuration has a line", func(t *testing.T) {
		got := eval[string](p, `Promise.all(['verdict', 'overall'].map((name) => import('/page/' + name + '.js'))).then(([{verdict}, {showOverall}]) => {
			const reload = {ok: false, time: '2026-01-31T08:00:00Z', error: 'f.yaml:1:1: a\nf.yaml:2:1: b'};
			showOverall(verdict({reload, sinks: [], appliances: [], state: {journal: {}}}));
			return document.getElementById('verdict-more').innerText;
		})`)
		assert.True(t, strings.Contains(got, "f.yaml:1:1: a\nf.yaml:2:1: b."), got)
	})
	p.run("values are as people read them", func(t *testing.T) {
		for expression, want := range map[string]string{
			"count(999_999)": "999,999", "count(1_234_567)": "1.23 million", "exact(1_234_567)": "1,234,567", "exact(5)": "",
			"counted(1, 'event')": "1 event", "rate(2_500_000)": "2.5 million/s", "bytes(1536)": "1.5 KiB", "bytes(3 * 2 ** 30)": "3 GiB",
			"duration(90)": "2 min", "duration(5400)": "1 h 30 min", "until(Date.now() - 1000)": "now", "until(Date.now() + 90_000)": "in 2 min",
			"inUTC('2026-01-31T08:00:00.5+02:00')": "2026-01-31 06:00:00 UTC",
		} {
			assert.Equal(t, eval[string](p, "import('/page/format.js').then((f) => f."+expression+")"), want, expression)
		}
	})
}

func TestChartsAreReadWithPointerAndKeys(t *testing.T) {
	_, applianceURL := startAppliance(t)
	url, _ := startBridge(t, settings{appliances: hq(applianceURL), sinks: webhook("soc", loopback.Receive(t).URL)})
	p := openTab(t, url)
	p.awaitText("#verdict", allIsWell)
	// An hour of values between 10 and 19, with one burst of 5,000 events a second.
	eval[bool](p, `(async () => {
		const figure = document.createElement('figure');
		figure.id = 'probe';
		figure.className = 'chart';
		document.body.append(figure);
		const {chart} = await import('/page/charts.js');
		const {rate} = await import('/page/format.js');
		const values = Array.from({length: 240}, (_, i) => (i === 100 ? 5000 : 10 + (i % 10)));
		chart(figure, {subject: 'Sink x', what: 'Rate', values, step: 15, until: new Date(2026, 0, 31, 12, 0, 0).toISOString(), format: rate});
		window.chart = chart;
		return true;
	})()`)
	p.awaitText("#probe .most", "max 5,000/s, cut at")
	p.await("the usual values are not flattened", "Math.min(...document.querySelector('#probe .line').getAttribute('d').match(/ [\\d.]+/g).slice(0, 50).map(Number)) < 20")
	p.await("the burst is marked", "document.querySelector('#probe .cut').getAttribute('d').match(/M/g).length === 1")
	p.awaitText("#probe .axis", "11:00 11:30 12:00")
	eval[bool](p, "document.querySelector('#probe .plot').focus(), true")
	p.press(kb.ArrowLeft, kb.ArrowLeft)
	p.awaitText("#probe .most", "18/s at ")
	p.awaitText("#probe .most", "11:59:45")
	p.await("it is spoken", `document.querySelector('#probe .plot').ariaValueText.startsWith('18/s at')`)
	p.press("\x1b")
	p.awaitText("#probe .most", "max 5,000/s")
	eval[bool](p, `(() => {
		const plot = document.querySelector('#probe .plot');
		const box = plot.getBoundingClientRect();
		plot.dispatchEvent(new PointerEvent('pointermove', {clientX: box.left + box.width * 100 / 239}));
		return true;
	})()`)
	p.awaitText("#probe .most", "5,000/s at ")
	p.awaitText("#probe .most", "11:25:15")
}
