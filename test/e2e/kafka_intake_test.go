//go:build e2e

package e2e

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"ndrbridge/checkpoint"
	"ndrbridge/internal/commands"
	"ndrbridge/internal/commands/intake"
	"ndrbridge/internal/kafkaconn"
	standin "ndrbridge/test/appliance"
	"ndrbridge/test/assert"
	"ndrbridge/test/require"
)

// ticketCommands tests the Kafka ticket intake. It needs a cluster started by the tests.
func (c *kafkaCluster) ticketCommands(t *testing.T, program string) {
	t.Run("of every codec are written in the order of their keys", func(t *testing.T) { c.commandsOfEveryCodec(t, program) })
	t.Run("come by SCRAM over TLS", func(t *testing.T) { c.commandsBySCRAM(t, program) })
	t.Run("of a topic that is deleted and created again are all written", func(t *testing.T) { c.commandsOfANewTopic(t, program) })
	t.Run("that cannot be stored are waited for without losing the membership", c.commandsThatWait)
	t.Run("are taken over from a member that stops", func(t *testing.T) { c.stoppedMember(t, program) })
	t.Run("are taken over from a member that is killed", func(t *testing.T) { c.killedMember(t, program) })
	t.Run("go on while the coordinator is down", func(t *testing.T) { c.killedCoordinator(t, program) })
}

// commandScene is an appliance with one detection for each ticket, a topic of commands for
// them, and the record of the commands produced.
type commandScene struct {
	c            *kafkaCluster
	appliance    *standin.Appliance
	url          string
	topic, group string
	tickets      []string
	produced     int // commands of each ticket
}

const commandPartitions = 6

// newCommandScene creates the topic on all brokers and produces the first command of each
// ticket, which links it to its detection.
func (c *kafkaCluster) newCommandScene(t *testing.T, name string) *commandScene {
	t.Helper()
	s := &commandScene{c: c, topic: c.commandTopic(t, name), group: c.prefix + name}
	s.appliance, s.url = startAppliance(t)
	var lines []string
	for i, v := range s.appliance.AddBacklog(12, time.Minute) {
		ticket := fmt.Sprintf("SEC-%d", i)
		s.tickets = append(s.tickets, ticket)
		lines = append(lines, fmt.Sprintf(`%s|{"ticket_id": %q, "detection_id": %d, "assignee": "0"}`, ticket, ticket, v.ID))
	}
	s.produced = 1
	c.produce(t, s.topic, "none", lines)
	return s
}

func (c *kafkaCluster) commandTopic(t *testing.T, name string) string {
	t.Helper()
	var replicas [][]int32
	for i := range int32(commandPartitions) {
		replicas = append(replicas, []int32{i%3 + 1, (i+1)%3 + 1, (i+2)%3 + 1})
	}
	return c.topic(t, name, replicas, "min.insync.replicas=1")
}

// produce produces lines with kcat, each with a key and a value.
func (c *kafkaCluster) produce(t *testing.T, topic, codec string, lines []string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	p := exec.CommandContext(ctx, "kcat", "-P", "-q", "-b", strings.Join(c.brokers, ","), "-t", topic, "-K", "|",
		"-X", "compression.codec="+codec, "-X", "enable.idempotence=true", "-X", "linger.ms=20")
	contain(p)
	p.Stdin = strings.NewReader(strings.Join(lines, "\n") + "\n")
	var said bytes.Buffer
	p.Stdout, p.Stderr = &said, &said
	require.NoError(t, p.Run(), "kcat", said.String())
}

// send produces n more commands of each ticket, numbered by their assignee.
func (s *commandScene) send(t *testing.T, codec string, n int) {
	t.Helper()
	var lines []string
	for range n {
		for _, ticket := range s.tickets {
			lines = append(lines, fmt.Sprintf(`%s|{"ticket_id": %q, "assignee": "%d"}`, ticket, ticket, s.produced))
		}
		s.produced++
	}
	s.c.produce(t, s.topic, codec, lines)
}

// written returns the numbers of the commands written, by ticket.
func (s *commandScene) written() map[string][]int {
	all := map[string][]int{}
	for _, p := range s.appliance.Patches() {
		var body struct {
			TicketID string `json:"ticket_id"`
			Assignee string
		}
		if p.Path != "/detections/tickets" || p.Status != http.StatusNoContent || json.Unmarshal(p.Body, &body) != nil {
			continue
		}
		if n, err := strconv.Atoi(body.Assignee); err == nil {
			all[body.TicketID] = append(all[body.TicketID], n)
		}
	}
	return all
}

// await waits until every produced command is written.
func (s *commandScene) await(t *testing.T, bridges ...*bridge) {
	t.Helper()
	eventually(t, time.Minute, func() error {
		written := s.written()
		for _, ticket := range s.tickets {
			for n := range s.produced {
				if !slices.Contains(written[ticket], n) {
					err := fmt.Errorf("command %d of %s is not written; written are %v", n, ticket, written[ticket])
					for _, b := range bridges {
						now, _ := b.intake()
						err = fmt.Errorf("%w\n%+v\n%s", err, now, b.output.end())
					}
					return err
				}
			}
		}
		return nil
	})
}

