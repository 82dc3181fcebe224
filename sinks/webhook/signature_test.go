package webhook

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"ndrbridge/test/assert"
	"ndrbridge/test/require"
)

func TestTheVectorOfTheSpecification(t *testing.T) {
	text := require.Value(os.ReadFile("testdata/signature.json"))(t)
	var vector struct {
		Secret, ID, Body, Signature string
		Timestamp                   int64
	}
	require.NoError(t, json.Unmarshal(text, &vector))
	key := require.Value(ParseSignKey(vector.Secret))(t)
	header := make(http.Header)
	setSignatures(header, vector.ID, time.Unix(vector.Timestamp, 0), []byte(vector.Body), []SignKey{key})
	for name, want := range map[string]string{
		"webhook-id": vector.ID, "webhook-timestamp": fmt.Sprint(vector.Timestamp), "webhook-signature": vector.Signature,
	} {
		assert.Equal(t, header.Get(name), want, name)
	}
}

func TestParseSignKey(t *testing.T) {
	bytes := func(n int) string { return base64.StdEncoding.EncodeToString([]byte(strings.Repeat("k", n))) }
	for _, test := range []struct{ name, text, want string }{
		{"a secret as it is given out is read", "whsec_" + bytes(24), ""},
		{"the prefix may be missing", bytes(64), ""},
		{"a line end behind it does not count", "whsec_" + bytes(32) + "\n", ""},
		{"invalid base64 is an error", "whsec_s3cret!", "is not valid base64 after the optional whsec_"},
		{"an empty secret is an error", "", "is 0 bytes long"},
		{"a secret that is too short is an error", bytes(23), "is 23 bytes long when decoded; it must be 24 to 64"},
		{"a secret that is too long is an error", bytes(65), "is 65 bytes long"},
	} {
		t.Run(test.name, func(t *testing.T) {
			key, err := ParseSignKey(test.text)
			require.True(t, (fmt.Sprint(err) == "<nil>" || test.want != "" && strings.Contains(err.Error(), test.want)) && (err != nil || test.want == ""), err, test.want)
			shown := fmt.Sprintf("%v %+v %#v", key, key, key)
			assert.True(t, !strings.Contains(shown, "kkk") && !strings.Contains(shown, "107"), "it shows", shown)
		})
	}
}
