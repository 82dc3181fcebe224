package replicated

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// Fault is something about the servers with which no cluster can run, or, if it is a warning,
// none should.
type Fault struct {
	Subject string // ServerVersion, max_payload, or the name of a stream
	Detail  string // what was found
	Advice  string // what to do
	Warning bool
}

// Error implements error.
func (f *Fault) Error() string { return f.Detail + ": " + f.Advice }

// ServerVersion is the subject of faults of the server's version.
const ServerVersion = "version"

// minPayload is the smallest max_payload of a server that is enough.
const minPayload = 64 << 10

// Versions of the server.
var (
	oldestVersion  = [3]int{2, 10, 23} // streams got lost in older ones
	advisedVersion = [3]int{2, 12, 3}
)

// CheckServer returns what is wrong with the server that nc is connected to, according to
// what it reported when it was connected.
func CheckServer(nc *nats.Conn) (faults []*Fault) {
	if f := checkVersion(nc.ConnectedServerVersion()); f != nil {
		faults = append(faults, f)
	}
	if n := nc.MaxPayload(); n < minPayload {
		faults = append(faults, &Fault{
			Subject: "max_payload", Detail: fmt.Sprintf("max_payload of the NATS server is %d bytes", n),
			Advice: fmt.Sprintf("set it to %d at least, better to its default of 1MB", minPayload),
		})
	}
	return faults
}

// checkVersion returns what is wrong with a version, or nil.
func checkVersion(version string) *Fault {
	var v [3]int // 2.12.3, 2.12.0-RC.1
	_, err := fmt.Sscanf(version, "%d.%d.%d", &v[0], &v[1], &v[2])
	switch {
	case err != nil:
		return &Fault{
			Subject: ServerVersion, Warning: true, Detail: fmt.Sprintf("the NATS server reports the version %q, which is not one of nats-server", version),
			Advice: fmt.Sprintf("use nats-server %s or newer", dotted(advisedVersion)),
		}
	case slices.Compare(v[:], oldestVersion[:]) < 0:
		return &Fault{
			Subject: ServerVersion, Detail: fmt.Sprintf("the NATS server is version %s, which can lose a stream if it is killed", version),
			Advice: fmt.Sprintf("use NATS %s or newer, better %s or newer, for all servers", dotted(oldestVersion), dotted(advisedVersion)),
		}
	case slices.Compare(v[:], advisedVersion[:]) < 0:
		return &Fault{
			Subject: ServerVersion, Warning: true, Detail: fmt.Sprintf("the NATS server is version %s, which can lose messages while servers join or leave", version),
			Advice: fmt.Sprintf("upgrade to %s or newer, one server after the other", dotted(advisedVersion)),
		}
	}
	return nil
}

func dotted(v [3]int) string { return fmt.Sprintf("%d.%d.%d", v[0], v[1], v[2]) }

// CheckStreams compares the streams of a cluster that exist, that of its bucket included,
// with those that OpenJetStream makes. It returns what is wrong with them, how many of all are
// missing, and how many there should be. It makes none.
func CheckStreams(ctx context.Context, js jetstream.JetStream, o JetStreamOptions) (faults []*Fault, missing, all int, err error) {
	wanted := o.streams()
	names := []string{"KV_" + o.bucketName()}
	for _, c := range wanted {
		names = append(names, c.Name)
	}
	for i, name := range names {
		s, err := js.Stream(ctx, name)
		if errors.Is(err, jetstream.ErrStreamNotFound) {
			missing++
			continue
		}
		if err != nil {
			return faults, missing, len(names), err
		}
		var f *Fault
		if got := s.CachedInfo().Config; i == 0 {
			f = o.checkBucket(got)
		} else {
			f = checkStream(got, wanted[i-1])
		}
		if f != nil {
			faults = append(faults, f)
		}
	}
	return faults, missing, len(names), nil
}

// checkStream returns what is wrong with a stream, or nil.
func checkStream(got, want jetstream.StreamConfig) *Fault {
	var wrong []string
	check := func(is bool, format string, args ...any) {
		if is {
			wrong = append(wrong, fmt.Sprintf(format, args...))
		}
	}
	check(!slices.Equal(got.Subjects, want.Subjects), "its subjects are %q, not %q", got.Subjects, want.Subjects)
	check(got.Storage != jetstream.FileStorage, "storage is %s, not file", got.Storage)
	check(got.Retention != jetstream.LimitsPolicy, "retention is %s, not limits", got.Retention)
	check(got.Replicas < want.Replicas, "replicas is %d, less than cluster.replicas, %d", got.Replicas, want.Replicas)
	check(got.MaxMsgs > 0, "max_msgs is set")
	check(got.MaxBytes > 0, "max_bytes is set")
	check(got.MaxAge > 0, "max_age is set")
	check(got.MaxMsgsPerSubject > 0, "max_msgs_per_subject is set")
	check(got.MaxMsgSize > 0, "max_msg_size is set")
	check(got.DenyPurge, "deny_purge is set")
	check(got.NoAck, "no_ack is set")
	check(got.Sealed, "it is sealed")
	check(got.AllowDirect, "allow_direct is set")
	check(got.Mirror != nil || len(got.Sources) > 0, "it copies other streams")
	check(got.SubjectTransform != nil, "subject_transform is set")
	if wrong == nil {
		return nil
	}
	return &Fault{
		Subject: want.Name, Detail: fmt.Sprintf("the stream %s could lose records, or cannot be used: %s", want.Name, strings.Join(wrong, "; ")),
		Advice: fmt.Sprintf("change it with `nats stream edit %s`, or remove it if it is not of this cluster", want.Name),
	}
}

// checkBucket returns what is wrong with the stream of the bucket, or nil.
func (o JetStreamOptions) checkBucket(got jetstream.StreamConfig) *Fault {
	switch {
	case got.Replicas < o.Replicas:
		return &Fault{
			Subject: got.Name, Detail: fmt.Sprintf("the key-value bucket %s has %d replicas, less than cluster.replicas, %d", o.bucketName(), got.Replicas, o.Replicas),
			Advice: fmt.Sprintf("change it with `nats stream edit %s --replicas %d`", got.Name, o.Replicas),
		}
	case got.Storage != jetstream.FileStorage || got.MaxAge > 0 || got.MaxBytes > 0:
		return &Fault{
			Subject: got.Name, Detail: fmt.Sprintf("the key-value bucket %s is in memory, or limits the age or the size of its values", o.bucketName()),
			Advice: fmt.Sprintf("remove it with `nats kv del %s`, and it is made again", o.bucketName()),
		}
	}
	return nil
}
