package replicated

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// Error codes of JetStream (errors.json of the server) that have no name in the client.
const (
	codeNoPeers           = 10005 // no suitable peers for placement
	codeInsufficient      = 10023
	codeMaxStreams        = 10027
	codeMaxStorage        = 10028
	codeStorage           = 10047
	codeSubjectOverlap    = 10065
	codeWrongLast         = 10071
	codeReplicasAlone     = 10074 // replicas > 1 not supported in non-clustered mode
	codeWrongLastConstant = 10164
)

// explain returns the error of a request with what was tried and what can be done, and without
// secrets.
func (j *JetStream) explain(ctx context.Context, tried string, err error) error {
	err = fmt.Errorf("%s: %w", tried, err)
	if advice := j.advice(ctx, err); advice != "" {
		err = fmt.Errorf("%w: %s", err, advice)
	}
	return j.o.Hide(err)
}

func (j *JetStream) advice(ctx context.Context, err error) string {
	// A request without the right to send it has no answer, only a notice to the connection.
	if denied := j.nc.LastError(); errors.Is(denied, nats.ErrPermissionViolation) && (ctx.Err() != nil || errors.Is(err, nats.ErrTimeout)) {
		return fmt.Sprintf("%v: give the user the rights that the documents list", denied)
	}
	if errors.Is(err, jetstream.ErrJetStreamNotEnabled) || errors.Is(err, nats.ErrNoResponders) || errors.Is(err, nats.ErrJetStreamNotEnabled) {
		return "enable JetStream on the NATS servers (jetstream { store_dir: … }); if it is enabled, wait until most of them are up"
	}
	if errors.Is(err, jetstream.ErrJetStreamNotEnabledForAccount) {
		return "enable JetStream for the account of this user"
	}
	var api *jetstream.APIError
	if !errors.As(err, &api) {
		if ctx.Err() != nil {
			return "check that most of the NATS servers are up"
		}
		return ""
	}
	switch api.ErrorCode {
	case codeNoPeers, codeReplicasAlone:
		return fmt.Sprintf("there are fewer NATS servers with JetStream than replicas (%d): start more in one cluster, or set cluster.replicas to 1 for a test", j.o.Replicas)
	case codeInsufficient, codeMaxStorage, codeStorage:
		return "give JetStream, or this account, more storage (max_file_store, or the account's limits)"
	case codeMaxStreams:
		return fmt.Sprintf("allow the account %d streams", j.o.Shards+2)
	case codeSubjectOverlap:
		return fmt.Sprintf("another stream has the subjects ndr.%s.>: remove it, or give the cluster another name", j.o.Name)
	}
	return ""
}

// acknowledgement reads the answer to a message.
func acknowledgement(stream string, m *nats.Msg) (seq uint64, err error) {
	if len(m.Data) == 0 && m.Header.Get("Status") == "503" {
		return 0, nats.ErrNoResponders
	}
	var a struct {
		Stream string              `json:"stream"`
		Seq    uint64              `json:"seq"`
		Error  *jetstream.APIError `json:"error"`
	}
	if err := json.Unmarshal(m.Data, &a); err != nil {
		return 0, fmt.Errorf("the answer is not an acknowledgement: %w", err)
	}
	switch {
	case a.Error != nil && (a.Error.ErrorCode == codeWrongLast || a.Error.ErrorCode == codeWrongLastConstant):
		last, _ := strconv.ParseUint(strings.TrimPrefix(a.Error.Description, "wrong last sequence: "), 10, 64)
		return 0, &WrongLastError{Last: last}
	case a.Error != nil:
		return 0, a.Error
	case a.Stream != stream:
		return 0, fmt.Errorf("another stream, %.100q, stored the message", a.Stream)
	}
	return a.Seq, nil
}
