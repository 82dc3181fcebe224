package kafkawire

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"syscall"
	"testing"

	"github.com/twmb/franz-go/pkg/kerr"

	"ndrbridge/sinks"
)

// codes holds every error code of the protocol, with the names of another client.
var codes = []struct {
	what  string
	class sinks.Class
	errs  []*kerr.Error
}{
	{"the event is at fault", sinks.Rejected, []*kerr.Error{
		kerr.MessageTooLarge, kerr.RecordListTooLarge, kerr.InvalidTimestamp, kerr.InvalidRecord,
	}},
	{"the broker asks for a wait", sinks.Throttled, []*kerr.Error{kerr.ThrottlingQuotaExceeded}},
	{"not allowed", sinks.Halted, []*kerr.Error{
		kerr.TopicAuthorizationFailed, kerr.GroupAuthorizationFailed, kerr.ClusterAuthorizationFailed, kerr.TransactionalIDAuthorizationFailed,
		kerr.PolicyViolation,
	}},
	{"the credentials are rejected", sinks.Halted, []*kerr.Error{
		kerr.SaslAuthenticationFailed, kerr.UnsupportedSaslMechanism, kerr.IllegalSaslState, kerr.SecurityDisabled,
		kerr.DelegationTokenAuthDisabled, kerr.DelegationTokenNotFound, kerr.DelegationTokenOwnerMismatch,
		kerr.DelegationTokenRequestNotAllowed, kerr.DelegationTokenAuthorizationFailed, kerr.DelegationTokenExpired,
	}},
	{"the sink, topic or broker is misconfigured", sinks.Halted, []*kerr.Error{
		kerr.InvalidTopicException, kerr.InvalidRequiredAcks, kerr.UnsupportedVersion, kerr.InvalidRequest,
		kerr.UnsupportedForMessageFormat, kerr.UnsupportedCompressionType,
		kerr.InvalidPartitions, kerr.InvalidReplicationFactor, kerr.InvalidReplicaAssignment, kerr.InvalidConfig,
	}},
	{"the cluster is changing, short of resources or broken", sinks.Transient, []*kerr.Error{
		kerr.UnknownServerError, kerr.CorruptMessage, kerr.UnknownTopicOrPartition, kerr.LeaderNotAvailable, kerr.NotLeaderForPartition,
		kerr.RequestTimedOut, kerr.BrokerNotAvailable, kerr.ReplicaNotAvailable, kerr.StaleControllerEpoch, kerr.NetworkException,
		kerr.NotEnoughReplicas, kerr.NotEnoughReplicasAfterAppend, kerr.TopicAlreadyExists, kerr.NotController, kerr.OperationNotAttempted,
		kerr.KafkaStorageError, kerr.LogDirNotFound, kerr.ReassignmentInProgress, kerr.ListenerNotFound, kerr.FencedLeaderEpoch,
		kerr.UnknownLeaderEpoch, kerr.StaleBrokerEpoch, kerr.PreferredLeaderNotAvailable, kerr.EligibleLeadersNotAvailable,
		kerr.ElectionNotNeeded, kerr.NoReassignmentInProgress, kerr.PrincipalDeserializationFailure, kerr.UnknownTopicID,
		kerr.DuplicateBrokerRegistration, kerr.BrokerIDNotRegistered, kerr.InconsistentTopicID, kerr.InconsistentClusterID,
		kerr.IneligibleReplica, kerr.NewLeaderElected, kerr.MismatchedEndpointType, kerr.UnsupportedEndpointType,
		kerr.UnknownControllerID, kerr.InvalidRegistration, kerr.RebootstrapRequired, kerr.ControllerIDNotRegistered,
	}},
	{"it answers requests that no sink sends", sinks.Transient, []*kerr.Error{
		kerr.OffsetOutOfRange, kerr.InvalidFetchSize, kerr.OffsetMetadataTooLarge, kerr.FetchSessionIDNotFound, kerr.InvalidFetchSessionEpoch,
		kerr.OffsetNotAvailable, kerr.PositionOutOfRange, kerr.FetchSessionTopicIDError, kerr.OffsetMovedToTieredStorage,
		kerr.CoordinatorLoadInProgress, kerr.CoordinatorNotAvailable, kerr.NotCoordinator, kerr.IllegalGeneration,
		kerr.InconsistentGroupProtocol, kerr.InvalidGroupID, kerr.UnknownMemberID, kerr.InvalidSessionTimeout, kerr.RebalanceInProgress,
		kerr.InvalidCommitOffsetSize, kerr.NonEmptyGroup, kerr.GroupIDNotFound, kerr.MemberIDRequired, kerr.GroupMaxSizeReached,
		kerr.FencedInstanceID, kerr.GroupSubscribedToTopic, kerr.UnstableOffsetCommit, kerr.FencedMemberEpoch, kerr.UnreleasedInstanceID,
		kerr.UnsupportedAssignor, kerr.StaleMemberEpoch, kerr.InvalidRegularExpression, kerr.GroupDeletionFailed,
		kerr.OutOfOrderSequenceNumber, kerr.DuplicateSequenceNumber, kerr.InvalidProducerEpoch, kerr.InvalidTxnState,
		kerr.InvalidProducerIDMapping, kerr.InvalidTransactionTimeout, kerr.ConcurrentTransactions, kerr.TransactionCoordinatorFenced,
		kerr.UnknownProducerID, kerr.ProducerFenced, kerr.TransactionalIDNotFound, kerr.TransactionAbortable,
		kerr.InvalidPrincipalType, kerr.TopicDeletionDisabled, kerr.ResourceNotFound, kerr.DuplicateResource, kerr.UnacceptableCredential,
		kerr.InconsistentVoterSet, kerr.InvalidUpdateVersion, kerr.FeatureUpdateFailed, kerr.SnapshotNotFound,
		kerr.UnknownSubscriptionID, kerr.TelemetryTooLarge, kerr.InvalidVoterKey, kerr.DuplicateVoter, kerr.VoterNotFound,
		kerr.InvalidRecordState, kerr.ShareSessionNotFound, kerr.InvalidShareSessionEpoch, kerr.ShareSessionLimitReached, kerr.FencedStateEpoch,
		kerr.StreamsInvalidTopology, kerr.StreamsInvalidTopologyEpoch, kerr.StreamsTopologyFenced, kerr.StreamsTopologyDescriptionUpdateFailed,
	}},
}

