package appliance

import (
	"encoding/json"
	"fmt"
	"html"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"ndrbridge/test/assert"
	"ndrbridge/test/loopback"
)

func TestUnsuccessfulAnswers(t *testing.T) {
	const page = "<!DOCTYPE html>\n<html><head><title>\n Bad &amp; gone </title></head><body>" + "secret words</body></html>"
	for name, test := range map[string]struct {
		status    int
		body      string
		excerpt   string
		refused   bool
		throttled bool
		says      string
	}{
		"a key that is wrong":                  {401, `{"error_message": "Invalid access token"}`, "Invalid access token", true, false, "check the API key"},
		"a key that may not":                   {403, ``, "", true, false, "403 Forbidden: check the API key"},
		"a privilege that is missing":          {403, `{"error_message": "the user ana lacks the privilege ndr: full"}`, "the user ana lacks the privilege ndr: full", true, false, "grant the owner of the credentials ndr: full"},
		"several that are missing":             {403, `requires "write": "limited" and system=full, write: limited`, `requires "write": "limited" and system=full, write: limited`, true, false, "grant the owner of the credentials write: limited, system: full"},
		"words like those of a privilege":      {403, `rewrite: full system backup`, `rewrite: full system backup`, true, false, "check the API key"},
		"a privilege in another answer":        {401, `ndr: full`, `ndr: full`, true, false, "check the API key"},
		"the short text about a token":         {400, "invalid", "invalid", true, false, "check the API key"},
		"the short text with a line end":       {400, "invalid\n", "invalid", true, false, ""},
		"the short text with an escape":        {400, `invalid\n`, `invalid\n`, true, false, ""},
		"the text about a token":               {400, "The specified access token is invalid", "The specified access token is invalid", true, false, ""},
		"the text about a token, with a stop":  {400, " The specified access token is invalid.\r\n", "The specified access token is invalid.", true, false, ""},
		"the text about a token, as JSON":      {400, `"invalid"`, "invalid", true, false, ""},
		"a filter that is wrong":               {400, `{"error_message": "invalid filter"}`, "invalid filter", false, false, "400 Bad Request"},
		"a text that begins like a refusal":    {400, "invalid sort field", "invalid sort field", false, false, ""},
		"the text about a token with a 500":    {500, "invalid", "invalid", false, false, ""},
		"a path that is not there":             {404, `{"type": "about:blank", "detail": "No such resource"}`, "No such resource", false, false, "check that url is the appliance's own address"},
		"a problem document without a detail":  {404, `{"type": "x", "title": "Not there", "detail": null}`, "Not there", false, false, ""},
		"an empty message before a full one":   {422, `{"error_message": "", "detail": "off"}`, "off", false, false, ""},
		"a detail that is not text":            {422, `{"detail": [{"msg": "bad"}]}`, `[{"msg": "bad"}]`, false, false, ""},
		"JSON without a message":               {422, `{"failures": 3}`, `{"failures": 3}`, false, false, ""},
		"JSON that is cut short":               {500, `{"detail": "x`, `{"detail": "x`, false, false, ""},
		"a method that is not allowed":         {405, "", "", false, false, "answered 405 Method Not Allowed"},
		"too many requests":                    {429, "slow down", "slow down", false, true, ""},
		"an outage without a time":             {503, "", "", false, false, ""},
		"an HTML page":                         {502, page, "Bad & gone", false, false, ""},
		"an HTML page without a title":         {502, "<html><body>no</body></html>", "an HTML page", false, false, ""},
		"text with control characters":         {500, "a\x00b\x1b[31m\tc\r\n\r\nd\u202ee\xff", "ab[31m c de�", false, false, ""},
		"a status that nobody knows":           {599, "", "", false, false, "answered 599"},
		"a proxy that requires a password":     {407, "", "", false, false, "set them in proxy"},
		"a long text":                          {500, strings.Repeat("ä", 5000), strings.Repeat("ä", 255) + "…", false, false, ""},
		"a text that is just not too long":     {500, strings.Repeat("ä", 256), strings.Repeat("ä", 256), false, false, ""},
		"a text without end":                   {500, strings.Repeat("x", 1<<20), strings.Repeat("x", 255) + "…", false, false, ""},
		"a success without the body it is for": {204, "", "", false, false, "the answer is empty"},
	} {
		t.Run(name, func(t *testing.T) {
			c := newClient(t, answer(test.status, "", test.body))
			e := failureOf(t, c.SearchDetections(t.Context(), anySearch, new(Page)))
			assert.True(t, e.Status == test.status && e.Excerpt == test.excerpt && e.Refused() == test.refused && e.Throttled() == test.throttled, e)
			assert.Equal(t, e.Method, "POST")
			assert.Equal(t, e.Path, "/api/v1/detections/search")
			assert.Contains(t, e.Error(), test.says, e, "does not say")
			assert.NotContains(t, e.Error(), "secret words", "more than the title of the page", e)
		})
	}
}

