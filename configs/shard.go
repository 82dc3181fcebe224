package configs

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"
)

// minJournal is the smallest journal; see [Journal.MaxBytes].
const minJournal = 16 * MiB

// ShardOf returns the shard, 0 to shards-1, of the appliance with this name. It never
// changes for a name and a number of shards: members of different versions agree.
func ShardOf(appliance string, shards int) int {
	sum := sha256.Sum256([]byte(appliance))
	return int(binary.BigEndian.Uint64(sum[:]) % uint64(shards))
}

// ShardName returns the name of a shard in paths, streams and metrics: two digits.
func ShardName(n int) string { return fmt.Sprintf("%02d", n) }

// Shard returns the configuration of shard n, for a pipeline of its own: its appliances,
// its state file, its file sinks' paths, and its share of the limits that apply to the
// cluster: of the journal (16 MiB at least), the dead letters, and the rate and the lag
// of sinks. Shard 0 alone has the heartbeat, and receives ticket commands from NATS and
// Kafka. c must have a cluster, and is not changed; the result shares its other parts.
func (c *Config) Shard(n int) *Config {
	shards := c.Cluster.Shards
	s := *c
	s.State = c.State + "." + ShardName(n)
	s.Journal.MaxBytes = max(minJournal, c.Journal.MaxBytes/Size(shards))
	s.DeadLetters.MaxBytes = share(c.DeadLetters.MaxBytes, shards)
	s.Appliances = nil
	for _, a := range c.Appliances {
		if ShardOf(a.Name, shards) == n {
			s.Appliances = append(s.Appliances, a)
		}
	}
	s.Sinks = slices.Clone(c.Sinks)
	for i := range s.Sinks {
		sink := &s.Sinks[i]
		sink.RateLimit /= float64(shards)
		sink.Lag.MaxBytes = share(sink.Lag.MaxBytes, shards)
		if sink.File != nil {
			file := *sink.File
			file.Path = strings.ReplaceAll(file.Path, shardPlaceholder, ShardName(n))
			sink.File = &file
		}
	}
	if n != 0 {
		s.Events.Heartbeat = 0
		s.Tickets.NATS, s.Tickets.Kafka = NATSIntake{}, KafkaIntake{}
	}
	return &s
}

// share returns a shard's part of a limit, at least one byte. 0 stays 0: no limit.
func share(limit Size, shards int) Size {
	if limit == 0 {
		return 0
	}
	return max(1, limit/Size(shards))
}

// Hash returns a digest of what must be the same for all members of a cluster: every key
// but cluster.member, state, admin and log. It is made from what [Print] shows. So it
// reveals nothing about secrets, and does not change if only a secret, a hidden part of a
// URL, or the content of a file differs. Another version of the bridge may have other
// keys, and so another hash for the same file. It is empty if c cannot be printed, which is
// possible only if c is not valid.
func (c *Config) Hash() string {
	same := *c
	same.State, same.Admin, same.Log = "", Admin{}, Log{}
	if c.Cluster.Enabled() {
		cluster := *c.Cluster
		cluster.Member = ""
		same.Cluster = &cluster
	}
	h := sha256.New()
	if err := Print(h, &same); err != nil {
		return ""
	}
	return hex.EncodeToString(h.Sum(nil)[:8])
}
