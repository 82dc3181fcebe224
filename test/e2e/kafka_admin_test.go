//go:build e2e

package e2e

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"ndrbridge/test/require"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// record is a record as printed by kcat.
type record struct {
	Partition int
	Offset    int64
	Headers   []string // alternating names and values
	Key       *string
	Payload   *string
}

// eachHeader yields the headers' names and values.
func (r record) eachHeader(yield func(name, value string) bool) {
	for i := 0; i+1 < len(r.Headers); i += 2 {
		if !yield(r.Headers[i], r.Headers[i+1]) {
			return
		}
	}
}

// header returns a header's value, or "".
func (r record) header(want string) string {
	for name, value := range r.eachHeader {
		if name == want {
			return value
		}
	}
	return ""
}

// read returns all records of a topic, those of each partition in order. It repeats a read
// that fails: kcat ends at the first transient error, as after a broker was killed.
func (c *kafkaCluster) read(t testing.TB, topic string) (records []record) {
	t.Helper()
	eventually(t, time.Minute, func() (err error) {
		records, err = c.readOnce(t.Context(), topic)
		return err
	})
	return records
}

func (c *kafkaCluster) readOnce(ctx context.Context, topic string) ([]record, error) {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	p := exec.CommandContext(ctx, "kcat", "-C", "-J", "-e", "-q", "-m", "30", "-o", "beginning", "-b", strings.Join(c.brokers, ","), "-t", topic,
		"-X", "check.crcs=true", "-X", "fetch.wait.max.ms=50")
	contain(p)
	var stderr bytes.Buffer
	p.Stderr = &stderr
	out, err := p.Output()
	if err != nil {
		return nil, fmt.Errorf("kcat: %w\n%s", err, stderr.String())
	}
	var records []record
	lines := bufio.NewScanner(bytes.NewReader(out))
	lines.Buffer(nil, 16<<20)
	for lines.Scan() {
		var r record
		if err := json.Unmarshal(lines.Bytes(), &r); err != nil {
			return nil, fmt.Errorf("%w: %s", err, lines.Text())
		}
		records = append(records, r)
	}
	return records, lines.Err()
}

// bodies returns the values in a topic. A null value fails the test.
func (c *kafkaCluster) bodies(t testing.TB, topic string) [][]byte {
	t.Helper()
	var bodies [][]byte
	for _, r := range c.read(t, topic) {
		require.True(t, r.Payload != nil, "topic", topic, "has a null value at", r.Partition, "/", r.Offset)
		bodies = append(bodies, []byte(*r.Payload))
	}
	return bodies
}

// topic creates a topic with settings given as name=value. Each list contains the brokers of
// one partition's replicas; without lists there are three partitions, assigned by the
// cluster.
func (c *kafkaCluster) topic(t testing.TB, name string, replicas [][]int32, settings ...string) (topic string) {
	t.Helper()
	topic = c.prefix + name
	request := kmsg.NewPtrCreateTopicsRequest()
	request.TimeoutMillis = 20_000
	made := kmsg.NewCreateTopicsRequestTopic()
	made.Topic, made.NumPartitions, made.ReplicationFactor = topic, 3, -1
	for i, brokers := range replicas {
		made.NumPartitions, made.ReplicationFactor = -1, -1
		assignment := kmsg.NewCreateTopicsRequestTopicReplicaAssignment()
		assignment.Partition, assignment.Replicas = int32(i), brokers
		made.ReplicaAssignment = append(made.ReplicaAssignment, assignment)
	}
	for _, setting := range settings {
		name, value, _ := strings.Cut(setting, "=")
		config := kmsg.NewCreateTopicsRequestTopicConfig()
		config.Name, config.Value = name, &value
		made.Configs = append(made.Configs, config)
	}
	request.Topics = append(request.Topics, made)
	response, err := request.RequestWith(t.Context(), c.admin)
	if err == nil {
		err = kerr.ErrorForCode(response.Topics[0].ErrorCode)
	}
	require.NoError(t, err, "make topic", topic)
	c.awaitLeaders(t, topic)
	return topic
}

// delete deletes a topic.
func (c *kafkaCluster) delete(t testing.TB, topic string) {
	t.Helper()
	request := kmsg.NewPtrDeleteTopicsRequest()
	request.TimeoutMillis = 20_000
	request.TopicNames = []string{topic}
	gone := kmsg.NewDeleteTopicsRequestTopic()
	gone.Topic = &topic
	request.Topics = append(request.Topics, gone)
	response, err := request.RequestWith(t.Context(), c.admin)
	if err == nil {
		err = kerr.ErrorForCode(response.Topics[0].ErrorCode)
	}
	require.NoError(t, err, "delete topic", topic)
}

// layout returns each partition's leader and replicas.
func (c *kafkaCluster) layout(t testing.TB, topic string) ([]kmsg.MetadataResponseTopicPartition, error) {
	t.Helper()
	request := kmsg.NewPtrMetadataRequest()
	asked := kmsg.NewMetadataRequestTopic()
	asked.Topic = &topic
	request.Topics = append(request.Topics, asked)
	response, err := request.RequestWith(t.Context(), c.admin)
	if err != nil {
		return nil, err
	}
	partitions := make([]kmsg.MetadataResponseTopicPartition, len(response.Topics[0].Partitions))
	for _, p := range response.Topics[0].Partitions {
		partitions[p.Partition] = p
	}
	return partitions, kerr.ErrorForCode(response.Topics[0].ErrorCode)
}