func TestAMissingDetection(t *testing.T) {
	c := newClient(t, answer(404, "application/json", `{"error_message": "Not found"}`))
	e := failureOf(t, c.Detection(t.Context(), 7, new(Page)))
	assert.True(t, e.Status == 404 && e.Path == "/api/v1/detections/7" && e.Err == nil, e)
	_, err := c.DetectionModTime(t.Context(), 7)
	assert.Equal(t, failureOf(t, err).Status, 404, err)
	_, err = c.Firmware(t.Context())
	e = failureOf(t, err)
	assert.Contains(t, e.Error(), "product", e)
}

func TestAnswersWithTheWrongContent(t *testing.T) {
	const login = "<!DOCTYPE html><html><head><title>Sign in</title></head></html>"
	for name, test := range map[string]struct {
		contentType, body string
		excerpt, says     string
	}{
		"a login page":                      {"text/html", login, "Sign in", "an HTML page, not JSON"},
		"a login page that says it is JSON": {"application/json", " \n" + login, "Sign in", "an HTML page, not JSON"},
		"a fragment of HTML":                {"text/html; charset=utf-8", "<p>hi</p>", "<p>hi</p>", "an HTML page, not JSON"},
		"nothing":                           {"application/json", "", "", "the answer is empty"},
		"white space":                       {"application/json", " \n", "", "the answer is empty"},
		"text":                              {"text/plain", "try later", "try later", "is not JSON at byte 2"},
		"null":                              {"application/json", "null", "null", "the answer is null"},
		"a string":                          {"application/json", `"closed"`, "closed", "the answer is a string"},
		"a boolean":                         {"application/json", `true`, "true", "the answer is a boolean"},
		"a number":                          {"application/json", `5`, "5", "the answer is a number"},
		"an object with an error":           {"application/json", `{"error_message": "no database"}`, "no database", "the answer is an object"},
		"a wrapped array":                   {"application/json", `{"detections": [{"id": 1}]}`, "", "the answer is an object"},
		"an array of numbers":               {"application/json", `[1]`, "", "element 0 of the answer is a number"},
		"an array of arrays":                {"application/json", `[{}, []]`, "", "element 1 of the answer is an array"},
		"an array with a null":              {"application/json", `[{}, {}, null]`, "", "element 2 of the answer is null"},
		"JSON cut short in an object":       {"application/json", `[{"id": 1}, {"id": `, "", "the answer's JSON is incomplete, it ends after 19 bytes"},
		"JSON cut short between objects":    {"application/json", `[{"id": 1},`, "", "the answer's JSON is incomplete"},
		"JSON cut short behind an object":   {"application/json", `[{"id": 1}`, "", "the answer's JSON is incomplete"},
		"JSON cut short at the start":       {"application/json", `[`, "", "the answer's JSON is incomplete"},
		"a comma too many":                  {"application/json", `[{"id": 1},]`, "", "is not JSON at byte 10"},
		"a comma missing":                   {"application/json", `[{"id": 1} {"id": 2}]`, "", "is not JSON at byte 11"},
		"two arrays":                        {"application/json", `[{"id": 1}] [{"id": 2}]`, "", "the answer has data after its JSON"},
		"an array and text":                 {"application/json", `[]x`, "", "the answer has data after its JSON"},
		"an array and a page":               {"text/html", `[]` + login, "", "the answer has data after its JSON"},
		"an invalid number":                 {"application/json", `[{"id": 01}]`, "", "is not JSON"},
		"a NaN":                             {"application/json", `[{"id": NaN}]`, "", "is not JSON"},
		"a line break in a string":          {"application/json", "[{\"id\": \"\n\"}]", "", "is not JSON"},
		"a byte that is not UTF-8 outside strings": {"application/json", "[{\"id\": \xff}]", "", "is not JSON"},
		"nesting without end":                      {"application/json", `[{"a":` + strings.Repeat("[", 100000), "", "is not JSON"},
	} {
		t.Run(name, func(t *testing.T) {
			c := newClient(t, answer(200, test.contentType, test.body))
			page := Page{Objects: []Object{{}}}
			e := failureOf(t, c.SearchDetections(t.Context(), anySearch, &page))
			assert.True(t, e.Status == 200 && e.Excerpt == test.excerpt && strings.Contains(e.Error(), test.says), e, "excerpt", e.Excerpt)
			assert.True(t, !e.Refused() && !e.Throttled() && len(page.Objects) == 0, e, len(page.Objects), "objects")
			_, err := c.SearchDetectionIDs(t.Context(), anySearch)
			assert.True(t, err != nil || test.body == "[1]", "taken for ids")
			_, err = c.Firmware(t.Context())
			assert.Error(t, err, "taken for a version")
		})
	}
}

