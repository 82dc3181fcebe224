package kafkaconn_test

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	kafka "github.com/segmentio/kafka-go"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"

	"ndrbridge/internal/failure"
	"ndrbridge/internal/kafkaconn"
)

// signIn signs in to a broker of MSK, which repeats the message if it refuses it.
func signIn(t *testing.T, refuse bool) (message map[string]string, err error) {
	t.Helper()
	broker, err := kfake.NewCluster(kfake.NumBrokers(1))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(broker.Close)
	broker.ControlKey(int16(kmsg.SASLHandshake), func(r kmsg.Request) (kmsg.Response, error, bool) {
		broker.KeepControl()
		if name := r.(*kmsg.SASLHandshakeRequest).Mechanism; name != "AWS_MSK_IAM" {
			t.Errorf("the mechanism is %s", name)
		}
		return r.ResponseKind(), nil, true
	})
	broker.ControlKey(int16(kmsg.SASLAuthenticate), func(r kmsg.Request) (kmsg.Response, error, bool) {
		broker.KeepControl()
		answer, sent := r.ResponseKind().(*kmsg.SASLAuthenticateResponse), r.(*kmsg.SASLAuthenticateRequest).SASLAuthBytes
		if err := json.Unmarshal(sent, &message); err != nil {
			t.Error(err)
		}
		if refuse {
			answer.ErrorCode, answer.ErrorMessage = 58, kmsg.StringPtr("access denied to "+string(sent))
		}
		return answer, nil, true
	})
	login, err := kafkaconn.NewLogin(kafkaconn.SASL{Mechanism: "aws_msk_iam", Region: "eu-west-1"})
	if err != nil {
		t.Fatal(err)
	}
	client := kafkaconn.NewClient(&kafkaconn.Dialer{Brokers: broker.ListenAddrs(), Login: login}, 10*time.Second, broker.ListenAddrs()...)
	client.Reset(t.Context(), "x")
	t.Cleanup(client.Close)
	if _, err := client.Metadata(t.Context(), &kafka.MetadataRequest{Topics: []string{"x"}}); err != nil {
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
	if class, _ := failure.ClassOf(err); class != failure.Halted || !strings.Contains(err.Error(), "access denied") || strings.Contains(err.Error(), "staple") {
		t.Errorf("class %s: %v", class, err)
	}
	for _, name := range []string{"AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN"} {
		t.Setenv(name, "")
	}
	_, err = signIn(t, false)
	if class, _ := failure.ClassOf(err); err == nil || class != failure.Halted || !strings.Contains(err.Error(), "AWS credentials") {
		t.Errorf("without credentials: class %s: %v", class, err)
	}
}
