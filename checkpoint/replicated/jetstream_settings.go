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

// logConfig is that of the log of a generation. Only its leader answers reads, and it refuses
// messages rather than remove old ones.
func (o JetStreamOptions) logConfig(generation uint64) jetstream.StreamConfig {
	return o.config(fmt.Sprint(generation), fmt.Sprintf("ndr.%s.log.%d", o.Name, generation))
}

// metaConfig is that of the values and snapshots. A value replaces the one before.
func (o JetStreamOptions) metaConfig() jetstream.StreamConfig {
	c := o.config("meta", fmt.Sprintf("ndr.%s.meta.>", o.Name))
	c.AllowRollup = true
	return c
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

// openStream checks a stream, and creates a missing one if create is set. Otherwise the error is
// jetstream.ErrStreamNotFound if it is missing.
func (j *JetStream) openStream(ctx context.Context, c jetstream.StreamConfig, create bool) error {
	ctx, cancel := j.bounded(ctx)
	defer cancel()
	s, err := j.js.Stream(ctx, c.Name)
	if create && errors.Is(err, jetstream.ErrStreamNotFound) {
		s, err = j.js.CreateStream(ctx, c)
		if errors.Is(err, jetstream.ErrStreamNameAlreadyInUse) { // made by another member, with other settings
			s, err = j.js.Stream(ctx, c.Name)
		}
	}
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		return fmt.Errorf("there is no stream %s in NATS: %w", c.Name, jetstream.ErrStreamNotFound)
	}
	if err != nil {
		return j.explain(ctx, "open the stream "+c.Name, err)
	}
	if f := checkStream(s.CachedInfo().Config, c); f != nil {
		return f
	}
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

// CheckStreams compares the existing streams of a cluster with the settings that they get: that of
// its values and snapshots, and the log of a generation; 0: of the first one. It returns their
// faults and the names of missing ones. It makes none.
func (j *JetStream) CheckStreams(ctx context.Context, generation uint64) (faults []*Fault, missing []string, err error) {
	for _, c := range []jetstream.StreamConfig{j.o.metaConfig(), j.o.logConfig(max(generation, 1))} {
		s, err := j.js.Stream(ctx, c.Name)
		if errors.Is(err, jetstream.ErrStreamNotFound) {
			missing = append(missing, c.Name)
			continue
		}
		if err != nil {
			return faults, missing, err
		}
		if f := checkStream(s.CachedInfo().Config, c); f != nil {
			faults = append(faults, f)
		}
	}
	return faults, missing, nil
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
	check(want.AllowRollup && !got.AllowRollup, "allow_rollup_hdrs is not set")
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
