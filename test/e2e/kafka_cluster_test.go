//go:build e2e

package e2e

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"ndrbridge/test/loopback"
	"ndrbridge/test/require"
)

// The users of a test cluster.
const (
	kafkaUser     = "bridge"
	kafkaPassword = "correct-horse-battery"
)

// kafkaListeners are the listeners of each broker, with their security protocols.
var kafkaListeners = map[string]string{
	"PLAIN": "PLAINTEXT", "SASL": "SASL_PLAINTEXT", "BOTH": "SASL_SSL", "TLS": "SSL", "MUTUAL": "SSL",
}

// kafkaCluster is a cluster of three Apache Kafka brokers, or of those that the environment
// names.
type kafkaCluster struct {
	brokers   []string // plaintext, without authentication
	admin     *kgo.Client
	prefix    string       // of topics, to keep them apart in a shared cluster
	nodes     []*kafkaNode // empty: the cluster is external
	authority *authority
}

// kafkaNode is a broker that keeps its ports and its data when it is restarted.
type kafkaNode struct {
	owner   testing.TB // the broker ends with this test
	id      int
	ports   map[string]int // by listener
	jars    string
	folder  string
	running *process
}

// address returns the host:port of a listener.
func (n *kafkaNode) address(listener string) string {
	return fmt.Sprintf("127.0.0.1:%d", n.ports[listener])
}

// newKafkaCluster starts a cluster, unless NDRBRIDGE_TEST_KAFKA contains a comma-separated
// list of brokers.
func newKafkaCluster(t *testing.T) *kafkaCluster {
	t.Helper()
	need(t, "kcat", "kcat")
	c := &kafkaCluster{prefix: fmt.Sprintf("ndrbridge-e2e-%d-", time.Now().UnixNano())}
	if named := os.Getenv("NDRBRIDGE_TEST_KAFKA"); named != "" {
		c.brokers = strings.Split(named, ",")
	} else {
		need(t, "java", "a Java runtime")
		need(t, "mvn", "Maven")
		c.start(t)
	}
	var err error
	c.admin, err = kgo.NewClient(kgo.SeedBrokers(c.brokers...), kgo.RetryTimeout(30*time.Second))
	require.NoError(t, err)
	t.Cleanup(c.admin.Close)
	c.awaitBrokers(t, max(1, len(c.nodes)))
	return c
}

// need fails the test if a program is not installed.
func need(t testing.TB, program, name string) {
	t.Helper()
	_, err := exec.LookPath(program)
	require.NoError(t, err, "this needs", name)
}

// start starts the cluster's brokers. The first is also the controller.
func (c *kafkaCluster) start(t *testing.T) {
	t.Helper()
	jars := fetchArchives(t, "pom.xml")
	c.authority = newAuthority(t)
	_, _, both := c.authority.issue(t, "broker")
	const brokers = 3
	ports := loopback.FreePorts(t, brokers*len(kafkaListeners)+1)
	controller := ports[0]
	ports = ports[1:]
	for id := 1; id <= brokers; id++ {
		n := &kafkaNode{owner: t, id: id, jars: jars, folder: t.TempDir(), ports: map[string]int{}}
		for listener := range kafkaListeners {
			n.ports[listener], ports = ports[0], ports[1:]
		}
		c.nodes = append(c.nodes, n)
		c.brokers = append(c.brokers, n.address("PLAIN"))
	}
	var formatting []*process
	for _, n := range c.nodes {
		text := n.properties(controller, c.authority.file(), both)
		require.NoError(t, os.WriteFile(n.config(), []byte(text), 0o600))
		formatting = append(formatting, start(t, n.format()))
	}
	for _, p := range formatting {
		p.succeed(t, time.Minute)
	}
	for _, n := range c.nodes {
		n.start()
	}
}

// fetchArchives downloads what a project of Maven depends on and returns the folder of the
// archives.
func fetchArchives(t testing.TB, project string) (folder string) {
	t.Helper()
	folder = t.TempDir()
	fetch := exec.Command("mvn", "--batch-mode", "--quiet", "-f", project, "dependency:copy-dependencies", "-DoutputDirectory="+folder, "-DincludeScope=runtime")
	start(t, fetch).succeed(t, 3*time.Minute)
	return folder
}

