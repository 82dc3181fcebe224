package kafkawire

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"unicode"

	"github.com/twmb/franz-go/pkg/kerr"

	"ndrbridge/internal/failure"
	"ndrbridge/internal/linklocal"
)

// verdict is the meaning of a broker's error code.
type verdict struct {
	class  failure.Class
	advice string // may be empty
}

const (
	grantTopic     = "grant the user the operations Write and Describe on the topic"
	checkSASL      = "check sasl.mechanism, sasl.username and the password"
	checkCreation  = "check create_topic, or create the topic by hand"
	checkCodec     = "the broker does not support this codec: check compression"
	readLog        = "read the broker's log for the reason"
	checkListeners = "check advertised.listeners of the brokers"
)

// rejections holds the error codes of a produce request whose records are at fault.
var rejections = map[*kerr.Error]verdict{
	kerr.MessageTooLarge:    {failure.Rejected, "the topic's max.message.bytes is lower than max_message_bytes"},
	kerr.RecordListTooLarge: {failure.Rejected, "the topic's segment.bytes is lower than max_message_bytes"},
	kerr.InvalidTimestamp:   {failure.Rejected, "the topic's message.timestamp settings refuse the time"},
	kerr.InvalidRecord:      {failure.Rejected, ""},
}

// verdicts holds the other error codes that are not transient or need advice. Any other
// code may go away by itself (a new leader, too few replicas, a timeout), is unknown, or
// belongs to requests that a sink does not send: groups, transactions, administration.
var verdicts = map[*kerr.Error]verdict{
	kerr.ThrottlingQuotaExceeded: {failure.Throttled, ""},

	kerr.OperationNotAttempted: {failure.Transient, "something else in the same request failed"},

	kerr.InvalidTopicException:              {failure.Halted, "check topic"},
	kerr.InvalidRequiredAcks:                {failure.Halted, "check acks"},
	kerr.TopicAuthorizationFailed:           {failure.Halted, grantTopic},
	kerr.GroupAuthorizationFailed:           {failure.Halted, "grant the user the operation Read on the group"},
	kerr.ClusterAuthorizationFailed:         {failure.Halted, "grant the user the operation Create on the cluster, or create the topic by hand"},
	kerr.UnsupportedSaslMechanism:           {failure.Halted, checkSASL},
	kerr.IllegalSaslState:                   {failure.Halted, checkSASL},
	kerr.UnsupportedVersion:                 {failure.Halted, "the broker's version is not supported"},
	kerr.InvalidPartitions:                  {failure.Halted, checkCreation},
	kerr.InvalidReplicationFactor:           {failure.Halted, checkCreation},
	kerr.InvalidReplicaAssignment:           {failure.Halted, checkCreation},
	kerr.InvalidConfig:                      {failure.Halted, checkCreation},
	kerr.InvalidRequest:                     {failure.Halted, readLog},
	kerr.UnsupportedForMessageFormat:        {failure.Halted, "the topic's message.format.version is too old"},
	kerr.PolicyViolation:                    {failure.Halted, "a policy of the cluster forbids it"},
	kerr.TransactionalIDAuthorizationFailed: {failure.Halted, grantTopic},
	kerr.SecurityDisabled:                   {failure.Halted, checkSASL},
	kerr.SaslAuthenticationFailed:           {failure.Halted, checkSASL},
	kerr.DelegationTokenAuthDisabled:        {failure.Halted, checkSASL},
	kerr.DelegationTokenNotFound:            {failure.Halted, checkSASL},
	kerr.DelegationTokenOwnerMismatch:       {failure.Halted, checkSASL},
	kerr.DelegationTokenRequestNotAllowed:   {failure.Halted, checkSASL},
	kerr.DelegationTokenAuthorizationFailed: {failure.Halted, checkSASL},
	kerr.DelegationTokenExpired:             {failure.Halted, checkSASL},
	kerr.UnsupportedCompressionType:         {failure.Halted, checkCodec},
}

// ErrorOfCode returns the error of a broker's answer with an error code. message is the
// broker's and may be empty; tried names what was tried. The error is never Rejected,
// because only the answer to a produce request is about events. A Transient error has
// ScopePart if the code rules out that an event is at fault.
func ErrorOfCode(code int16, message, tried string) *failure.Error {
	return errorOfCode(code, message, tried, verdicts[kerr.TypedErrorForCode(code)])
}

// ErrorOfProduce returns the error of an answer to a produce request, like ErrorOfCode,
// but Rejected if the code says that the records are at fault.
func ErrorOfProduce(code int16, message, tried string) *failure.Error {
	if v, ok := rejections[kerr.TypedErrorForCode(code)]; ok {
		return errorOfCode(code, message, tried, v)
	}
	return ErrorOfCode(code, message, tried)
}

func errorOfCode(code int16, message, tried string, v verdict) *failure.Error {
	name := "an error newer than this program"
	if known := kerr.TypedErrorForCode(code); known != nil {
		name = known.Message
	}
	text := fmt.Sprintf("%s: [%d] %s", tried, code, name)
	if message != "" {
		text += ": " + excerpt(message)
	}
	err := failure.Advise(cmp.Or(v.class, failure.Transient), v.advice, errors.New(text))
	if known := kerr.TypedErrorForCode(code); err.Class == failure.Transient && known != nil && known != kerr.UnknownServerError && known != kerr.CorruptMessage {
		err.Scope = failure.ScopePart // a partition, its leader, a replica or a coordinator
	}
	return err
}

// excerpt returns the beginning of a broker's message, on one line.
func excerpt(message string) string {
	const limit = 500 // bytes
	if len(message) > limit {
		message = strings.ToValidUTF8(message[:limit], "") + "…"
	}
	return strings.Map(func(r rune) rune {
		if unicode.IsControl(r) {
			return ' '
		}
		return r
	}, message)
}

// ErrorOfConnection returns the classified error of a failed exchange; tried names what
// was tried. ctx is the caller's.
func ErrorOfConnection(ctx context.Context, err error, tried string) error {
	if refused, ok := errors.AsType[*failure.Error](err); ok {
		return &failure.Error{Class: refused.Class, Scope: failure.ScopeTarget, RetryAfter: refused.RetryAfter, Err: fmt.Errorf("%s: %w", tried, err)}
	}
	if ctx.Err() != nil {
		return failure.Unavailable(failure.ScopeTarget, "%s: %w", tried, ctx.Err())
	}
	if _, ok := errors.AsType[*linklocal.Error](err); ok {
		return unreachable(checkListeners+", or add the address to brokers if you know it", fmt.Errorf("%s, which the cluster advertises: %w", tried, err))
	}
	if advice := failure.TLSAdvice(err); advice != "" {
		return failure.Advise(failure.Halted, advice, fmt.Errorf("%s: %w", tried, err))
	}
	if errors.Is(err, context.DeadlineExceeded) {
		return failure.Unavailable(failure.ScopeTarget, "%s: no answer in time: %w", tried, err)
	}
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return unreachable("a broker also closes the connection of a client without the TLS or SASL that it requires", fmt.Errorf("%s: %w", tried, err))
	}
	return failure.Unavailable(failure.ScopeTarget, "%s: %w", tried, err)
}

// unreachable returns the error of a broker that cannot be reached, with advice.
func unreachable(advice string, err error) error {
	failed := failure.Advise(failure.Transient, advice, err)
	failed.Scope = failure.ScopeTarget
	return failed
}
