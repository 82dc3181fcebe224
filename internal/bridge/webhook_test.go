package bridge_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"

	"ndrbridge/test/assert"
	"ndrbridge/test/require"
)

func TestASigningSecretIsChangedWhileTheBridgeRuns(t *testing.T) {
	const old, current = "whsec_b2xkb2xkb2xkb2xkb2xkb2xkb2xkb2xk", "whsec_bmV3bmV3bmV3bmV3bmV3bmV3bmV3bmV3"
	_, url := startAppliance(t, 10)
	check := require.Value(standardwebhooks.NewWebhook(current))(t)
	var accepted, refused atomic.Int64
	soc := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if body, err := io.ReadAll(r.Body); err == nil && check.Verify(body, r.Header) == nil {
			accepted.Add(1)
			return
		}
		refused.Add(1)
		w.WriteHeader(http.StatusUnauthorized)
	}))
	t.Cleanup(soc.Close)
	secret := filepath.Join(t.TempDir(), "secret")
	require.NoError(t, os.WriteFile(secret, []byte(old+"\n"), 0o600))
	r := run(t, configuration(t, url, `  - {name: soc, probe: 20ms, webhook: {url: "`+soc.URL+`", sign: {secret_files: ["`+secret+`"]}}}`))
	await(t, "the old secret's signature to be refused", func() bool { return refused.Load() > 0 })
	require.NoError(t, os.WriteFile(secret, []byte(current+"\n"), 0o600))
	await(t, "everything, signed by the new one", func() bool { return accepted.Load() == 10 })
	r.stop()
	assert.NotContains(t, r.log.String(), "whsec_", "the log shows a secret")
}
