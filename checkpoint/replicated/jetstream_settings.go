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

// bucketName returns the name of the bucket of a cluster.
func (o JetStreamOptions) bucketName() string { return "NDR_" + o.Name }

// streams returns the streams of all logs, and that of snapshots.
func (o JetStreamOptions) streams() []jetstream.StreamConfig {
	var all []jetstream.StreamConfig
	for shard := range o.Shards {
		all = append(all, o.logConfig(shard))
	}
	return append(all, o.snapshotConfig())
}

// logConfig is that of a shard's stream. Only its leader answers reads, and it refuses
// messages rather than remove old ones.
func (o JetStreamOptions) logConfig(shard int) jetstream.StreamConfig {
	return o.config(fmt.Sprintf("%02d", shard), fmt.Sprintf("ndr.%s.log.%02d", o.Name, shard))
}

func (o JetStreamOptions) snapshotConfig() jetstream.StreamConfig {
	return o.config("snap", fmt.Sprintf("ndr.%s.snap.>", o.Name))
}

func (o JetStreamOptions) config(name, subject string) jetstream.StreamConfig {
	return jetstream.StreamConfig{
		Name: fmt.Sprintf("NDR_%s_%s", o.Name, name), Subjects: []string{subject}, Replicas: o.Replicas,
		Storage: jetstream.FileStorage, Retention: jetstream.LimitsPolicy, Discard: jetstream.DiscardNew,
		Duplicates: minDuplicates,
	}
}

// minDuplicates is the smallest duplicate window, which no message uses.
const minDuplicates = 100_000_000 // 100 ms

// checkServer checks the server that nc is connected to, and the account.
func (j *JetStream) checkServer(ctx context.Context) error {
	for _, f := range CheckServer(j.nc) {
		if !f.Warning {
			return f
		}
		j.warnings = append(j.warnings, f.Error())
	}
	bounded, cancel := j.bounded(ctx)
	defer cancel()
	if _, err := j.js.AccountInfo(bounded); err != nil {
		return j.explain(bounded, "ask for JetStream", err)
	}
	return nil
}

// missing returns the error for a stream or a bucket that does not exist.
func missing(what, name string) error {
	return fmt.Errorf("there is no %s %s in NATS: create a new cluster with 'ndrbridge cluster init'; if the cluster has run before, NATS has lost its data: restore it, or continue from a copy with 'ndrbridge cluster recover'", what, name)
}

// openStream opens a stream and checks it. It creates a missing one if Options.Create is set.
func (j *JetStream) openStream(ctx context.Context, c jetstream.StreamConfig) error {
	bounded, cancel := j.bounded(ctx)
	defer cancel()
	s, err := j.js.Stream(bounded, c.Name)
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		if !j.o.Create {
			return missing("stream", c.Name)
		}
		s, err = j.js.CreateStream(bounded, c)
		if errors.Is(err, jetstream.ErrStreamNameAlreadyInUse) { // made by another member, with other settings
			s, err = j.js.Stream(bounded, c.Name)
		}
	}
	if err != nil {
		return j.explain(bounded, "open the stream "+c.Name, err)
	}
	if f := checkStream(s.CachedInfo().Config, c); f != nil {
		return f
	}
	return nil
}

// openBucket is openStream for the bucket.
func (j *JetStream) openBucket(ctx context.Context) error {
	name := j.o.bucketName()
	bounded, cancel := j.bounded(ctx)
	defer cancel()
	b, err := j.js.KeyValue(bounded, name)
	if errors.Is(err, jetstream.ErrBucketNotFound) {
		if !j.o.Create {
			return missing("key-value bucket", name)
		}
		c := jetstream.KeyValueConfig{Bucket: name, History: 1, Replicas: j.o.Replicas, Storage: jetstream.FileStorage}
		b, err = j.js.CreateKeyValue(bounded, c)
		if errors.Is(err, jetstream.ErrBucketExists) {
			b, err = j.js.KeyValue(bounded, name)
		}
	}
	if err != nil {
		return j.explain(bounded, "open the key-value bucket "+name, err)
	}
	stream, err := j.js.Stream(bounded, "KV_"+name)
	if err != nil {
		return j.explain(bounded, "open the key-value bucket "+name, err)
	}
	if f := j.o.checkBucket(stream.CachedInfo().Config); f != nil {
		return f
	}
	j.bucket = b
	return nil
}

// Fault is something about the servers with which no cluster can run, or, if it is a warning,
// none should.
type Fault struct {
	Subject string // ServerVersion, max_payload, or the name of a stream
	Detail  string // the finding
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

// CheckServer returns the faults of the server that nc is connected to, according to its report
// when it was connected.
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

// checkVersion returns the fault of a version, or nil.
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

// CheckStreams compares the existing streams of a cluster, that of its bucket included, with the
// settings that OpenJetStream gives them. It returns their faults, how many are missing, and how
// many there should be. It makes none.
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

// checkStream returns the fault of a stream, or nil.
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

// checkBucket returns the fault of the stream of the bucket, or nil.
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
