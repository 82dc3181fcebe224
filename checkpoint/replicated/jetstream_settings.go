package replicated

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/nats-io/nats.go/jetstream"
)

// logConfig is that of a shard's stream. Only its leader answers reads, and it refuses
// messages rather than remove old ones.
func (j *JetStream) logConfig(shard int) jetstream.StreamConfig {
	return j.config(fmt.Sprintf("%02d", shard), fmt.Sprintf("ndr.%s.log.%02d", j.o.Name, shard))
}

func (j *JetStream) snapshotConfig() jetstream.StreamConfig {
	return j.config("snap", fmt.Sprintf("ndr.%s.snap.>", j.o.Name))
}

func (j *JetStream) config(name, subject string) jetstream.StreamConfig {
	return jetstream.StreamConfig{
		Name: fmt.Sprintf("NDR_%s_%s", j.o.Name, name), Subjects: []string{subject}, Replicas: j.o.Replicas,
		Storage: jetstream.FileStorage, Retention: jetstream.LimitsPolicy, Discard: jetstream.DiscardNew,
		Duplicates: minDuplicates,
	}
}

// minDuplicates is the smallest duplicate window, which no message uses.
const minDuplicates = 100_000_000 // 100 ms

// Versions of the server.
var (
	oldestVersion  = [3]int{2, 10, 23} // streams got lost in older ones
	advisedVersion = [3]int{2, 12, 3}
)

// checkServer checks the server that nc is connected to, and the account.
func (j *JetStream) checkServer(ctx context.Context) error {
	warning, err := checkVersion(j.nc.ConnectedServerVersion())
	if err != nil {
		return err
	}
	if warning != "" {
		j.warnings = append(j.warnings, warning)
	}
	if n := j.nc.MaxPayload(); n < minPayload {
		return fmt.Errorf("max_payload of the NATS server is %d bytes: set it to %d at least, better to its default of 1 MB", n, minPayload)
	}
	bounded, cancel := j.bounded(ctx)
	defer cancel()
	if _, err := j.js.AccountInfo(bounded); err != nil {
		return j.explain(bounded, "ask for JetStream", err)
	}
	return nil
}

// checkVersion returns an error for a version that must not be used, and a warning for one
// that should not.
func checkVersion(version string) (warning string, err error) {
	v, known := parseVersion(version)
	switch {
	case known && slices.Compare(v[:], oldestVersion[:]) < 0:
		return "", fmt.Errorf("the NATS server is version %s, which can lose streams: upgrade all servers to %s or later", version, dotted(advisedVersion))
	case !known || slices.Compare(v[:], advisedVersion[:]) < 0:
		return fmt.Sprintf("the NATS server is version %q: %s or later is advised, since older ones can lose messages when the members of a stream change", version, dotted(advisedVersion)), nil
	}
	return "", nil
}

func dotted(v [3]int) string { return fmt.Sprintf("%d.%d.%d", v[0], v[1], v[2]) }

// parseVersion reads versions such as 2.12.3 and 2.12.0-RC.1.
func parseVersion(s string) (v [3]int, ok bool) {
	s, _, _ = strings.Cut(s, "-")
	parts := strings.SplitN(s, ".", 4)
	if len(parts) != 3 {
		return v, false
	}
	for i := range v {
		n, err := strconv.Atoi(parts[i])
		if err != nil {
			return v, false
		}
		v[i] = n
	}
	return v, true
}

// openStream makes a stream if it is missing, and checks it.
func (j *JetStream) openStream(ctx context.Context, c jetstream.StreamConfig) error {
	bounded, cancel := j.bounded(ctx)
	defer cancel()
	s, err := j.js.Stream(bounded, c.Name)
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		s, err = j.js.CreateStream(bounded, c)
		if errors.Is(err, jetstream.ErrStreamNameAlreadyInUse) { // made by another member, with other settings
			s, err = j.js.Stream(bounded, c.Name)
		}
	}
	if err != nil {
		return j.explain(bounded, "open the stream "+c.Name, err)
	}
	if faults := unusable(s.CachedInfo().Config, c); len(faults) > 0 {
		return fmt.Errorf("the stream %s could lose records, or cannot be used: %s; change it with `nats stream edit %[1]s`, or remove it if it is not of this cluster", c.Name, strings.Join(faults, "; "))
	}
	return nil
}

// unusable describes the settings of a stream that must be others.
func unusable(got, want jetstream.StreamConfig) (faults []string) {
	check := func(wrong bool, format string, args ...any) {
		if wrong {
			faults = append(faults, fmt.Sprintf(format, args...))
		}
	}
	check(!slices.Equal(got.Subjects, want.Subjects), "its subjects are %q, not %q", got.Subjects, want.Subjects)
	check(got.Storage != jetstream.FileStorage, "storage is %s, not file", got.Storage)
	check(got.Retention != jetstream.LimitsPolicy, "retention is %s, not limits", got.Retention)
	check(got.Replicas < want.Replicas, "replicas is %d, less than %d as configured", got.Replicas, want.Replicas)
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
	return faults
}

// openBucket makes the bucket if it is missing, and checks it.
func (j *JetStream) openBucket(ctx context.Context) error {
	name := "NDR_" + j.o.Name
	bounded, cancel := j.bounded(ctx)
	defer cancel()
	b, err := j.js.KeyValue(bounded, name)
	if errors.Is(err, jetstream.ErrBucketNotFound) {
		c := jetstream.KeyValueConfig{Bucket: name, History: 1, Replicas: j.o.Replicas, Storage: jetstream.FileStorage}
		b, err = j.js.CreateKeyValue(bounded, c)
		if errors.Is(err, jetstream.ErrBucketExists) {
			b, err = j.js.KeyValue(bounded, name)
		}
	}
	if err != nil {
		return j.explain(bounded, "open the key-value bucket "+name, err)
	}
	status, err := b.Status(bounded)
	if err != nil {
		return j.explain(bounded, "open the key-value bucket "+name, err)
	}
	c := status.Config()
	switch {
	case c.Replicas < j.o.Replicas:
		return fmt.Errorf("the key-value bucket %s has %d replicas, less than %d as configured: change it with `nats stream edit KV_%[1]s --replicas %[3]d`", name, c.Replicas, j.o.Replicas)
	case c.Storage != jetstream.FileStorage || c.TTL > 0 || c.MaxBytes > 0:
		return fmt.Errorf("the key-value bucket %s is in memory, or limits the age or the size of its values: remove it with `nats kv del %[1]s`, and it is made again", name)
	}
	j.bucket = b
	return nil
}
