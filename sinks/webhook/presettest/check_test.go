package presettest_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"ndrbridge/preflight/finding"
	"ndrbridge/preflight/finding/findingtest"
	"ndrbridge/sinks/webhook"
	"ndrbridge/sinks/webhook/datadog"
	"ndrbridge/sinks/webhook/discord"
	"ndrbridge/sinks/webhook/elasticsearch"
	"ndrbridge/sinks/webhook/pagerduty"
	"ndrbridge/sinks/webhook/slack"
	"ndrbridge/sinks/webhook/splunk"
	"ndrbridge/sinks/webhook/teams"
	"ndrbridge/sinks/webhook/ticketopener"
	"ndrbridge/test/jira"
	"ndrbridge/test/servicenow"
)

const key = "key-0123456789"

// reply answers with a status and JSON.
func reply(w http.ResponseWriter, status int, body string) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	fmt.Fprint(w, body)
}

// strictly refuses what does not show the key, and all that changes something.
func strictly(field, want string, refused func(w http.ResponseWriter), answers map[string]string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, ok := answers[r.Method+" "+r.URL.Path]
		switch {
		case field != "" && r.Header.Get(field) != want:
			refused(w)
		case !ok:
			reply(w, http.StatusNotFound, `{"error":"not found"}`)
		case r.Method == http.MethodPost && r.Header.Get("Content-Type") != "application/json":
			reply(w, http.StatusNotAcceptable, `{"error":"Content-Type is not supported"}`)
		default:
			status, text, _ := strings.Cut(body, " ")
			code := 0
			fmt.Sscan(status, &code)
			reply(w, code, text)
		}
	})
}

func hec(ack string) http.Handler {
	return strictly("Authorization", "Splunk "+key, func(w http.ResponseWriter) {
		reply(w, http.StatusForbidden, `{"text":"Invalid token","code":4}`)
	}, map[string]string{
		"GET /services/collector/health": `200 {"text":"HEC is healthy","code":17}`,
		"POST /services/collector/ack":   ack,
	})
}

func elastic(index, privileges string) http.Handler {
	return strictly("Authorization", "ApiKey "+key, func(w http.ResponseWriter) {
		reply(w, http.StatusUnauthorized, `{"error":{"type":"security_exception","reason":"unable to authenticate"},"status":401}`)
	}, map[string]string{
		"GET /":                                `200 {"version":{"number":"8.15.0"},"tagline":"You Know, for Search"}`,
		"GET /_resolve/index/ndr":              index,
		"POST /_security/user/_has_privileges": privileges,
	})
}

func workspace(info string) http.Handler {
	h := http.NewServeMux()
	h.HandleFunc("GET /api/auth.test", func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "Bearer "+key {
			reply(w, http.StatusOK, `{"ok":false,"error":"invalid_auth"}`)
			return
		}
		reply(w, http.StatusOK, `{"ok":true,"user":"ndrbridge","team":"SOC"}`)
	})
	h.HandleFunc("GET /api/conversations.info", func(w http.ResponseWriter, r *http.Request) {
		if id := r.URL.Query().Get("channel"); id != "C012AB3CD" && id != "D012AB3CD" {
			info = `{"ok":false,"error":"channel_not_found"}`
		}
		reply(w, http.StatusOK, info)
	})
	return h
}

const member = `{"ok":true,"channel":{"name":"alerts","is_member":true,"is_archived":false}}`

