package kafka

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"

	kafkago "github.com/segmentio/kafka-go"

	"ndrbridge/sinks"
)

// verdict is what an error code of a broker means to a sink.
type verdict struct {
	class  sinks.Class
	advice string // what a person can do; may be empty
}

const (
	grantTopic = "give the user the operations Write and Describe on the topic"
	checkSASL  = "see sasl.mechanism, sasl.username and the password"
	checkShape = "see create_topic, or make the topic by hand"
	useOther   = "the broker does not know this codec: see compression"
	seeBroker  = "the broker's log says why"
)

// verdicts holds the codes that are not transient. A code that is not among
// them may pass by itself (a new leader, too few replicas, a timeout), is unknown,
// or belongs to requests that a sink does not make: groups, transactions,
// administration.
var verdicts = map[kafkago.Error]verdict{
	kafkago.MessageSizeTooLarge: {sinks.Rejected, "the topic's max.message.bytes is lower than max_message_bytes"},
	kafkago.RecordListTooLarge:  {sinks.Rejected, "the topic's segment.bytes is lower than max_message_bytes"},
	kafkago.InvalidTimestamp:    {sinks.Rejected, "the topic's message.timestamp settings refuse the time"},
	kafkago.InvalidRecord:       {sinks.Rejected, ""},

	kafkago.ThrottlingQuotaExceeded: {sinks.Throttled, ""},

	// 55, which the library calls by the name of an authorisation.
	kafkago.BrokerAuthorizationFailed: {sinks.Transient, "not attempted: something else in the same request failed"},

	kafkago.InvalidTopic:                       {sinks.Halted, "see topic"},
	kafkago.InvalidRequiredAcks:                {sinks.Halted, "see acks"},
	kafkago.TopicAuthorizationFailed:           {sinks.Halted, grantTopic},
	kafkago.GroupAuthorizationFailed:           {sinks.Halted, grantTopic},
	kafkago.ClusterAuthorizationFailed:         {sinks.Halted, "give the user the operation Create on the cluster, or make the topic by hand"},
	kafkago.UnsupportedSASLMechanism:           {sinks.Halted, checkSASL},
	kafkago.IllegalSASLState:                   {sinks.Halted, checkSASL},
	kafkago.UnsupportedVersion:                 {sinks.Halted, "the broker's version is not supported"},
	kafkago.InvalidPartitionNumber:             {sinks.Halted, checkShape},
	kafkago.InvalidReplicationFactor:           {sinks.Halted, checkShape},
	kafkago.InvalidReplicaAssignment:           {sinks.Halted, checkShape},
	kafkago.InvalidConfiguration:               {sinks.Halted, checkShape},
	kafkago.InvalidRequest:                     {sinks.Halted, seeBroker},
	kafkago.UnsupportedForMessageFormat:        {sinks.Halted, "the topic's message.format.version is too old"},
	kafkago.PolicyViolation:                    {sinks.Halted, "a policy of the cluster forbids it"},
	kafkago.TransactionalIDAuthorizationFailed: {sinks.Halted, grantTopic},
	kafkago.SecurityDisabled:                   {sinks.Halted, checkSASL},
	kafkago.SASLAuthenticationFailed:           {sinks.Halted, checkSASL},
	kafkago.DelegationTokenAuthDisabled:        {sinks.Halted, checkSASL},
	kafkago.DelegationTokenNotFound:            {sinks.Halted, checkSASL},
	kafkago.DelegationTokenOwnerMismatch:       {sinks.Halted, checkSASL},
	kafkago.DelegationTokenRequestNotAllowed:   {sinks.Halted, checkSASL},
	kafkago.DelegationTokenAuthorizationFailed: {sinks.Halted, checkSASL},
	kafkago.DelegationTokenExpired:             {sinks.Halted, checkSASL},
	kafkago.UnsupportedCompressionType:         {sinks.Halted, useOther},
}

// errorOfCode makes the error of a broker's answer. message is the broker's own,
// and may be empty.
func errorOfCode(code int16, message, tried string) *sinks.Error {
	broker := kafkago.Error(code)
	v, ok := verdicts[broker]
	if !ok {
		v.class = sinks.Transient
	}
	text := fmt.Sprintf("%s: [%d] %s", tried, code, cmp.Or(broker.Title(), "an error newer than this sink"))
	if message != "" {
		text += ": " + message
	}
	return advise(v.class, v.advice, errors.New(text))
}

// advise makes an error with what a person can do about it; empty: nothing.
func advise(class sinks.Class, advice string, err error) *sinks.Error {
	return &sinks.Error{Class: class, Err: &sinks.Advised{Err: err, To: advice}}
}

// errUnknownTopic is the error of a topic that the cluster does not know.
func errUnknownTopic(topic string) *sinks.Error {
	return advise(sinks.Halted, "make it, set create_topic, or correct topic", fmt.Errorf("topic %s does not exist, or the user must not see it", topic))
}

// errorOfConnection classes an error that is no answer.
func errorOfConnection(ctx context.Context, err error, tried string) error {
	if refused, ok := errors.AsType[*sinks.Error](err); ok {
		return &sinks.Error{Class: refused.Class, RetryAfter: refused.RetryAfter, Err: fmt.Errorf("%s: %w", tried, err)}
	}
	if ctx.Err() != nil {
		return sinks.Errorf(sinks.Transient, "%s: %w", tried, ctx.Err())
	}
	if advice := sinks.TLSAdvice(err); advice != "" {
		return advise(sinks.Halted, advice, fmt.Errorf("%s: %w", tried, err))
	}
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return advise(sinks.Transient, "a broker also hangs up on who comes without the TLS or SASL that it wants", fmt.Errorf("%s: %w", tried, err))
	}
	return sinks.Errorf(sinks.Transient, "%s: %w", tried, err)
}
