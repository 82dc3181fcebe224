package appliance

import (
	"encoding/json"
	"strings"
	"testing"

	"ndrbridge/test/require"
)

func TestTheEditionNeverRepeatsTheKey(t *testing.T) {
	key, err := json.Marshal(testKey)
	require.NoError(t, err)
	c := newClient(t, answer(200, "application/json", `{"edition": `+string(key)+`}`))
	if edition, err := c.Edition(t.Context()); err != nil || edition == "" || strings.Contains(edition, testKey) {
		t.Errorf("%q, %v", edition, err)
	}
}

func TestEdition(t *testing.T) {
	for name, test := range map[string]struct{ body, want string }{
		"an edition":      {`{"edition": "cloud"}`, "cloud"},
		"another shape":   {`{"edition": {"name": "cloud"}}`, ""},
		"an array":        {`[]`, ""},
		"a long text":     {`{"edition": "` + strings.Repeat("x", 1000) + `"}`, strings.Repeat("x", 255) + "…"},
		"an odd text":     {"{\"edition\": \"a\\u0007 \\nb\"}", "a b"},
		"nothing like it": {`{}`, ""},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := newClient(t, answer(200, "application/json", test.body)).Edition(t.Context())
			if err != nil || got != test.want {
				t.Errorf("%q, %v, want %q", got, err, test.want)
			}
		})
	}
}