func TestADetectionThatIsNotOneObject(t *testing.T) {
	for _, body := range []string{"", "[]", `[{"id":1}]`, "null", "<html>", `{"id":1`, `{"id":1}{"id":2}`, `{"id":1}]`, `{"id" 1}`} {
		c := newClient(t, answer(200, "", body))
		page := Page{Objects: []Object{{}}}
		failureOf(t, c.Detection(t.Context(), 1, &page))
		assert.Equal(t, len(page.Objects), 0, body, "objects")
		_, err := c.DetectionModTime(t.Context(), 1)
		assert.True(t, err != nil || strings.HasPrefix(body, "{"), body, "has a detection")
	}
}

func TestADetectionCutShortIsNotShown(t *testing.T) {
	c := newClient(t, answer(200, "", `{"title": "from 192.0.2.7`))
	e := failureOf(t, c.Detection(t.Context(), 1, new(Page)))
	assert.Equal(t, e.Excerpt, "", e)
}

// raw answers every connection with the same bytes and closes it.
func raw(t *testing.T, text string) string {
	t.Helper()
	return "http://" + loopback.Serve(t, func(conn net.Conn) {
		conn.SetDeadline(time.Now().Add(5 * time.Second))
		conn.Read(make([]byte, 64<<10))
		io.WriteString(conn, text)
	})
}

func TestAnswersCutShort(t *testing.T) {
	const head = "HTTP/1.1 200 OK\r\nDate: Sun, 06 Nov 1994 08:49:37 GMT\r\n"
	for name, test := range map[string]struct{ answer, says string }{
		"in its length":           {head + "Content-Length: 100\r\n\r\n[{\"id\":1}]", "incomplete"},
		"in its chunks":           {head + "Transfer-Encoding: chunked\r\n\r\n2\r\n[]\r\n", "incomplete"},
		"in its head":             {head, "incomplete"},
		"before it began":         {"", "incomplete"},
		"without saying its size": {head + "Connection: close\r\n\r\n[{\"id\":1}", "JSON is incomplete"},
		"in its compression":      {head + "Content-Encoding: gzip\r\nContent-Length: 10\r\n\r\n\x1f\x8b\x08\x00\x00\x00\x00\x00\x00\x00", "incomplete"},
	} {
		t.Run(name, func(t *testing.T) {
			address := raw(t, test.answer)
			c := newClientOf(t, func(o *Options) { o.URL = address })
			e := failureOf(t, c.SearchDetections(t.Context(), anySearch, new(Page)))
			assert.Contains(t, e.Error(), test.says, e)
			_, err := c.DetectionModTime(t.Context(), 1)
			failureOf(t, err)
		})
	}
}

func TestAPageWithoutADateIsAnError(t *testing.T) {
	for _, date := range []string{"", "Date: yesterday\r\n"} {
		address := raw(t, "HTTP/1.1 200 OK\r\n"+date+"Content-Length: 2\r\n\r\n[]")
		c := newClientOf(t, func(o *Options) { o.URL = address })
		page := Page{Objects: []Object{{}}}
		e := failureOf(t, c.SearchDetections(t.Context(), anySearch, &page))
		assert.True(t, e.Status == 200 && strings.Contains(e.Error(), "whether a proxy removes") && len(page.Objects) == 0, e)
	}
}

func TestAnAnswerThatIsNotAnAppliancesIsDescribed(t *testing.T) {
	long := strings.Repeat("x", 300)
	for name, test := range map[string]struct {
		status                    int
		contentType, server, body string
		want                      string
	}{
		"a web server":                       {404, "text/html; charset=utf-8", "nginx", "<html>", "text/html from nginx"},
		"one that does not name itself":      {404, "text/html", "", "<html>", "text/html"},
		"XML":                                {401, "text/xml", "Splunkd", "<?xml?>", "text/xml from Splunkd"},
		"a page that says it is JSON":        {200, "application/json", "gate", "\n<html>", "a page from gate"},
		"a page with 200":                    {200, "text/html", "gate", "<html>", "text/html from gate"},
		"a server with a long name":          {404, "text/html", long, "", "text/html from " + long[:240] + "…"},
		"JSON is the appliance's":            {404, "application/json", "nginx", "{}", ""},
		"a problem document is":              {404, "application/problem+json", "nginx", "{}", ""},
		"plain text is":                      {400, "text/plain", "nginx", "invalid", ""},
		"an unknown type of what is no page": {400, "", "nginx", "invalid", ""},
	} {
		t.Run(name, func(t *testing.T) {
			c := newClient(t, func(w http.ResponseWriter, r *http.Request) {
				w.Header()["Content-Type"], w.Header()["Server"] = []string{test.contentType}, []string{test.server}
				w.WriteHeader(test.status)
				io.WriteString(w, test.body)
			})
			e := failureOf(t, c.SearchDetections(t.Context(), anySearch, new(Page)))
			assert.Equal(t, e.Foreign, test.want)
			assert.Contains(t, e.Error(), test.want)
		})
	}
}