func TestCheckOfEachPreset(t *testing.T) {
	toSplunk := func(token string) func(string) (webhook.Preset, error) {
		return func(url string) (webhook.Preset, error) {
			return splunk.New(splunk.Options{URL: url, Token: token})
		}
	}
	toElastic := func(key string) func(string) (webhook.Preset, error) {
		return func(url string) (webhook.Preset, error) {
			return elasticsearch.New(elasticsearch.Options{URL: url + "/ndr", APIKey: key})
		}
	}
	toSlack := func(token, channel string) func(string) (webhook.Preset, error) {
		return func(url string) (webhook.Preset, error) {
			return slack.New(slack.Options{URL: url + "/api", Token: token, Channel: channel})
		}
	}
	toDiscord := func(path string) func(string) (webhook.Preset, error) {
		return func(url string) (webhook.Preset, error) { return discord.New(url + path) }
	}
	toJira := func(project, kind string) func(string) (webhook.Preset, error) {
		return func(url string) (webhook.Preset, error) {
			system, err := ticketopener.NewJira(ticketopener.JiraOptions{URL: url, Project: project, Type: kind})
			return ticketopener.New(ticketopener.Options{System: system, Now: time.Now}), err
		}
	}
	toServiceNow := func(table string) func(string) (webhook.Preset, error) {
		return func(url string) (webhook.Preset, error) {
			system, err := ticketopener.NewServiceNow(ticketopener.ServiceNowOptions{URL: url, Table: table})
			return ticketopener.New(ticketopener.Options{System: system, Now: time.Now}), err
		}
	}
	discordAPI := strictly("", "", nil, map[string]string{"GET /api/webhooks/1/token-token": `200 {"id":"1","type":1,"channel_id":"2"}`})
	acceptor := jira.New(jira.Options{Email: "ana", Token: key, Project: "SEC", Now: time.Now})
	readOnly := jira.New(jira.Options{Email: "ana", Token: key, Project: "SEC", ReadOnly: true, Now: time.Now})
	now := servicenow.New(servicenow.Options{Username: "ana", Password: key, Now: time.Now})
	acks, noAcks := `200 {"acks":{"0":false}}`, `400 {"text":"ACK is disabled","code":14}`
	stream, allowed := `200 {"indices":[],"aliases":[],"data_streams":[{"name":"ndr"}]}`, `200 {"has_all_requested":true}`
	row := func(step string, result finding.Result, detail, advice string) findingtest.Row {
		return findingtest.Row{Step: step, Result: result, Detail: detail, Advice: advice}
	}
	for name, test := range map[string]struct {
		server   http.Handler
		preset   func(url string) (webhook.Preset, error)
		password string // of the account ana
		want     findingtest.Row
	}{
		"splunk, a token with acknowledgement":      {hec(acks), toSplunk(key), "", row("token", finding.OK, "with indexer acknowledgement", "")},
		"splunk, a token without it":                {hec(noAcks), toSplunk(key), "", row("token", finding.Remark, "without indexer acknowledgement", "")},
		"splunk, a wrong token":                     {hec(acks), toSplunk("wrong-token"), "", row("collector", finding.Failed, "Invalid token", "port 8088")},
		"splunk, no collector":                      {http.NotFoundHandler(), toSplunk(key), "", row("collector", finding.Failed, "404", "HTTP Event Collector")},
		"splunk, a collector whose queues are full": {strictly("", "", nil, map[string]string{"GET /services/collector/health": `503 {"text":"HEC is unhealthy","code":18}`}), toSplunk(key), "", row("collector", finding.Warning, "503", "later")},

		"elasticsearch, a data stream":              {elastic(stream, allowed), toElastic(key), "", row("index ndr", finding.OK, "data stream", "")},
		"elasticsearch, a key that may write":       {elastic(stream, allowed), toElastic(key), "", row("privileges", finding.OK, "may create", "")},
		"elasticsearch, an index that will be made": {elastic(`404 {"status":404}`, allowed), toElastic(key), "", row("index ndr", finding.Remark, "is created with", "")},
		"elasticsearch, a wrong key":                {elastic(stream, allowed), toElastic("wrong-key"), "", row("cluster", finding.Failed, "unable to authenticate", "check key")},
		"elasticsearch, a key that may not write":   {elastic(stream, `200 {"has_all_requested":false}`), toElastic(key), "", row("privileges", finding.Failed, "may not create", "create_doc")},
		"opensearch, without privileges":            {elastic(stream, `405 {}`), toElastic(key), "", row("privileges", finding.Untried, "OpenSearch", "replay")},
		"elasticsearch, something else":             {http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { reply(w, 200, "{}") }), toElastic(key), "", row("cluster", finding.Failed, "neither Elasticsearch nor OpenSearch", "check url")},

		"slack, a bot in its channel":        {workspace(member), toSlack(key, "C012AB3CD"), "", row("channel", finding.OK, "alerts", "")},
		"slack, who the bot is":              {workspace(member), toSlack(key, "C012AB3CD"), "", row("token", finding.OK, "ndrbridge in SOC", "")},
		"slack, a wrong token":               {workspace(member), toSlack("wrong-token", "C012AB3CD"), "", row("token", finding.Failed, "invalid_auth", "xoxb-")},
		"slack, a bot that was not invited":  {workspace(strings.Replace(member, `"is_member":true`, `"is_member":false`, 1)), toSlack(key, "C012AB3CD"), "", row("channel", finding.Warning, "alerts", "invite")},
		"slack, a direct message":            {workspace(`{"ok":true,"channel":{"id":"D012AB3CD","is_im":true,"user":"U012AB3CD","is_archived":false}}`), toSlack(key, "D012AB3CD"), "", row("channel", finding.OK, "direct message", "")},
		"slack, a channel that is archived":  {workspace(strings.Replace(member, `"is_archived":false`, `"is_archived":true`, 1)), toSlack(key, "C012AB3CD"), "", row("channel", finding.Failed, "archived", "check channel")},
		"slack, a channel that nobody knows": {workspace(member), toSlack(key, "C0000"), "", row("channel", finding.Failed, "channel_not_found", "invite")},
		"slack, a channel by its name":       {workspace(member), toSlack(key, "#alerts"), "", row("channel", finding.Untried, "not an id", "channel's id")},
		"slack, a bot without the scope":     {workspace(`{"ok":false,"error":"missing_scope"}`), toSlack(key, "C012AB3CD"), "", row("channel", finding.Untried, "missing_scope", "channels:read")},
		"slack, an incoming webhook":         {http.NotFoundHandler(), func(string) (webhook.Preset, error) { return slack.New(slack.Options{}) }, "", row("delivery", finding.Untried, "cannot be checked", "ndrbridge render")},
		"teams":                              {http.NotFoundHandler(), func(string) (webhook.Preset, error) { return teams.Preset{}, nil }, "", row("delivery", finding.Untried, "cannot be checked", "ndrbridge render")},
		"pagerduty": {http.NotFoundHandler(), func(u string) (webhook.Preset, error) {
			return pagerduty.New(pagerduty.Options{URL: u, RoutingKey: strings.Repeat("a", 32)})
		}, "", row("delivery", finding.Untried, "cannot be checked", "ndrbridge render")},
		"discord, a webhook that is there":       {discordAPI, toDiscord("/api/webhooks/1/token-token"), "", row("webhook", finding.OK, "knows the webhook", "")},
		"discord, a webhook that was removed":    {discordAPI, toDiscord("/api/webhooks/1/another-token"), "", row("webhook", finding.Failed, "404", "copy url")},
		"jira, an account that may open issues":  {acceptor, toJira("SEC", "Task"), key, row("permission", finding.OK, "may open", "")},
		"jira, a wrong token":                    {acceptor, toJira("SEC", "Task"), "wrong-token", row("account", finding.Failed, "401", "check auth")},
		"jira, another project":                  {acceptor, toJira("OPS", "Task"), key, row("project OPS", finding.Failed, "404", "ticket.project")},
		"jira, a type that the project lacks":    {acceptor, toJira("SEC", "Epic"), key, row("project SEC", finding.Failed, "type Epic", "Task, Bug")},
		"jira, an account that only reads":       {readOnly, toJira("SEC", "Task"), key, row("permission", finding.Failed, "may not open", "Create issues")},
		"servicenow, an account that may read":   {now, toServiceNow("incident"), key, row("table incident", finding.OK, "may read", "")},
		"servicenow, a wrong password":           {now, toServiceNow("incident"), "wrong-password", row("table incident", finding.Failed, "401", "check auth")},
		"servicenow, a table that is not there":  {now, toServiceNow("nothing"), key, row("table nothing", finding.Failed, "404", "ticket.type")},
		"a service that hangs up on its callers": {http.HandlerFunc(func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }), toDiscord("/api/webhooks/1/token-token"), "", row("webhook", finding.Failed, "EOF", "check url")},
	} {
		t.Run(name, func(t *testing.T) {
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if r.Method == http.MethodPost && !strings.Contains(r.URL.Path, "/ack") && !strings.Contains(r.URL.Path, "_has_privileges") {
					t.Errorf("%s %s: it may have changed something", r.Method, r.URL.Path)
				}
				test.server.ServeHTTP(w, r)
			}))
			defer server.Close()
			preset, err := test.preset(server.URL)
			if err != nil {
				t.Fatal(err)
			}
			o := webhook.Options{URL: server.URL, Preset: preset}
			if u, err := url.Parse(server.URL); err == nil && test.password != "" {
				u.User = url.UserPassword("ana", test.password)
				o.URL = u.String()
			}
			s, err := webhook.New(o)
			if err != nil {
				t.Fatal(err)
			}
			defer s.Close()
			found := s.Check(t.Context(), time.Now)
			findingtest.Expect(t, found, test.want)
			if text := findingtest.Lines(found); strings.Contains(text, "wrong-") || strings.Contains(text, key) {
				t.Errorf("a secret is shown: %s", text)
			}
		})
	}
}

