package kafka

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"ndrbridge/internal/failure"
	"ndrbridge/internal/finding"
	"ndrbridge/internal/kafkawire"
	"ndrbridge/transform"
)

// Trial specifies what Check checks.
type Trial struct {
	// Sure are events that the sink will send, Possible events that it may send. A
	// topic that only Possible needs may be missing.
	Sure, Possible []transform.Event
	// Reads is set if the topics are read instead of written to.
	Reads bool
	// Now returns the time at which certificates must be valid.
	Now func() time.Time
}

// maxTried bounds the number of advertised brokers that are checked.
const maxTried = 100

// Check checks the brokers and the topics of the events, as Send would use them. It
// writes nothing and creates no topic. It must not be called concurrently with Send.
func (s *Sink) Check(ctx context.Context, t Trial) []finding.Finding {
	found, alive := s.tryBrokers(ctx, t.Now, s.cluster.seeds)
	if len(alive) == 0 {
		return found
	}
	// One broker that answers is enough to start.
	for i, f := range found {
		if f.Result == finding.Failed {
			found[i].Result = finding.Warning
		}
	}
	sure := map[string]bool{} // by topic; false: only possible
	for _, e := range t.Possible {
		sure[s.topic.Expand(e)] = false
	}
	for _, e := range t.Sure {
		sure[s.topic.Expand(e)] = true
	}
	names := slices.Sorted(maps.Keys(sure))
	defer s.cluster.close()
	request := metadataRequest(names)
	request.IncludeTopicAuthorizedOperations = true
	answer, err := s.cluster.link(alive[0]).Exchange(ctx, request)
	if err != nil {
		f := finding.Failure("topics", err)
		if f.Advice == "" {
			f.Advice = "read the broker's log, and check again"
		}
		return append(found, f)
	}
	cluster := answer.(*kmsg.MetadataResponse)
	s.cluster.applyMetadata(cluster, names)
	others := slices.DeleteFunc(slices.Sorted(maps.Values(s.cluster.brokers)), func(address string) bool {
		return slices.Contains(s.cluster.seeds, address)
	})
	more := len(others) - maxTried
	advertised, _ := s.tryBrokers(ctx, t.Now, others[:min(len(others), maxTried)])
	if more > 0 {
		advertised = append(advertised, finding.Finding{Step: "brokers", Result: finding.Remark, Detail: fmt.Sprintf("%d more brokers of the cluster were not checked", more)})
	}
	for i, f := range advertised {
		if f.Result == finding.Failed {
			advertised[i].Advice = "the cluster advertises this address: check advertised.listeners of that broker; " + f.Advice
		}
	}
	found = append(found, advertised...)
	settings := s.cluster.settings(ctx, alive[0], names, maxMessage, minInSync)
	slices.SortFunc(cluster.Topics, func(a, b kmsg.MetadataResponseTopic) int {
		return strings.Compare(brokerMessage(a.Topic), brokerMessage(b.Topic))
	})
	for _, topic := range cluster.Topics {
		name := brokerMessage(topic.Topic)
		if _, requested := sure[name]; !requested {
			continue
		}
		f := s.tryTopic(ctx, t, name, topic, settings[name])
		if f.Result == finding.Failed && !sure[name] {
			f.Result, f.Detail = finding.Warning, f.Detail+"; only events that match may filter out go there"
		}
		found = append(found, f)
	}
	return found
}

// tryBrokers connects to all addresses concurrently. alive are the addresses that are
// ready for requests.
func (s *Sink) tryBrokers(ctx context.Context, now func() time.Time, addresses []string) (found []finding.Finding, alive []string) {
	results := make([][]finding.Finding, len(addresses))
	errs := make([]error, len(addresses))
	var trials sync.WaitGroup
	for i, address := range addresses {
		trials.Go(func() { results[i], errs[i] = s.tryBroker(ctx, now, address) })
	}
	trials.Wait()
	for i, address := range addresses {
		found = append(found, finding.At("broker "+s.cluster.dialer.Shown(address), results[i])...)
		if errs[i] == nil {
			alive = append(alive, address)
		}
	}
	return found, alive
}

// tryBroker connects and signs in to the broker at address. It returns an error if the
// broker is not ready for requests.
func (s *Sink) tryBroker(ctx context.Context, now func() time.Time, address string) ([]finding.Finding, error) {
	d := *s.cluster.dialer
	path := &finding.Path{Address: s.cluster.dialer.Shown(address), Key: "brokers", Now: now, Hide: d.Login.Hide}
	d.TLS = path.Secure(d.TLS)
	parent := ctx
	ctx, cancel := finding.Half(parent)
	defer cancel()
	conn, err := d.Dial(path.Watch(ctx), address)
	found, explained := path.Findings(err)
	if err != nil {
		// Before ctx is done, because probing the port takes time.
		broken := kafkawire.ErrorOfConnection(ctx, err, "the connection broke")
		if _, refused := errors.AsType[*failure.Error](err); refused {
			found = append(found, finding.Failure("sign-in", err))
		} else if explained {
			return found, err
		} else if wrong, ok := s.wrongPort(parent, address); ok {
			found = append(found, wrong)
		} else if late, ok := errors.AsType[net.Error](err); ok && late.Timeout() {
			found = append(found, finding.Finding{
				Step: "sign-in", Result: finding.Failed, Detail: "connected, but the broker does not answer",
				Advice: "is it a Kafka broker, and the port for what tls and sasl say?",
			})
		} else {
			f := finding.Failure("sign-in", broken)
			if f.Advice == "" {
				f.Advice = "is it a Kafka broker, and the port for what tls and sasl say? The broker's log may say why it closed the connection"
			}
			found = append(found, f)
		}
		return found, err
	}
	conn.Close()
	signIn := finding.Finding{Step: "sign-in", Result: finding.OK, Detail: "the broker requires no sign-in, or accepts the client certificate"}
	if d.Login != nil {
		signIn.Detail = fmt.Sprintf("%s is accepted by %s", d.Login.Username, d.Login.Name())
		if d.TLS == nil && d.Login.Name() == "PLAIN" {
			signIn.Result, signIn.Detail = finding.Warning, signIn.Detail+", but the password is sent in plain text"
			signIn.Advice = "set tls, or a SCRAM mechanism"
		}
	}
	return append(found, signIn), nil
}