// awaitLeaders waits until every partition has a leader.
func (c *kafkaCluster) awaitLeaders(t testing.TB, topic string) {
	t.Helper()
	eventually(t, 20*time.Second, func() error {
		partitions, err := c.layout(t, topic)
		if err == nil && len(partitions) == 0 {
			err = fmt.Errorf("topic %s has no partitions", topic)
		}
		for _, p := range partitions {
			if p.Leader < 0 {
				err = fmt.Errorf("topic %s, partition %d has no leader", topic, p.Partition)
			}
		}
		return err
	})
}

// lead makes brokers the leaders of a topic's partitions, one for each partition.
func (c *kafkaCluster) lead(t testing.TB, topic string, replicas [][]int32) {
	t.Helper()
	move := kmsg.NewPtrAlterPartitionAssignmentsRequest()
	move.TimeoutMillis = 20_000
	moved := kmsg.NewAlterPartitionAssignmentsRequestTopic()
	moved.Topic = topic
	elect := kmsg.NewPtrElectLeadersRequest()
	elect.TimeoutMillis = 20_000
	elected := kmsg.NewElectLeadersRequestTopic()
	elected.Topic = topic
	for i, brokers := range replicas {
		p := kmsg.NewAlterPartitionAssignmentsRequestTopicPartition()
		p.Partition, p.Replicas = int32(i), brokers
		moved.Partitions = append(moved.Partitions, p)
		elected.Partitions = append(elected.Partitions, int32(i))
	}
	move.Topics = append(move.Topics, moved)
	elect.Topics = append(elect.Topics, elected)
	response, err := move.RequestWith(t.Context(), c.admin)
	if err == nil {
		err = kerr.ErrorForCode(response.ErrorCode)
	}
	require.NoError(t, err, "move", topic)
	eventually(t, 30*time.Second, func() error {
		if _, err := elect.RequestWith(t.Context(), c.admin); err != nil {
			return err
		}
		partitions, err := c.layout(t, topic)
		for i, p := range partitions {
			if p.Leader != replicas[i][0] {
				err = fmt.Errorf("%s, partition %d: broker %d leads, not %d", topic, i, p.Leader, replicas[i][0])
			}
		}
		return err
	})
}

// awaitBrokers waits until a number of brokers have joined the cluster.
func (c *kafkaCluster) awaitBrokers(t testing.TB, n int) {
	t.Helper()
	eventually(t, 90*time.Second, func() error {
		for _, node := range c.nodes {
			if !node.running.running() {
				t.Fatalf("broker %d ended\n%s", node.id, node.running.output.end())
			}
		}
		response, err := kmsg.NewPtrMetadataRequest().RequestWith(t.Context(), c.admin)
		if err == nil && len(response.Brokers) < n {
			err = fmt.Errorf("%d brokers of %d", len(response.Brokers), n)
		}
		return err
	})
}

// committed returns the offsets that a group has committed; -1: none.
func (c *kafkaCluster) committed(t testing.TB, group, topic string, partitions int32) map[int32]int64 {
	t.Helper()
	request := kmsg.NewPtrOffsetFetchRequest()
	request.Group = group
	asked := kmsg.NewOffsetFetchRequestTopic()
	asked.Topic = topic
	for p := range partitions {
		asked.Partitions = append(asked.Partitions, p)
	}
	request.Topics = append(request.Topics, asked)
	offsets := map[int32]int64{}
	askGroup(t, group, func() error {
		response, err := request.RequestWith(t.Context(), c.admin)
		if err != nil {
			return err
		}
		for _, asked := range response.Topics {
			for _, p := range asked.Partitions {
				offsets[p.Partition] = p.Offset
			}
		}
		return nil
	})
	return offsets
}

// members returns the ids of a group's members.
func (c *kafkaCluster) members(t testing.TB, group string) (ids []string) {
	t.Helper()
	request := kmsg.NewPtrDescribeGroupsRequest()
	request.Groups = []string{group}
	askGroup(t, group, func() error {
		response, err := request.RequestWith(t.Context(), c.admin)
		if err == nil {
			err = kerr.ErrorForCode(response.Groups[0].ErrorCode)
		}
		if err != nil {
			return err
		}
		for _, m := range response.Groups[0].Members {
			ids = append(ids, m.MemberID)
		}
		return nil
	})
	slices.Sort(ids)
	return ids
}

// askGroup repeats a request about a group until it is answered. kgo looks the group's
// coordinator up only once, so that the request fails if the connection it uses for that
// ended with a broker that was killed.
func askGroup(t testing.TB, group string, ask func() error) {
	t.Helper()
	eventually(t, 30*time.Second, func() error {
		if err := ask(); err != nil {
			return fmt.Errorf("ask for the group %s: %w", group, err)
		}
		return nil
	})
}

// coordinator returns the id of the broker that coordinates a group.
func (c *kafkaCluster) coordinator(t testing.TB, group string) (id int32) {
	t.Helper()
	eventually(t, 30*time.Second, func() error {
		request := kmsg.NewPtrFindCoordinatorRequest()
		request.CoordinatorKeys = []string{group}
		response, err := request.RequestWith(t.Context(), c.admin)
		if err == nil {
			id, err = response.Coordinators[0].NodeID, kerr.ErrorForCode(response.Coordinators[0].ErrorCode)
		}
		return err
	})
	return id
}