func TestDatadogIsCheckedAtTheAPIOfTheSite(t *testing.T) {
	const intake = "http-intake.logs.site.example"
	api := strictly("DD-API-KEY", key, func(w http.ResponseWriter) { reply(w, http.StatusForbidden, `{"errors":["Forbidden"]}`) },
		map[string]string{"GET /api/v1/validate": `200 {"valid":true}`})
	// The names are fictitious: they are reached through a proxy, which receives the host.
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Host != "api.site.example" {
			t.Errorf("%s was asked", r.Host)
		}
		api.ServeHTTP(w, r)
	}))
	defer server.Close()
	proxy, err := url.Parse(server.URL)
	if err != nil {
		t.Fatal(err)
	}
	for name, test := range map[string]struct {
		host, key string
		want      findingtest.Row
	}{
		"a valid key":                  {intake, key, findingtest.Row{Step: "key", Result: finding.OK, Detail: "knows"}},
		"a wrong key":                  {intake, "wrong-key", findingtest.Row{Step: "key", Result: finding.Failed, Detail: "403", Advice: "application key"}},
		"a relay, which is not a site": {"relay.example", key, findingtest.Row{Step: "delivery", Result: finding.Untried, Detail: "cannot be checked", Advice: "ndrbridge render"}},
	} {
		t.Run(name, func(t *testing.T) {
			preset, err := datadog.New(datadog.Options{URL: "http://" + test.host + "/api/v2/logs", APIKey: test.key})
			if err != nil {
				t.Fatal(err)
			}
			s, err := webhook.New(webhook.Options{URL: "http://" + test.host + "/api/v2/logs", Proxy: proxy, Preset: preset})
			if err != nil {
				t.Fatal(err)
			}
			defer s.Close()
			found := s.Check(t.Context(), time.Now)
			findingtest.Expect(t, found, test.want)
			if text := findingtest.Lines(found); strings.Contains(text, test.key) {
				t.Errorf("a secret is shown: %s", text)
			}
		})
	}
}
