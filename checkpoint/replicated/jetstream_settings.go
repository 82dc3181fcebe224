package replicated

import (
	"context"
	"errors"
	"fmt"

	"github.com/nats-io/nats.go/jetstream"
)

// bucketName returns the name of the bucket of a cluster.
func (o JetStreamOptions) bucketName() string { return "NDR_" + o.Name }

// streams returns those of all logs, and that of snapshots.
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