func TestEveryErrorCodeHasAClass(t *testing.T) {
	listed := map[int16]bool{0: true}
	for _, group := range codes {
		for _, code := range group.errs {
			if listed[code.Code] {
				t.Errorf("%s is listed twice", code.Message)
			}
			listed[code.Code] = true
			err := ErrorOfProduce(code.Code, "the broker's words", "topic x")
			if err.Class != group.class {
				t.Errorf("%s: %s is %s, not %s", group.what, code.Message, err.Class, group.class)
			}
			if text := err.Error(); !strings.HasPrefix(text, fmt.Sprintf("topic x: [%d] ", code.Code)) || !strings.Contains(text, "the broker's words") {
				t.Errorf("%s: %v", code.Message, err)
			}
			if code.Retriable && group.class != sinks.Transient && group.class != sinks.Throttled {
				t.Errorf("%s may pass by itself", code.Message)
			}
			class := group.class
			if class == sinks.Rejected {
				class = sinks.Transient // no event is at fault if a login, say, fails
			}
			if err := ErrorOfCode(code.Code, "", "SASL handshake"); err.Class != class {
				t.Errorf("%s: %s is %s in the answer to another request, not %s", group.what, code.Message, err.Class, class)
			}
		}
	}
	for code := int16(-1); code <= 136; code++ {
		if !listed[code] {
			t.Errorf("code %d is not listed", code)
		}
	}
	for _, code := range []int16{-2, 137, 9999} {
		if err := ErrorOfProduce(code, "", "topic x"); err.Class != sinks.Transient {
			t.Errorf("unknown code %d is %s", code, err.Class)
		}
	}
}

func TestConnectionErrors(t *testing.T) {
	certificate := &x509.Certificate{}
	for _, test := range []struct {
		what string
		err  error
		want sinks.Class
	}{
		{"a name that does not exist", &net.OpError{Op: "dial", Err: &net.DNSError{Err: "no such host", Name: "b.example", IsNotFound: true}}, sinks.Transient},
		{"a name server that does not answer", &net.OpError{Op: "dial", Err: &net.DNSError{Err: "i/o timeout", Name: "b.example", IsTimeout: true}}, sinks.Transient},
		{"a closed port", &net.OpError{Op: "dial", Err: os.NewSyscallError("connect", syscall.ECONNREFUSED)}, sinks.Transient},
		{"an unreachable network", &net.OpError{Op: "dial", Err: os.NewSyscallError("connect", syscall.ENETUNREACH)}, sinks.Transient},
		{"a connection that was reset", &net.OpError{Op: "read", Err: os.NewSyscallError("read", syscall.ECONNRESET)}, sinks.Transient},
		{"a connection that broke while it was written", &net.OpError{Op: "write", Err: os.NewSyscallError("write", syscall.EPIPE)}, sinks.Transient},
		{"a closed connection", io.EOF, sinks.Transient},
		{"an answer cut short", io.ErrUnexpectedEOF, sinks.Transient},
		{"a deadline", &net.OpError{Op: "read", Err: os.ErrDeadlineExceeded}, sinks.Transient},
		{"the timeout of a dial", context.DeadlineExceeded, sinks.Transient},
		{"an unknown error", errors.New("correlation id mismatch"), sinks.Transient},
		{"an unknown authority", &tls.CertificateVerificationError{Err: x509.UnknownAuthorityError{Cert: certificate}}, sinks.Halted},
		{"a certificate for another name", &tls.CertificateVerificationError{Err: x509.HostnameError{Certificate: certificate, Host: "b.example"}}, sinks.Halted},
		{"a certificate that has expired", &tls.CertificateVerificationError{Err: x509.CertificateInvalidError{Cert: certificate, Reason: x509.Expired}}, sinks.Halted},
		{"a port without TLS", tls.RecordHeaderError{Msg: "first record does not look like a TLS handshake"}, sinks.Halted},
		{"a handshake that the broker refused", &net.OpError{Op: "remote error", Err: errors.New("tls: bad certificate")}, sinks.Halted},
		{"a password that the broker refused", ErrorOfCode(kerr.SaslAuthenticationFailed.Code, "", "SASL"), sinks.Halted},
	} {
		t.Run(test.what, func(t *testing.T) {
			err := ErrorOfConnection(t.Context(), test.err, "kafka broker b.example:9092")
			if class, _ := sinks.ClassOf(err); class != test.want || !strings.Contains(err.Error(), "b.example:9092") {
				t.Errorf("class %s: %v", class, err)
			}
		})
	}
	t.Run("a cancelled context takes precedence", func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		err := ErrorOfConnection(ctx, tls.RecordHeaderError{}, "kafka broker b.example:9092")
		if class, _ := sinks.ClassOf(err); class != sinks.Transient || !errors.Is(err, context.Canceled) {
			t.Errorf("class %s: %v", class, err)
		}
	})
}
