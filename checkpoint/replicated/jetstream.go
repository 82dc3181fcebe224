package replicated

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// Rights are the subjects that the user of the account needs, for a cluster that is called
// NAME: to publish, the subjects of its messages and of JetStream, which can only be given for all
// streams of the account; to publish and subscribe, the subjects by which the members ask each
// other. Only commands that create a cluster or begin a generation need CREATE for streams, unless
// the streams exist already, with the settings that they would get.
const Rights = `publish:
  ndr.NAME.>
  _INBOX.>
  $JS.API.INFO
  $JS.API.STREAM.CREATE.*
  $JS.API.STREAM.INFO.*
  $JS.API.STREAM.MSG.GET.*
  $JS.API.STREAM.PURGE.*
  $JS.API.CONSUMER.CREATE.*.>
  $JS.API.CONSUMER.DELETE.*.*
  $JS.API.CONSUMER.MSG.NEXT.*.*
  $JS.FC.>
subscribe:
  _INBOX.>
  ndr.NAME.members
  ndr.NAME.recover.*
`

// JetStreamOptions name what OpenJetStream opens.
type JetStreamOptions struct {
	Name     string // of the cluster, of [a-z0-9-]
	Replicas int    // servers that keep each stream
	// Hide, if not nil, removes secrets from errors: a server may repeat the credentials.
	Hide func(error) error
	Wait time.Duration // for an answer of the servers; 0: 5 s
}

// JetStream has the logs of the generations of a cluster, and a stream with their snapshots and the
// values of keys. It is safe for concurrent use.
type JetStream struct {
	nc       *nats.Conn
	js       jetstream.JetStream
	o        JetStreamOptions
	warnings []string
}

// OpenJetStream returns what NATS has of a cluster, which may be nothing: see Generation. It returns
// an error that says what to do if the stream of values and snapshots has settings with which
// records could be lost, the servers are too old or without JetStream, or the user lacks rights. The
// caller keeps nc, and must not close it before Close.
func OpenJetStream(ctx context.Context, nc *nats.Conn, o JetStreamOptions) (*JetStream, error) {
	j, err := Unopened(nc, o)
	if err != nil {
		return nil, err
	}
	if err = j.checkServer(ctx); err == nil {
		err = j.openStream(ctx, j.o.metaConfig(), false)
	}
	if err != nil && !errors.Is(err, jetstream.ErrStreamNotFound) {
		return nil, j.o.Hide(err)
	}
	return j, nil
}

// Unopened is OpenJetStream without requests to the servers: nothing is checked.
func Unopened(nc *nats.Conn, o JetStreamOptions) (*JetStream, error) {
	if o.Hide == nil {
		o.Hide = func(err error) error { return err }
	}
	o.Wait = cmp.Or(o.Wait, 5*time.Second)
	js, err := jetstream.New(nc, jetstream.WithPublishAsyncTimeout(o.Wait))
	if err != nil {
		return nil, fmt.Errorf("open JetStream: %w", o.Hide(err))
	}
	return &JetStream{nc: nc, js: js, o: o}, nil
}

// Close ends the subscription to acknowledgements.
func (j *JetStream) Close() { j.js.CleanupPublisher() }

// Warnings returns faults of the servers with which a cluster can run, but should not.
func (j *JetStream) Warnings() []string { return j.warnings }

// Generation returns the log of a generation and its snapshots. If create is set, it creates a missing
// log, and a missing stream of values and snapshots; otherwise the error is ErrLogLost if there is no
// log. If the log has settings with which records could be lost, the error says what to do.
func (j *JetStream) Generation(ctx context.Context, n uint64, create bool) (Stream, Snapshots, error) {
	c := j.o.logConfig(n)
	err := j.openStream(ctx, c, create)
	switch {
	case errors.Is(err, jetstream.ErrStreamNotFound):
		err = fmt.Errorf("%w: there is no stream %s in NATS: restore the data of NATS, or continue from a copy with 'ndrbridge cluster recover'", ErrLogLost, c.Name)
	case err == nil && create:
		err = j.openStream(ctx, j.o.metaConfig(), true)
	}
	if err != nil {
		return nil, nil, j.o.Hide(err)
	}
	log := &jsStream{j: j, name: c.Name, subject: c.Subjects[0]}
	return log, j.snapshots(n), nil
}

// bounded returns a context for one request to the servers.
func (j *JetStream) bounded(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeoutCause(ctx, j.o.Wait, errNoAnswer)
}

var errNoAnswer = errors.New("the servers do not answer")

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

// explain adds the request and advice to its error, and removes secrets.
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
		return "allow the account more streams: a cluster has two, and one more after each recovery"
	case codeSubjectOverlap:
		return fmt.Sprintf("another stream has the subjects ndr.%s.>: remove it, or give the cluster another name", j.o.Name)
	}
	return ""
}

// wrongLast reports whether a message was refused because its expectation does not hold, and the
// sequence number that the answer has.
func wrongLast(err error) (last uint64, ok bool) {
	api, ok := errors.AsType[*jetstream.APIError](err)
	if !ok || api.ErrorCode != codeWrongLast && api.ErrorCode != codeWrongLastConstant {
		return 0, false
	}
	last, _ = strconv.ParseUint(strings.TrimPrefix(api.Description, "wrong last sequence: "), 10, 64)
	return last, true
}

// answerError returns the error of a message that was refused.
func (j *JetStream) answerError(err error) error {
	if last, ok := wrongLast(err); ok {
		err = &WrongLastError{Last: last}
	}
	return j.o.Hide(err)
}
