package kafkaconn_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"

	"ndrbridge/internal/failure"
	"ndrbridge/internal/kafkaconn"
	"ndrbridge/test/assert"
	"ndrbridge/test/require"
)

// signIn signs in to a broker of MSK, which repeats the message if it refuses it.
func signIn(t *testing.T, refuse bool) (message map[string]string, err error) {
	t.Helper()
	client := signingIn(t, kafkaconn.SASL{Mechanism: "aws_msk_iam", Region: "eu-west-1"}, "AWS_MSK_IAM", func(sent []byte, answer *kmsg.SASLAuthenticateResponse) {
		assert.NoError(t, json.Unmarshal(sent, &message))
		if refuse {
			answer.ErrorCode, answer.ErrorMessage = 58, kmsg.StringPtr("access denied to "+string(sent))
		}
	})
	if _, err := client.Connect(t.Context(), t.Context(), "x"); err != nil {
		return message, client.Dialer.Error(t.Context(), err, "ask")
	}
	return message, nil
}

func TestAWSIdentity(t *testing.T) {
	for name, value := range map[string]string{
		"AWS_ACCESS_KEY_ID": "AKIDEXAMPLE", "AWS_SECRET_ACCESS_KEY": "correct-horse", "AWS_SESSION_TOKEN": "battery-staple",
		"AWS_CONFIG_FILE": "/nowhere", "AWS_SHARED_CREDENTIALS_FILE": "/nowhere", "AWS_EC2_METADATA_DISABLED": "true",
	} {
		t.Setenv(name, value)
	}
	message, err := signIn(t, false)
	if err != nil || message["host"] != "127.0.0.1" || !strings.HasPrefix(message["x-amz-credential"], "AKIDEXAMPLE/") ||
		!strings.HasSuffix(message["x-amz-credential"], "/eu-west-1/kafka-cluster/aws4_request") || message["x-amz-security-token"] != "battery-staple" {
		t.Errorf("%v, %v", message, err)
	}
	_, err = signIn(t, true)
	class, _ := failure.ClassOf(err)
	assert.True(t, class == failure.Halted && strings.Contains(err.Error(), "access denied") && !strings.Contains(err.Error(), "staple"), "class", class, err)
	for _, name := range []string{"AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN"} {
		t.Setenv(name, "")
	}
	_, err = signIn(t, false)
	class, _ = failure.ClassOf(err)
	assert.True(t, err != nil && class == failure.Halted && strings.Contains(err.Error(), "AWS credentials"), "without credentials: class", class, err)
}

func TestFailuresOfAWSAreClassified(t *testing.T) {
	token := filepath.Join(t.TempDir(), "token")
	require.NoError(t, os.WriteFile(token, []byte("identity"), 0o600))
	for name, test := range map[string]struct {
		status int // 0: nobody listens
		code   string
		want   failure.Class
	}{
		"nobody listens":             {want: failure.Transient},
		"it is not well":             {http.StatusServiceUnavailable, "ServiceUnavailable", failure.Transient},
		"it is asked too often":      {http.StatusBadRequest, "Throttling", failure.Transient},
		"it refuses the identity":    {http.StatusForbidden, "AccessDenied", failure.Halted},
		"it does not like the token": {http.StatusBadRequest, "InvalidIdentityToken", failure.Halted},
	} {
		t.Run(name, func(t *testing.T) {
			sts := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				w.WriteHeader(test.status)
				fmt.Fprintf(w, "<ErrorResponse><Error><Code>%s</Code><Message>no</Message></Error></ErrorResponse>", test.code)
			}))
			defer sts.Close()
			if test.status == 0 {
				sts.Close()
			}
			for name, value := range map[string]string{
				"AWS_ACCESS_KEY_ID": "", "AWS_SECRET_ACCESS_KEY": "", "AWS_SESSION_TOKEN": "", "AWS_REGION": "", "AWS_DEFAULT_REGION": "",
				"AWS_CONFIG_FILE": "/nowhere", "AWS_SHARED_CREDENTIALS_FILE": "/nowhere", "AWS_EC2_METADATA_DISABLED": "true", "AWS_MAX_ATTEMPTS": "1",
				"AWS_ROLE_ARN": "arn:aws:iam::1:role/ndr", "AWS_WEB_IDENTITY_TOKEN_FILE": token, "AWS_ENDPOINT_URL_STS": sts.URL,
			} {
				t.Setenv(name, value)
			}
			_, err := signIn(t, false)
			class, _ := failure.ClassOf(err)
			assert.True(t, err != nil && class == test.want && strings.Contains(err.Error(), "AWS credentials"), "class", class, err)
		})
	}
}
