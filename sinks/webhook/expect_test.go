package webhook_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"ndrbridge/internal/failure"
	"ndrbridge/sinks/webhook"
	"ndrbridge/test/assert"
	"ndrbridge/test/presettest"
	"ndrbridge/test/sinktest"
	"ndrbridge/transform"
)

// answered returns the error of sending an event to a receiver that answers with reply.
func answered(t *testing.T, o webhook.Options, reply presettest.Reply) error {
	s := presettest.Serve(t, func(presettest.Request) presettest.Reply { return reply })
	o.URL = s.URL + "/hooks/s3cretvalue"
	err := open(t, o).Send(t.Context(), sinktest.Events(1, 1, 0))
	if err != nil {
		sinktest.ExpectHidden(t, err, "s3cretvalue")
	}
	return err
}

func TestAnHTMLPageDoesNotAcknowledge(t *testing.T) {
	const login = "<!DOCTYPE html>\n<title>Sign in to /hooks/s3cretvalue</title>"
	for _, test := range []struct {
		name, contentType, body string
		page                    bool
	}{
		{"a login page", "text/html; charset=utf-8", login, true},
		{"a page without a doctype", "text/html", "<html lang=en>", true},
		{"a page with an old doctype", "text/html", `<!doctype HTML PUBLIC "-//W3C//DTD HTML 4.01//EN">`, true},
		{"a page of XHTML", "application/xhtml+xml", "<?xml version=\"1.0\"?>\n<html xmlns=\"http://www.w3.org/1999/xhtml\">", true},
		{"a page behind blanks, comments and a byte order mark", "text/html", "\ufeff\r\n <!-- a --> <!--\nb\n-->" + login, true},
		{"a page of another type", "application/json", login, true},
		{"a long page", "text/html", login + strings.Repeat(" ", 1<<20), true},
		{"Slack's word", "text/html", "ok", false},
		{"a fragment of HTML", "text/html", "<p>Thanks</p>", false},
		{"nothing", "text/html", "", false},
		{"JSON with a page", "application/json", `{"page": "<html>"}`, false},
		{"an element with a longer name", "text/html", "<htmlx>", false},
		{"only a comment", "text/html", "<!-- <html>", false},
	} {
		t.Run(test.name, func(t *testing.T) {
			reply := presettest.Reply{Status: 200, Header: map[string]string{"Content-Type": test.contentType}, Body: test.body}
			for _, o := range []webhook.Options{{}, {Mode: transform.Batch}, {Preset: acceptingPreset()}} {
				err := answered(t, o, reply)
				if !test.page {
					assert.NoError(t, err)
					continue
				}
				sinktest.ExpectFailure(t, err, failure.Halted, "200 OK with an HTML page", "check url")
			}
			assert.NoError(t, answered(t, webhook.Options{Expect: &webhook.Expect{Status: []string{"200"}}}, reply))
		})
	}
}

func TestAPageThatIsCutShortDoesNotAcknowledge(t *testing.T) {
	r := newReceiver(t).start()
	r.answers(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Length", "100")
		fmt.Fprint(w, "<html>")
	})
	s := open(t, webhook.Options{URL: r.server.URL})
	sinktest.ExpectFailure(t, s.Send(t.Context(), sinktest.Events(1, 1, 0)), failure.Halted)
}

// acceptingPreset returns a preset to which every answer acknowledges.
func acceptingPreset() *webhook.Preset {
	return &webhook.Preset{
		Compose: func([]transform.Event) (webhook.Request, error) {
			return webhook.Request{Events: 1, Body: []byte("{}")}, nil
		},
		Judge: func(webhook.Request, webhook.Answer) error { return nil },
	}
}

func TestOnlyAnExpectedAnswerAcknowledges(t *testing.T) {
	status := &webhook.Expect{Status: []string{"200", "202"}}
	header := &webhook.Expect{Headers: map[string]string{"x-ok": "1"}}
	body := &webhook.Expect{JSON: map[string]string{"result.stored": "true", "result.kind": "a b"}}
	const stored = `{"result": {"stored": true, "kind": "a b"}}`
	for _, test := range []struct {
		name   string
		expect *webhook.Expect
		reply  presettest.Reply
		class  failure.Class // empty: it acknowledges
		says   string
	}{
		{"the status", status, presettest.Reply{Status: 202}, "", ""},
		{"another status", status, presettest.Reply{Status: 204}, failure.Halted, "204 No Content, but expect.status is 200 or 202 and the answer has 204"},
		{"the header", header, presettest.Reply{Status: 204, Header: map[string]string{"X-Ok": "1"}}, "", ""},
		{"another header", header, presettest.Reply{Status: 200, Header: map[string]string{"X-Ok": "s3cretvalue"}}, failure.Halted, "expect.headers.x-ok is 1 and the answer has [redacted]"},
		{"no header", header, presettest.Reply{Status: 200, Body: "welcome"}, failure.Halted, "the answer has nothing such, so that it acknowledges no event; check url and expect: welcome"},
		{"the members", body, presettest.Reply{Status: 200, Body: stored}, "", ""},
		{"another member", body, presettest.Reply{Status: 200, Body: `{"result": {"stored": false, "kind": "a b"}}`}, failure.Halted, "expect.json.result.stored is true and the answer has false"},
		{"no member", body, presettest.Reply{Status: 200, Body: `{"result": "a"}`}, failure.Halted, "expect.json.result.kind is a b and the answer has nothing such"},
		{"an object", body, presettest.Reply{Status: 200, Body: `{"result": {"kind": {}}}`}, failure.Halted, "expect.json.result.kind"},
		{"text", body, presettest.Reply{Status: 200, Body: "s3cretvalue"}, failure.Halted, "expect.json is JSON and the answer has nothing such"},
		{"a page", body, presettest.Reply{Status: 200, Body: "<html>"}, failure.Halted, "expect.json is JSON"},
		{"more than is read", body, presettest.Reply{Status: 200, Body: stored[:len(stored)-1] + strings.Repeat(" ", 1<<20) + "}"}, failure.Halted, "expect.json is JSON"},
		{"a redirect", status, presettest.Reply{Status: 302}, failure.Halted, "302"},
		{"a refused event", header, presettest.Reply{Status: 422}, failure.Rejected, "422"},
		{"a server that is down", body, presettest.Reply{Status: 503}, failure.Transient, "503"},
	} {
		t.Run(test.name, func(t *testing.T) {
			err := answered(t, webhook.Options{Expect: test.expect}, test.reply)
			if test.class == "" {
				assert.NoError(t, err)
				return
			}
			sinktest.ExpectFailure(t, err, test.class, test.says)
		})
	}
}

func TestAnExpectedBodyIsComplete(t *testing.T) {
	r := newReceiver(t).start()
	r.answers(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Length", "100")
		fmt.Fprint(w, `{"ok": true}`)
	})
	s := open(t, webhook.Options{URL: r.server.URL, Expect: &webhook.Expect{JSON: map[string]string{"ok": "true"}}})
	sinktest.ExpectFailure(t, s.Send(t.Context(), sinktest.Events(1, 1, 0)), failure.Transient)
}