// wrongPort checks whether the server at address speaks another protocol than the
// options say. It does not sign in.
func (s *Sink) wrongPort(ctx context.Context, address string) (f finding.Finding, found bool) {
	f = finding.Finding{Step: "tls", Result: finding.Failed}
	if s.cluster.dialer.TLS != nil {
		ctx, cancel := finding.Half(ctx)
		defer cancel()
		ctx, cancel = context.WithTimeout(ctx, time.Second)
		defer cancel()
		plain := kafkawire.Dialer{Brokers: s.cluster.dialer.Brokers, ClientID: s.cluster.dialer.ClientID}
		conn, err := plain.Dial(ctx, address)
		if err != nil {
			return f, false
		}
		conn.Close()
		f.Detail = "tls is set, but a Kafka broker without TLS listens there"
		f.Advice = "use the broker's port for TLS in brokers, or remove tls"
		return f, true
	}
	switch expectsTLS, answersHTTP := finding.Recognize(ctx, address); {
	case expectsTLS:
		f.Detail = "the server expects TLS, and tls is not set"
		f.Advice = "set tls, or use the port without TLS in brokers"
	case answersHTTP:
		f.Step, f.Detail = "sign-in", "the server speaks HTTP and is not a Kafka broker"
		f.Advice = "use the port for Kafka clients in brokers"
	default:
		return f, false
	}
	return f, true
}

// The bits of a topic's authorized operations (KIP-430).
const (
	mayRead  = 1 << 3
	mayWrite = 1 << 4
)

// tryTopic checks a topic by its metadata and settings.
func (s *Sink) tryTopic(ctx context.Context, t Trial, name string, topic kmsg.MetadataResponseTopic, settings map[string]int) finding.Finding {
	step := "topic " + name
	layout := layoutOf(name, topic)
	switch {
	case layout.missing && s.create != nil && !t.Reads:
		return s.tryCreation(ctx, step, name)
	case layout.err != nil:
		return finding.Failure(step, layout.err)
	}
	f := finding.Finding{Step: step, Result: finding.OK, Detail: "1 partition"}
	if n := len(layout.leaders); n > 1 {
		f.Detail = fmt.Sprintf("%d partitions", n)
	}
	least := settings[minInSync]
	var headless, short, behind []int32
	for _, p := range topic.Partitions {
		switch {
		case p.Leader < 0:
			headless = append(headless, p.Partition)
		case s.acks != 1 && len(p.ISR) < least:
			short = append(short, p.Partition)
		case len(p.ISR) < len(p.Replicas):
			behind = append(behind, p.Partition)
		}
	}
	operation, word := mayWrite, "Write"
	if t.Reads {
		operation, word = mayRead, "Read"
	}
	known := topic.AuthorizedOperations > 0 // unknown: the smallest number, or 0 from an old broker
	worse := func(result finding.Result, detail, advice string) finding.Finding {
		return finding.Finding{Step: step, Result: result, Detail: f.Detail + ", and " + detail, Advice: advice}
	}
	limit := settings[maxMessage]
	switch {
	case known && int(topic.AuthorizedOperations)&operation == 0:
		return worse(finding.Failed, "the user lacks the operation "+word+" on it", "grant the user the operations "+word+" and Describe on the topic")
	case len(headless) > 0:
		return worse(finding.Failed, fmt.Sprintf("%v have no leader", headless), "check that all brokers run")
	case len(short) > 0 && !t.Reads:
		return worse(finding.Failed, fmt.Sprintf("%v have fewer replicas in sync than min.insync.replicas, which is %d", short, least), "check that all brokers run")
	case limit > 0 && limit < s.maxBytes && !t.Reads:
		return worse(finding.Warning, fmt.Sprintf("its limit is %d bytes, so that larger compressed messages are rejected although max_message_bytes is %d", limit, s.maxBytes),
			"raise max.message.bytes of the topic, or lower max_message_bytes")
	case len(behind) > 0:
		return worse(finding.Warning, fmt.Sprintf("replicas of %v are not in sync", behind), "check that all brokers run")
	case !known:
		f.Result, f.Detail = finding.Remark, f.Detail+", and the broker does not report whether the user has the operation "+word
	}
	return f
}

// tryCreation checks whether the topic could be created, without creating it.
func (s *Sink) tryCreation(ctx context.Context, step, topic string) finding.Finding {
	refused, err := s.cluster.create(ctx, *s.create, []string{topic}, true)
	if err != nil {
		return finding.Failure(step, err)
	}
	if err := refused[topic]; err != nil {
		return finding.Failure(step, err)
	}
	return finding.Finding{Step: step, Result: finding.Remark, Detail: "it does not exist; the first event creates it"}
}

// minInSync is the topic setting for the number of replicas that must store a record
// before acks: all acknowledges it.
const minInSync = "min.insync.replicas"
