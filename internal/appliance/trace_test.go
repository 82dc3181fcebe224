package appliance_test

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"go.opentelemetry.io/otel/codes"
	sdk "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"ndrbridge/internal/appliance"
)

func TestRequestsAreTraced(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasSuffix(r.URL.Path, "/auditlog") {
			w.WriteHeader(http.StatusTooManyRequests)
			return
		}
		fmt.Fprint(w, `{"id":7}`)
	}))
	t.Cleanup(server.Close)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	closed := "http://" + l.Addr().String()
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	detection := func(ctx context.Context, c *appliance.Client) { _ = c.Detection(ctx, 7, new(appliance.Page)) }
	for _, c := range []struct {
		name, url string
		ask       func(ctx context.Context, c *appliance.Client)
		span      string
		failed    codes.Code
		want      map[string]string
	}{
		{"under one name for all numbers", server.URL, detection, "GET /api/v1/detections/{id}", codes.Unset, map[string]string{
			"url.full": server.URL + "/api/v1/detections/7", "url.template": "/api/v1/detections/{id}",
			"http.request.method": "GET", "http.response.status_code": "200", "error.type": "",
		}},
		{"without their query, and as failed where the answer says so", server.URL, func(ctx context.Context, c *appliance.Client) {
			_ = c.AuditLog(ctx, 100, 50, new(appliance.Page))
		}, "GET /api/v1/auditlog", codes.Error, map[string]string{
			"url.full": server.URL + "/api/v1/auditlog", "http.response.status_code": "429", "error.type": "429",
		}},
		{"with what failed where no answer came", closed, detection, "GET /api/v1/detections/{id}", codes.Error, map[string]string{
			"http.response.status_code": "", "error.type": "connect",
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			recorder := tracetest.NewSpanRecorder()
			tracer := sdk.NewTracerProvider(sdk.WithSpanProcessor(recorder)).Tracer("test")
			client, err := appliance.New(appliance.Options{
				URL: c.url, Key: func() (string, error) { return "sesame001", nil }, Tracer: tracer,
			})
			if err != nil {
				t.Fatal(err)
			}
			c.ask(t.Context(), client)
			if n := len(recorder.Ended()); n != 0 {
				t.Fatalf("%d spans within none", n)
			}
			ctx, poll := tracer.Start(t.Context(), "poll")
			c.ask(ctx, client)
			spans := recorder.Ended()
			if len(spans) != 1 || spans[0].Name() != c.span || spans[0].Status().Code != c.failed || spans[0].Parent().SpanID() != poll.SpanContext().SpanID() {
				t.Fatalf("%v", spans)
			}
			got := make(map[string]string)
			for _, a := range spans[0].Attributes() {
				got[string(a.Key)] = a.Value.String()
			}
			for name, want := range c.want {
				if got[name] != want {
					t.Errorf("%s is %q, want %q", name, got[name], want)
				}
			}
			if strings.Contains(fmt.Sprint(got, spans[0].Status()), "sesame") {
				t.Errorf("a secret is in %v", got)
			}
		})
	}
}