// awaitCommitted waits until the group has committed the end of each partition.
func (s *commandScene) awaitCommitted(t *testing.T) {
	t.Helper()
	eventually(t, time.Minute, func() error {
		ends := map[int32]int64{}
		for _, r := range s.c.read(t, s.topic) {
			ends[int32(r.Partition)] = max(ends[int32(r.Partition)], r.Offset+1)
		}
		committed := s.c.committed(t, s.group, s.topic, commandPartitions)
		for p, end := range ends {
			if committed[p] != end {
				return fmt.Errorf("partition %d ends at %d, and %d is committed", p, end, committed[p])
			}
		}
		return nil
	})
}

// eachOnce fails unless every command was written exactly once, those of a ticket in order.
func (s *commandScene) eachOnce(t *testing.T) {
	t.Helper()
	want := make([]int, s.produced)
	for i := range want {
		want[i] = i
	}
	written := s.written()
	for _, ticket := range s.tickets {
		assert.EqualSlices(t, written[ticket], want, ticket, "written are", s.produced-1)
	}
}

// bridge starts a bridge, with a state of its own, that receives the commands; keys are
// further keys of tickets.kafka. again restarts it after its end.
func (s *commandScene) bridge(t *testing.T, program, keys string) (b *bridge, again func() *bridge) {
	t.Helper()
	config := writeConfig(t, s.url, 200*time.Millisecond, fmt.Sprintf(`
sinks:
  - {name: log, file: {path: %q}}
tickets:
  enabled: true
  kafka: {topic: %q, group: %q, %s}
`, filepath.Join(t.TempDir(), "events.jsonl"), s.topic, s.group, keys))
	return runBridge(t, program, config), func() *bridge { return runBridge(t, program, config) }
}

func (s *commandScene) inTheClear() string {
	return fmt.Sprintf("brokers: [%s]", strings.Join(s.c.brokers, ", "))
}

func (c *kafkaCluster) commandsOfEveryCodec(t *testing.T, program string) {
	s := c.newCommandScene(t, "commands")
	b, _ := s.bridge(t, program, s.inTheClear())
	for _, codec := range []string{"none", "gzip", "snappy", "lz4", "zstd"} {
		s.send(t, codec, 5)
	}
	s.await(t, b)
	s.awaitCommitted(t)
	b.terminate(t)
	s.eachOnce(t)
}

func (c *kafkaCluster) commandsBySCRAM(t *testing.T, program string) {
	s := c.newCommandScene(t, "commands-scram")
	b, _ := s.bridge(t, program, fmt.Sprintf("brokers: [%s], tls: {ca_file: %s}, sasl: {mechanism: scram-sha-512, username: %s, password_file: %s}",
		strings.Join(c.addresses("BOTH"), ", "), c.authority.file(), kafkaUser, writeSecret(t, kafkaPassword)))
	s.send(t, "none", 2)
	s.await(t, b)
	s.awaitCommitted(t)
	b.terminate(t)
	s.eachOnce(t)
}

// commandsOfANewTopic sends at once more commands to the second topic than the first one
// contained: the offsets of the first are valid in the second.
func (c *kafkaCluster) commandsOfANewTopic(t *testing.T, program string) {
	const name = "commands-deleted"
	s := c.newCommandScene(t, name)
	b, _ := s.bridge(t, program, s.inTheClear())
	s.send(t, "none", 5)
	s.await(t, b)
	s.awaitCommitted(t)
	for _, n := range []int{20, 3} {
		c.delete(t, s.topic)
		c.commandTopic(t, name)
		s.send(t, "none", n)
		s.await(t, b)
	}
	s.awaitCommitted(t)
	b.terminate(t)
	s.eachOnce(t)
}

// waitingAcceptor accepts commands. From the command numbered from on it waits until it is
// open.
type waitingAcceptor struct {
	mu       sync.Mutex
	from     string
	open     bool
	accepted []string // assignees
}

func (d *waitingAcceptor) Accept(_ context.Context, _ string, commands []commands.Command) ([]checkpoint.Acceptance, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if n := *commands[0].Assignee; n != d.from || d.open {
		d.accepted = append(d.accepted, n)
		return make([]checkpoint.Acceptance, len(commands)), nil
	}
	return nil, errors.New("the journal is full")
}

func (d *waitingAcceptor) numbers() []string {
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.Clone(d.accepted)
}

