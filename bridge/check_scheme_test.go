package bridge_test

import (
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"ndrbridge/bridge"
	"ndrbridge/configs"
	"ndrbridge/preflight"
	"ndrbridge/preflight/preflighttest"
	standin "ndrbridge/test/appliance"
)

func TestCheckSaysThatTheSchemeOfAnApplianceIsWrong(t *testing.T) {
	t.Parallel()
	plain, secured := httptest.NewServer(standin.New(standin.Options{Seed: 1})), httptest.NewTLSServer(standin.New(standin.Options{Seed: 1}))
	defer plain.Close()
	defer secured.Close()
	for name, test := range map[string]struct {
		url  string
		want preflighttest.Row
	}{
		"http to a port that expects TLS":  {strings.Replace(secured.URL, "https:", "http:", 1), preflighttest.Row{Step: "tls", Result: preflight.Failed, Detail: "expects TLS", Advice: "https://"}},
		"https to a port that is in plain": {strings.Replace(plain.URL, "http:", "https:", 1), preflighttest.Row{Step: "tls", Result: preflight.Failed, Detail: "does not speak TLS", Advice: "scheme"}},
		"http to a port that is in plain":  {plain.URL, preflighttest.Row{Step: "key", Result: preflight.OK, Detail: "accepts"}},
		"https to a port that expects TLS": {secured.URL, preflighttest.Row{Step: "key", Result: preflight.OK, Detail: "accepts"}},
	} {
		t.Run(name, func(t *testing.T) {
			yaml := "state: " + t.TempDir() + "/state.db\nappliances: [{name: hq, url: \"" + test.url + "\", api_key: " + standin.DefaultAPIKey + ", tls: {insecure_skip_verify: true}}]\nsinks: [{name: log, file: {path: \"-\"}}]\n"
			config, err := configs.Parse("ndrbridge.yaml", []byte(yaml), nil)
			if err != nil {
				t.Fatal(err)
			}
			preflighttest.Expect(t, bridge.Check(t.Context(), config, bridge.CheckOptions{Timeout: 20 * time.Second, Now: time.Now}), test.want)
		})
	}
}
