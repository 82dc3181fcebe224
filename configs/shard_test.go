package configs

import (
	"slices"
	"strings"
	"testing"
)

// A shard of another version must have the same appliances, so these values never change.
func TestShardOfFixedNames(t *testing.T) {
	for _, test := range []struct {
		name   string
		shards int
		want   int
	}{
		{"hq", 1, 0}, {"hq", 16, 4}, {"lab", 16, 9}, {"site-1", 16, 11}, {"site-2", 16, 0}, {"site-1", 100, 55}, {"", 7, 1},
	} {
		if got := ShardOf(test.name, test.shards); got != test.want {
			t.Errorf("%q is in shard %d of %d, want %d", test.name, got, test.shards, test.want)
		}
	}
}

const sharded = `
cluster: {name: prod, member: a, shards: 4, nats: {url: "nats://n:4222"}}
state: /s/state.db
journal: {max_bytes: 40MiB}
dead_letters: {max_bytes: 4MiB}
events: {heartbeat: 1m}
appliances:
  - {name: a, url: "https://a.example", api_key: k}
  - {name: b, url: "https://b.example", api_key: k}
  - {name: c, url: "https://c.example", api_key: k}
  - {name: d, url: "https://d.example", api_key: k}
  - {name: e, url: "https://e.example", api_key: k}
sinks:
  - {name: archive, file: {path: "/s/{shard}/events.jsonl"}, rate_limit: 100, lag: {max_bytes: 8MiB}}
  - {name: log, file: {path: "-"}}
tickets:
  enabled: true
  nats: {url: "nats://n:4222", stream: T}
  kafka: {brokers: ["k:9092"]}
  webhooks: {jira: {secret: secretive}}
`

func TestShard(t *testing.T) {
	config := parse(t, sharded)
	before := printed(t, config)
	var appliances []string
	for n := range 4 {
		s := config.Shard(n)
		for _, a := range s.Appliances {
			if ShardOf(a.Name, 4) != n {
				t.Errorf("shard %d has %s", n, a.Name)
			}
			appliances = append(appliances, a.Name)
		}
		if want := "/s/state.db." + ShardName(n); s.State != want {
			t.Errorf("the state of shard %d is %s, want %s", n, s.State, want)
		}
		if s.Journal.MaxBytes != 16*MiB || s.DeadLetters.MaxBytes != MiB {
			t.Errorf("shard %d has a journal of %s and dead letters of %s", n, s.Journal.MaxBytes, s.DeadLetters.MaxBytes)
		}
		archive, log := s.Sinks[0], s.Sinks[1]
		if want := "/s/" + ShardName(n) + "/events.jsonl"; archive.File.Path != want {
			t.Errorf("shard %d writes %s, want %s", n, archive.File.Path, want)
		}
		if archive.RateLimit != 25 || archive.Lag.MaxBytes != 2*MiB {
			t.Errorf("shard %d sends %v/s and may lag %s", n, archive.RateLimit, archive.Lag.MaxBytes)
		}
		if log.File.Path != "-" || log.RateLimit != 0 || log.Lag.MaxBytes != 0 {
			t.Errorf("the second sink of shard %d has limits: %+v", n, log)
		}
		first := n == 0
		if (s.Events.Heartbeat != 0) != first || (s.Tickets.NATS.Stream != "") != first || (len(s.Tickets.Kafka.Brokers) > 0) != first {
			t.Errorf("shard %d has what belongs to shard 0 alone, or shard 0 has not: %+v, %+v", n, s.Events, s.Tickets)
		}
		if !s.Tickets.Enabled || s.Tickets.Webhooks.Jira == nil {
			t.Errorf("shard %d writes no tickets: %+v", n, s.Tickets)
		}
	}
	if slices.Sort(appliances); !slices.Equal(appliances, []string{"a", "b", "c", "d", "e"}) {
		t.Errorf("the shards have the appliances %q", appliances)
	}
	if after := printed(t, config); after != before {
		t.Errorf("Shard changed the configuration: now it is\n%s", after)
	}
}

func TestShardsOfALargeJournalDivideIt(t *testing.T) {
	config := parse(t, strings.Replace(sharded, "40MiB", "1GiB", 1))
	if got := config.Shard(3).Journal.MaxBytes; got != 256*MiB {
		t.Errorf("got %s", got)
	}
}

func TestUnlimitedDeadLettersStayUnlimited(t *testing.T) {
	config := parse(t, strings.Replace(sharded, "4MiB", "0", 1))
	if got := config.Shard(0).DeadLetters.MaxBytes; got != 0 {
		t.Errorf("got %s", got)
	}
}

func TestHash(t *testing.T) {
	hash := parse(t, sharded).Hash()
	for _, test := range []struct {
		name, old, new string
		same           bool
	}{
		{"the member", "member: a", "member: b", true},
		{"the state", "/s/state.db", "/other", true},
		{"the log", "events: {", "log: {level: debug, format: json}\nevents: {", true},
		{"the admin interface", "events: {", "admin: {listen: '0.0.0.0:1', token: longenough}\nevents: {", true},
		{"a literal secret", "secret: secretive", "secret: another-one", true},
		{"the cluster", "name: prod", "name: test", false},
		{"the shards", "shards: 4", "shards: 5", false},
		{"the servers", "n:4222\"}}\nstate", "m:4222\"}}\nstate", false},
		{"an appliance", "{name: e,", "{name: f,", false},
		{"a sink", "rate_limit: 100", "rate_limit: 101", false},
		{"the heartbeat", "heartbeat: 1m", "heartbeat: 2m", false},
	} {
		t.Run(test.name, func(t *testing.T) {
			text := strings.Replace(sharded, test.old, test.new, 1)
			if text == sharded {
				t.Fatal("nothing was replaced")
			}
			if same := parse(t, text).Hash() == hash; same != test.same {
				t.Errorf("the hash is the same: %v", same)
			}
		})
	}
	config := parse(t, sharded)
	config.Hash()
	if config.Cluster.Member != "a" || config.State != "/s/state.db" {
		t.Error("Hash changed the configuration")
	}
}
