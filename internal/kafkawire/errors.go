package kafkawire

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"unicode"

	"github.com/twmb/franz-go/pkg/kerr"

	"ndrbridge/internal/linklocal"
	"ndrbridge/sinks"
)

// verdict is what an error code of a broker means to a sink.
type verdict struct {
	class  sinks.Class
	advice string // what a person can do; may be empty
}

const (
	grantTopic   = "give the user the operations Write and Describe on the topic"
	checkSASL    = "see sasl.mechanism, sasl.username and the password"
	checkShape   = "see create_topic, or make the topic by hand"
	useOther     = "the broker does not know this codec: see compression"
	seeBroker    = "the broker's log says why"
	seeListeners = "see advertised.listeners of the brokers"
)

// verdicts holds the codes that are not transient. A code that is not among
// them may pass by itself (a new leader, too few replicas, a timeout), is unknown,
// or belongs to requests that a sink does not make: groups, transactions,
// administration.
var verdicts = map[*kerr.Error]verdict{
	kerr.MessageTooLarge:    {sinks.Rejected, "the topic's max.message.bytes is lower than max_message_bytes"},
	kerr.RecordListTooLarge: {sinks.Rejected, "the topic's segment.bytes is lower than max_message_bytes"},
	kerr.InvalidTimestamp:   {sinks.Rejected, "the topic's message.timestamp settings refuse the time"},
	kerr.InvalidRecord:      {sinks.Rejected, ""},

	kerr.ThrottlingQuotaExceeded: {sinks.Throttled, ""},

	kerr.OperationNotAttempted: {sinks.Transient, "something else in the same request failed"},

	kerr.InvalidTopicException:              {sinks.Halted, "see topic"},
	kerr.InvalidRequiredAcks:                {sinks.Halted, "see acks"},
	kerr.TopicAuthorizationFailed:           {sinks.Halted, grantTopic},
	kerr.GroupAuthorizationFailed:           {sinks.Halted, "give the user the operation Read on the group"},
	kerr.ClusterAuthorizationFailed:         {sinks.Halted, "give the user the operation Create on the cluster, or make the topic by hand"},
	kerr.UnsupportedSaslMechanism:           {sinks.Halted, checkSASL},
	kerr.IllegalSaslState:                   {sinks.Halted, checkSASL},
	kerr.UnsupportedVersion:                 {sinks.Halted, "the broker's version is not supported"},
	kerr.InvalidPartitions:                  {sinks.Halted, checkShape},
	kerr.InvalidReplicationFactor:           {sinks.Halted, checkShape},
	kerr.InvalidReplicaAssignment:           {sinks.Halted, checkShape},
	kerr.InvalidConfig:                      {sinks.Halted, checkShape},
	kerr.InvalidRequest:                     {sinks.Halted, seeBroker},
	kerr.UnsupportedForMessageFormat:        {sinks.Halted, "the topic's message.format.version is too old"},
	kerr.PolicyViolation:                    {sinks.Halted, "a policy of the cluster forbids it"},
	kerr.TransactionalIDAuthorizationFailed: {sinks.Halted, grantTopic},
	kerr.SecurityDisabled:                   {sinks.Halted, checkSASL},
	kerr.SaslAuthenticationFailed:           {sinks.Halted, checkSASL},
	kerr.DelegationTokenAuthDisabled:        {sinks.Halted, checkSASL},
	kerr.DelegationTokenNotFound:            {sinks.Halted, checkSASL},
	kerr.DelegationTokenOwnerMismatch:       {sinks.Halted, checkSASL},
	kerr.DelegationTokenRequestNotAllowed:   {sinks.Halted, checkSASL},
	kerr.DelegationTokenAuthorizationFailed: {sinks.Halted, checkSASL},
	kerr.DelegationTokenExpired:             {sinks.Halted, checkSASL},
	kerr.UnsupportedCompressionType:         {sinks.Halted, useOther},
}

// ErrorOfCode makes the error of a broker's answer. message is the broker's own,
// and may be empty.
func ErrorOfCode(code int16, message, tried string) *sinks.Error {
	name, v := "an error newer than this program", verdict{class: sinks.Transient}
	if known := kerr.TypedErrorForCode(code); known != nil {
		name = known.Message
		if found, ok := verdicts[known]; ok {
			v = found
		}
	}
	text := fmt.Sprintf("%s: [%d] %s", tried, code, name)
	if message != "" {
		text += ": " + excerpt(message)
	}
	return advise(v.class, v.advice, errors.New(text))
}

// excerpt is the beginning of what a broker says, on one line.
func excerpt(message string) string {
	const most = 500 // bytes
	if len(message) > most {
		message = strings.ToValidUTF8(message[:most], "") + "…"
	}
	return strings.Map(func(r rune) rune {
		if unicode.IsControl(r) {
			return ' '
		}
		return r
	}, message)
}

// advise makes an error with what a person can do about it; empty: nothing.
func advise(class sinks.Class, advice string, err error) *sinks.Error {
	return &sinks.Error{Class: class, Err: &sinks.Advised{Err: err, To: advice}}
}

// ErrorOfConnection classes an error that is no answer.
func ErrorOfConnection(ctx context.Context, err error, tried string) error {
	if refused, ok := errors.AsType[*sinks.Error](err); ok {
		return &sinks.Error{Class: refused.Class, RetryAfter: refused.RetryAfter, Err: fmt.Errorf("%s: %w", tried, err)}
	}
	if ctx.Err() != nil {
		return sinks.Errorf(sinks.Transient, "%s: %w", tried, ctx.Err())
	}
	if _, ok := errors.AsType[*linklocal.Error](err); ok {
		return advise(sinks.Transient, seeListeners+"; an address that you know may stand in brokers", fmt.Errorf("%s, which the cluster advertises: %w", tried, err))
	}
	if advice := sinks.TLSAdvice(err); advice != "" {
		return advise(sinks.Halted, advice, fmt.Errorf("%s: %w", tried, err))
	}
	if errors.Is(err, context.DeadlineExceeded) {
		return sinks.Errorf(sinks.Transient, "%s: no answer in time: %w", tried, err)
	}
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return advise(sinks.Transient, "a broker also hangs up on a client without the TLS or SASL that it requires", fmt.Errorf("%s: %w", tried, err))
	}
	return sinks.Errorf(sinks.Transient, "%s: %w", tried, err)
}
