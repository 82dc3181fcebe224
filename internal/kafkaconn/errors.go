package kafkaconn

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"unicode"

	kafka "github.com/segmentio/kafka-go"

	"ndrbridge/internal/failure"
	"ndrbridge/internal/linklocal"
)

const (
	checkSASL      = "check sasl.mechanism, sasl.username and the password, or sasl.oauth, or the rights of the AWS identity"
	checkListeners = "check advertised.listeners of the brokers"
)

// verdicts holds the error codes that are not transient or need advice. Any other code may go
// away by itself (a new leader, too few replicas, a timeout), is unknown, or belongs to requests
// that are not sent: transactions, administration.
var verdicts = []struct {
	class  failure.Class // Rejected: of a produce request whose records are at fault
	advice string        // may be empty
	codes  []kafka.Error
}{
	{failure.Rejected, "the topic's max.message.bytes is lower than max_message_bytes", []kafka.Error{kafka.MessageSizeTooLarge}},
	{failure.Rejected, "the topic's segment.bytes is lower than max_message_bytes", []kafka.Error{kafka.RecordListTooLarge}},
	{failure.Rejected, "the topic's message.timestamp settings refuse the time", []kafka.Error{kafka.InvalidTimestamp}},
	{failure.Rejected, "", []kafka.Error{kafka.InvalidRecord}},
	{failure.Throttled, "", []kafka.Error{kafka.ThrottlingQuotaExceeded}},
	{failure.Transient, "something else in the same request failed", []kafka.Error{operationNotAttempted}},
	{failure.Halted, "check topic", []kafka.Error{kafka.InvalidTopic}},
	{failure.Halted, "check acks", []kafka.Error{kafka.InvalidRequiredAcks}},
	{failure.Halted, "grant the user the operations Write and Describe on the topic", []kafka.Error{kafka.TopicAuthorizationFailed, kafka.TransactionalIDAuthorizationFailed}},
	{failure.Halted, "grant the user the operation Read on the group", []kafka.Error{kafka.GroupAuthorizationFailed}},
	{failure.Halted, "grant the user the operation Create on the cluster, or create the topic by hand", []kafka.Error{kafka.ClusterAuthorizationFailed}},
	{failure.Halted, "the broker's version is not supported", []kafka.Error{kafka.UnsupportedVersion}},
	{failure.Halted, "check create_topic, or create the topic by hand", []kafka.Error{
		kafka.InvalidPartitionNumber, kafka.InvalidReplicationFactor, kafka.InvalidReplicaAssignment, kafka.InvalidConfiguration,
	}},
	{failure.Halted, "read the broker's log for the reason", []kafka.Error{kafka.InvalidRequest}},
	{failure.Halted, "the topic's message.format.version is too old", []kafka.Error{kafka.UnsupportedForMessageFormat}},
	{failure.Halted, "a policy of the cluster forbids it", []kafka.Error{kafka.PolicyViolation}},
	{failure.Halted, "the broker does not support this codec: check compression", []kafka.Error{kafka.UnsupportedCompressionType}},
	{failure.Halted, checkSASL, signIn},
}

// signIn holds the codes of a user who cannot sign in.
var signIn = []kafka.Error{
	kafka.UnsupportedSASLMechanism, kafka.IllegalSASLState, kafka.SecurityDisabled, kafka.SASLAuthenticationFailed,
	kafka.DelegationTokenAuthDisabled, kafka.DelegationTokenNotFound, kafka.DelegationTokenOwnerMismatch,
	kafka.DelegationTokenRequestNotAllowed, kafka.DelegationTokenAuthorizationFailed, kafka.DelegationTokenExpired,
}

const (
	// operationNotAttempted is kafka.BrokerAuthorizationFailed under the protocol's name.
	operationNotAttempted kafka.Error = 55
	// newestCode is the newest code of the protocol whose meaning is known. kafka-go has no
	// names for the last ones.
	newestCode kafka.Error = 136
)

// Error returns the classified error of a request, without secrets; tried names the attempt.
// It is never Rejected, because only the answer to a produce request is about events. If it is
// Transient, it has ScopePart if the broker's code rules out that an event is at fault, and
// ScopeTarget if no broker answered. ctx is the request's.
func (d *Dialer) Error(ctx context.Context, err error, tried string) *failure.Error {
	if code, ok := errors.AsType[kafka.Error](err); ok {
		_, message, _ := strings.Cut(err.Error(), code.Error()+": ")
		return d.answered(code, message, tried, false)
	}
	if known, ok := errors.AsType[*failure.Error](err); ok { // of a conn or a Login
		return &failure.Error{Class: known.Class, Scope: failure.ScopeTarget, RetryAfter: known.RetryAfter, Err: fmt.Errorf("%s: %w", tried, known)}
	}
	if ctx.Err() != nil {
		err = ctx.Err()
	}
	return failure.Unavailable(failure.ScopeTarget, "%s: %w", tried, d.Login.HideError(err))
}

// ErrorOfProduce returns the error of an answer to a produce request, like Error, but Rejected
// if the code says that the records are at fault. message is the broker's and may be empty.
func (d *Dialer) ErrorOfProduce(code int16, message, tried string) *failure.Error {
	return d.answered(kafka.Error(code), message, tried, true)
}

// answered returns the error of an answer with an error code.
func (d *Dialer) answered(code kafka.Error, message, tried string, produced bool) *failure.Error {
	if d.Login != nil && slices.Contains(signIn, code) {
		tried = d.Login.tried()
	}
	text := fmt.Sprintf("%s: [%d] an error without a name", tried, code)
	if code.Title() != "" {
		text = tried + ": " + code.Error()
	}
	if message != "" {
		text += ": " + excerpt(d.Login.Hide(message))
	}
	answered := failure.Advise(failure.Transient, "", errors.New(text))
	for _, v := range verdicts {
		if slices.Contains(v.codes, code) && (produced || v.class != failure.Rejected) {
			answered = failure.Advise(v.class, v.advice, errors.New(text))
		}
	}
	if answered.Class == failure.Transient && code > 0 && code <= newestCode && code != kafka.InvalidMessage {
		answered.Scope = failure.ScopePart // a partition, its leader, a replica or a coordinator
	}
	return answered
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

// broken returns the classified error of a connection, without secrets.
func (d *Dialer) broken(address string, err error) *failure.Error {
	err = d.Login.HideError(err)
	tried := "kafka broker " + d.Shown(address)
	var text error = fmt.Errorf("%s: %w", tried, err)
	class, advice := failure.Transient, ""
	if known, ok := errors.AsType[*failure.Error](err); ok {
		class = known.Class
	} else if _, ok := errors.AsType[*linklocal.Error](err); ok {
		text, advice = fmt.Errorf("%s, which the cluster advertises: %w", tried, err), checkListeners+", or add the address to brokers if you know it"
	} else if e := failure.Explain(err, failure.Peer{Address: d.Shown(address), Key: "brokers", TLS: d.TLS, Hide: d.Login.Hide}); e != nil {
		return e.Classified(tried)
	} else if errors.Is(err, context.DeadlineExceeded) || errors.Is(err, os.ErrDeadlineExceeded) {
		text = fmt.Errorf("%s: no answer in time: %w", tried, context.DeadlineExceeded)
	} else if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		// It is not wrapped: kafka-go would replace the error.
		text, advice = fmt.Errorf("%s: %v", tried, err), "a broker also closes the connection if tls or sasl are not as its port requires"
	}
	if advice != "" { // that of err stays otherwise
		text = &failure.Advised{Err: text, To: advice}
	}
	return &failure.Error{Class: class, Scope: failure.ScopeTarget, Err: text}
}