func (n *kafkaNode) config() string { return filepath.Join(n.folder, "server.properties") }

// properties returns the broker's settings: short timeouts, so that the others quickly
// detect its failure, and little memory.
func (n *kafkaNode) properties(controller int, authority, certificate string) string {
	roles := "broker"
	var listeners, advertised, protocols []string
	for name, protocol := range kafkaListeners {
		advertised = append(advertised, name+"://"+n.address(name))
		protocols = append(protocols, name+":"+protocol)
	}
	listeners = advertised
	if n.id == 1 {
		roles = "broker,controller"
		listeners = append(listeners[:len(listeners):len(listeners)], fmt.Sprintf("CONTROLLER://127.0.0.1:%d", controller))
	}
	scram := "org.apache.kafka.common.security.scram.ScramLoginModule required;"
	plain := fmt.Sprintf("org.apache.kafka.common.security.plain.PlainLoginModule required user_%s=\"%s\";", kafkaUser, kafkaPassword)
	return strings.Join([]string{
		"process.roles=" + roles,
		fmt.Sprintf("node.id=%d", n.id),
		fmt.Sprintf("controller.quorum.voters=1@127.0.0.1:%d", controller),
		"controller.listener.names=CONTROLLER",
		"listeners=" + strings.Join(listeners, ","),
		"advertised.listeners=" + strings.Join(advertised, ","),
		"listener.security.protocol.map=CONTROLLER:PLAINTEXT," + strings.Join(protocols, ","),
		"inter.broker.listener.name=PLAIN",
		"log.dirs=" + filepath.Join(n.folder, "data"),
		"auto.create.topics.enable=false",
		"broker.session.timeout.ms=3000",
		"broker.heartbeat.interval.ms=500",
		"log.cleaner.dedupe.buffer.size=4194304",
		"log.cleaner.threads=1",
		"log.segment.delete.delay.ms=1000",
		"sasl.enabled.mechanisms=PLAIN,SCRAM-SHA-256,SCRAM-SHA-512",
		"listener.name.sasl.plain.sasl.jaas.config=" + plain,
		"listener.name.sasl.scram-sha-256.sasl.jaas.config=" + scram,
		"listener.name.sasl.scram-sha-512.sasl.jaas.config=" + scram,
		"listener.name.both.plain.sasl.jaas.config=" + plain,
		"listener.name.both.scram-sha-256.sasl.jaas.config=" + scram,
		"listener.name.both.scram-sha-512.sasl.jaas.config=" + scram,
		"ssl.keystore.type=PEM",
		"ssl.keystore.location=" + certificate,
		"ssl.truststore.type=PEM",
		"ssl.truststore.location=" + authority,
		"listener.name.mutual.ssl.client.auth=required",
		"",
	}, "\n")
}

// java returns a command that runs a program of the broker's archives.
func (n *kafkaNode) java(class string, args ...string) *exec.Cmd {
	return exec.Command("java", append([]string{
		"-Xms64m", "-Xmx384m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1",
		"-Dorg.slf4j.simpleLogger.defaultLogLevel=error", "-cp", filepath.Join(n.jars, "*"), class,
	}, args...)...)
}

// format initialises the broker's data with the SCRAM users.
func (n *kafkaNode) format() *exec.Cmd {
	args := []string{"format", "--cluster-id", "bmRyYnJpZGdlLWUyZS0wMQ", "--config", n.config()}
	for _, mechanism := range []string{"SCRAM-SHA-256", "SCRAM-SHA-512"} {
		args = append(args, "--add-scram", fmt.Sprintf("%s=[name=%s,password=%s]", mechanism, kafkaUser, kafkaPassword))
	}
	return n.java("kafka.tools.StorageTool", args...)
}

// start starts the broker, which needs some seconds until it serves.
func (n *kafkaNode) start() {
	n.owner.Helper()
	n.running = start(n.owner, n.java("kafka.Kafka", n.config()))
}

// addresses returns the addresses of a listener at every broker.
func (c *kafkaCluster) addresses(listener string) []string {
	var addresses []string
	for _, n := range c.nodes {
		addresses = append(addresses, n.address(listener))
	}
	return addresses
}
