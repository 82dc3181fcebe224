package kafka

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/segmentio/kafka-go/protocol/metadata"

	"ndrbridge/internal/failure"
	"ndrbridge/internal/finding"
	"ndrbridge/internal/kafkaconn"
	"ndrbridge/sinks"
)

// maxTried bounds the number of advertised brokers that are checked.
const maxTried = 100

// Check checks the brokers and the topics of the events, as Send would use them. It
// writes nothing and creates no topic.
func (s *Sink) Check(ctx context.Context, t sinks.Trial) []finding.Finding {
	sure := map[string]bool{} // by topic; false: only possible
	for _, e := range t.Possible {
		sure[s.topic.Expand(e)] = false
	}
	for _, e := range t.Sure {
		sure[s.topic.Expand(e)] = true
	}
	names := slices.Sorted(maps.Keys(sure))
	dialer := s.client.Dialer
	found, alive, answer := s.tryBrokers(ctx, t.Now, dialer.Brokers, names)
	if alive == nil {
		return found
	}
	defer alive.Close()
	// One broker that answers is enough to start.
	for i, f := range found {
		if f.Result == finding.Failed {
			found[i].Result = finding.Warning
		}
	}
	var others []string
	for _, b := range answer.Brokers {
		if address := net.JoinHostPort(b.Host, strconv.Itoa(int(b.Port))); !slices.Contains(append(others, dialer.Brokers...), address) {
			others = append(others, address)
		}
	}
	advertised, other, _ := s.tryBrokers(ctx, t.Now, others[:min(len(others), maxTried)], names)
	if other != nil {
		other.Close()
	}
	for i, f := range advertised {
		if f.Result == finding.Failed {
			advertised[i].Advice = "the cluster advertises this address: check advertised.listeners of that broker; " + f.Advice
		}
	}
	found = append(found, advertised...)
	for _, topic := range answer.Topics {
		if _, requested := sure[topic.Name]; !requested {
			continue
		}
		f := s.tryTopic(ctx, t, alive, topic)
		if f.Result == finding.Failed && !sure[topic.Name] {
			f.Result, f.Detail = finding.Warning, f.Detail+"; only events that match may filter out go there"
		}
		found = append(found, f)
	}
	return found
}

// tryBrokers connects to all addresses concurrently. alive is a client of the first one that is
// ready for requests, nil if none is, and answer the metadata of the topics from it.
func (s *Sink) tryBrokers(ctx context.Context, now func() time.Time, addresses, topics []string) (found []finding.Finding, alive *kafkaconn.Client, answer *metadata.Response) {
	results := make([][]finding.Finding, len(addresses))
	clients := make([]*kafkaconn.Client, len(addresses))
	answers := make([]*metadata.Response, len(addresses))
	var trials sync.WaitGroup
	for i, address := range addresses {
		trials.Go(func() { results[i], clients[i], answers[i] = s.tryBroker(ctx, now, address, topics) })
	}
	trials.Wait()
	for i, address := range addresses {
		found = append(found, finding.At("broker "+s.client.Dialer.Shown(address), results[i])...)
		if answers[i] != nil && alive == nil {
			alive, answer = clients[i], answers[i]
		} else {
			clients[i].Close()
		}
	}
	return found, alive, answer
}

// tryBroker signs in to the broker at address and requests the metadata of topics. answer is nil
// if the broker is not ready for requests.
func (s *Sink) tryBroker(parent context.Context, now func() time.Time, address string, topics []string) ([]finding.Finding, *kafkaconn.Client, *metadata.Response) {
	d := *s.client.Dialer
	path := &finding.Path{Peer: failure.Peer{Address: d.Shown(address), Key: "brokers", Now: now, Hide: d.Login.Hide}}
	d.TLS = path.Secure(d.TLS)
	c := kafkaconn.NewClient(&d, s.timeout, address)
	ctx, cancel := finding.Half(parent)
	defer cancel()
	answer, err := c.Connect(ctx, path.Watch(parent), topics...)
	found, explained := path.Findings(err)
	if err != nil {
		if explained {
			return found, c, nil
		}
		broken := d.Error(ctx, err, "the connection broke")
		f := finding.Failure("sign-in", broken)
		if late, ok := errors.AsType[net.Error](err); ok && late.Timeout() {
			f.Detail = "connected, but the broker does not answer"
		} else if broken.Class != failure.Halted && d.TLS == nil && finding.ExpectsTLS(parent, address) {
			f.Detail, f.Advice = "the server expects TLS, and tls is not set", "set tls, or use the port without TLS in brokers"
		}
		f.Advice = cmp.Or(f.Advice, "is it a Kafka broker, and the port for what tls and sasl say? The broker's log may say why it closed the connection")
		return append(found, f), c, nil
	}
	signIn := finding.Finding{Step: "sign-in", Result: finding.OK, Detail: "the broker requires no sign-in, or accepts the client certificate"}
	if d.Login != nil {
		signIn.Detail = fmt.Sprintf("%s is accepted by %s", d.Login.Username, d.Login.Name())
		if sent := map[string]string{"PLAIN": "password", "OAUTHBEARER": "token", "AWS_MSK_IAM": "signature"}[d.Login.Name()]; d.TLS == nil && sent != "" {
			signIn.Result, signIn.Detail = finding.Warning, signIn.Detail+", but the "+sent+" is sent in plain text"
			signIn.Advice = "set tls, or a SCRAM mechanism"
		}
	}
	return append(found, signIn), c, answer
}

// The bits of a topic's authorized operations (KIP-430).
const (
	mayRead  = 1 << 3
	mayWrite = 1 << 4
)

// tryTopic checks a topic by its metadata.
func (s *Sink) tryTopic(ctx context.Context, t sinks.Trial, c *kafkaconn.Client, metadata metadata.ResponseTopic) finding.Finding {
	step, topic := "topic "+metadata.Name, s.topicOf(metadata)
	switch {
	case topic.missing && s.create != nil && t.Reads == "":
		refused, err := s.createTopics(ctx, c, []string{metadata.Name}, true)
		if err == nil && refused[metadata.Name] != nil {
			err = refused[metadata.Name]
		}
		if err != nil {
			return finding.Failure(step, err)
		}
		return finding.Finding{Step: step, Result: finding.Remark, Detail: "it does not exist; the first event creates it"}
	case topic.err != nil:
		return finding.Failure(step, topic.err)
	}
	f := finding.Finding{Step: step, Result: finding.OK, Detail: "1 partition"}
	if n := len(topic.leaders); n > 1 {
		f.Detail = fmt.Sprintf("%d partitions", n)
	}
	var headless []int32
	for _, p := range metadata.Partitions {
		if p.LeaderID < 0 {
			headless = append(headless, p.PartitionIndex)
		}
	}
	operation, word := mayWrite, "Write"
	if t.Reads != "" {
		operation, word = mayRead, "Read"
	}
	known := metadata.TopicAuthorizedOperations > 0 // unknown: the smallest number, or 0 from an old broker
	switch {
	case known && int(metadata.TopicAuthorizedOperations)&operation == 0:
		f.Result, f.Detail = finding.Failed, f.Detail+", and the user lacks the operation "+word+" on it"
		f.Advice = "grant the user the operations " + word + " and Describe on the topic"
	case len(headless) > 0:
		f.Result, f.Detail = finding.Failed, fmt.Sprintf("%s, and %v have no leader", f.Detail, headless)
		f.Advice = "check that all brokers run"
	case !known:
		f.Result, f.Detail = finding.Remark, f.Detail+", and the broker does not report whether the user has the operation "+word
	}
	return f
}