func (c *kafkaCluster) commandsThatWait(t *testing.T) {
	const sessionTimeout = 10 * time.Second
	topic := c.topic(t, "commands-wait", [][]int32{{1, 2}})
	var lines []string
	for n := range 10 {
		lines = append(lines, fmt.Sprintf(`k|{"ticket_id": "SEC-1", "assignee": "%d"}`, n))
	}
	c.produce(t, topic, "gzip", lines)
	acceptor := &waitingAcceptor{from: "4"}
	intake := intake.NewKafka(intake.KafkaOptions{
		Options: intake.Options{
			Acceptor: acceptor,
			Refuse:   func(_ context.Context, r intake.Refusal) error { t.Errorf("refused: %+v", r); return nil },

			RetryInitial: 50 * time.Millisecond, RetryMax: time.Second, Log: slog.New(slog.DiscardHandler),
		},
		Brokers: c.brokers, Topic: topic, Group: topic,
		Connect: func() (*tls.Config, *kafkaconn.SASL, error) { return nil, nil, nil },
	})
	ctx, stop := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() { intake.Run(ctx) })
	defer func() { stop(); running.Wait() }()
	eventually(t, 30*time.Second, func() error {
		if got := acceptor.numbers(); len(got) != 4 || c.committed(t, topic, topic, 1)[0] != 4 {
			return fmt.Errorf("%v are accepted: %+v", got, intake.Status())
		}
		return nil
	})
	before := c.members(t, topic)
	time.Sleep(sessionTimeout + 2*time.Second)
	after := c.members(t, topic)
	assert.True(t, len(after) == 1 && slices.Equal(before, after), "the members were", before, "and are", after)
	assert.Equal(t, c.committed(t, topic, topic, 1)[0], 4, "the offset", "is committed, and 4 waits")
	acceptor.mu.Lock()
	acceptor.open = true
	acceptor.mu.Unlock()
	eventually(t, 30*time.Second, func() error {
		if c.committed(t, topic, topic, 1)[0] != 10 {
			return fmt.Errorf("accepted are %v: %+v", acceptor.numbers(), intake.Status())
		}
		return nil
	})
	assert.Equal(t, strings.Join(acceptor.numbers(), " "), "0 1 2 3 4 5 6 7 8 9", "accepted are")
}

// twoMembers starts two bridges in one group and waits until both receive.
func (s *commandScene) twoMembers(t *testing.T, program string) (first, second *bridge, firstAgain func() *bridge) {
	t.Helper()
	first, firstAgain = s.bridge(t, program, s.inTheClear())
	s.await(t, first)
	second, _ = s.bridge(t, program, s.inTheClear())
	before, _ := first.intake()
	eventually(t, time.Minute, func() error {
		s.send(t, "lz4", 1)
		one, _ := first.intake()
		two, err := second.intake()
		if err == nil && (one.Stored <= before.Stored || two.Stored == 0) {
			err = fmt.Errorf("the first has stored %d, before %d, the second %d", one.Stored, before.Stored, two.Stored)
		}
		before = one
		return err
	})
	return first, second, firstAgain
}

func (c *kafkaCluster) stoppedMember(t *testing.T, program string) {
	s := c.newCommandScene(t, "commands-stop")
	first, second, firstAgain := s.twoMembers(t, program)
	s.send(t, "none", 40) // it stops in between
	first.terminate(t)
	left := c.members(t, s.group)
	assert.Equal(t, len(left), 1, "after the end of one member of two, the group", left)
	s.send(t, "none", 1)
	s.awaitCommitted(t)
	first = firstAgain() // it writes the commands that it had stored
	s.await(t, first, second)
	first.terminate(t)
	second.terminate(t)
	left = c.members(t, s.group)
	assert.Equal(t, len(left), 0, "after the end of all members, the group", left)
}

func (c *kafkaCluster) killedMember(t *testing.T, program string) {
	s := c.newCommandScene(t, "commands-kill")
	first, second, firstAgain := s.twoMembers(t, program)
	s.send(t, "zstd", 40)
	first.kill()
	s.send(t, "zstd", 1)
	s.awaitCommitted(t)
	first = firstAgain()
	s.await(t, first, second)
	first.terminate(t)
	second.terminate(t)
}

func (c *kafkaCluster) killedCoordinator(t *testing.T, program string) {
	s := c.newCommandScene(t, "commands-coordinator")
	// The first broker is the controller, without which no other can take over.
	for n := 0; c.coordinator(t, s.group) == 1; n++ {
		s.group = fmt.Sprintf("%scommands-coordinator-%d", c.prefix, n)
	}
	b, _ := s.bridge(t, program, s.inTheClear())
	s.await(t, b)
	killed := c.nodes[c.coordinator(t, s.group)-1]
	killed.running.kill()
	s.send(t, "snappy", 5)
	s.await(t, b)
	s.awaitCommitted(t)
	// It has another id (segmentio/kafka-go#1215), and the old one is gone once commands come.
	after := c.members(t, s.group)
	assert.Equal(t, len(after), 1, "the members are", after)
	killed.start()
	c.awaitBrokers(t, len(c.nodes))
	c.awaitLeaders(t, s.topic)
	s.send(t, "snappy", 5)
	s.await(t, b)
	s.awaitCommitted(t)
	b.terminate(t)
}