func TestRedirectsAreNotFollowed(t *testing.T) {
	for location, says := range map[string]string{
		"/login?next=%2Fapi&token=" + url.QueryEscape(testKey): "/login; redirects are not followed",
		"https://u:pw@sso.example/saml?SAMLRequest=abc#frag":   "redirected to https://sso.example/saml;",
		"": "redirects are not followed",
	} {
		t.Run(location, func(t *testing.T) {
			requests := 0
			c := newClient(t, func(w http.ResponseWriter, r *http.Request) {
				requests++
				if location != "" {
					w.Header().Set("Location", location)
				}
				w.WriteHeader(302)
			})
			e := failureOf(t, c.SearchDetections(t.Context(), anySearch, new(Page)), "SAMLRequest", "u:pw", "next=")
			assert.True(t, e.Status == 302 && requests == 1 && strings.Contains(e.Error(), says), requests, "requests", e)
		})
	}
}

// Whatever a server repeats of a request, and however, no error shows the key.
func TestTheKeyIsNeverRepeated(t *testing.T) {
	quoted, _ := json.Marshal(testKey)
	for name, echo := range map[string]string{
		"as it is":          testKey,
		"behind a scheme":   "Authorization: Service apikey=" + testKey,
		"cut by controls":   testKey[:3] + "\x00" + testKey[3:],
		"as a JSON string":  strings.Trim(string(quoted), `"`),
		"in a query":        url.QueryEscape(testKey),
		"in HTML":           html.EscapeString(testKey),
		"at the limit":      strings.Repeat("x", 250) + testKey,
		"again and again":   strings.Repeat(testKey, 100),
		"behind the limits": strings.Repeat("\x01", maxDrain-3) + testKey,
	} {
		for _, format := range []string{
			"%s", `{"error_message": "no: %s"}`, `{"error": {"sent": "%s"}}`, `{"unknown": "%s"}`, `"%s"`,
			"<html><title>%s</title></html>", `[{"%s": `,
		} {
			for _, status := range []int{200, 302, 400} {
				t.Run(fmt.Sprintf("%s in %s with %d", name, format, status), func(t *testing.T) {
					c := newClientOf(t, func(o *Options) {
						o.URL = "http://sensor.example"
						o.Transport = roundTrip(func(r *http.Request) (*http.Response, error) {
							header := http.Header{"Location": {"/" + url.PathEscape(echo)}, "Content-Type": {echo}, "Server": {echo}, "Date": {echo}}
							return respond(r, status, header, fmt.Sprintf(format, echo))
						})
					})
					hidden := []string{url.QueryEscape(testKey), html.EscapeString(testKey), testKey[:8]}
					failureOf(t, c.SearchDetections(t.Context(), anySearch, new(Page)), hidden...)
					_, err := c.Firmware(t.Context())
					failureOf(t, err, hidden...)
				})
			}
		}
	}
	t.Run("in place of an answer", func(t *testing.T) {
		address := raw(t, testKey+"\r\n\r\n")
		c := newClientOf(t, func(o *Options) { o.URL = address })
		e := failureOf(t, c.SearchDetections(t.Context(), anySearch, new(Page)))
		assert.Contains(t, e.Error(), "[redacted]", e)
	})
}

func TestOnlyTextsOfTheServerAreRedacted(t *testing.T) {
	const key = "appliance's own address" // words of the client's own advice
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.WriteHeader(http.StatusNotFound)
		fmt.Fprintf(w, "you sent %s", r.Header.Get("Authorization"))
	}))
	defer server.Close()
	c := newClientOf(t, func(o *Options) { o.URL, o.Key = server.URL, func() (string, error) { return key, nil } })
	_, err := c.Firmware(t.Context())
	text := failureOf(t, err).Error()
	assert.True(t, strings.Contains(text, "[redacted]") && strings.Contains(text, wrongAddress), text)
}
