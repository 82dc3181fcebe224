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

	"ndrbridge/internal/kafkawire"
	"ndrbridge/preflight"
	"ndrbridge/sinks"
	"ndrbridge/transform"
)

// Trial says what Check is to look at.
type Trial struct {
	// Sure and Possible are events that the sink will send, and that it may. A topic
	// that only the latter need may be absent.
	Sure, Possible []transform.Event
	// Reads says that the topics are read, not written to.
	Reads bool
	// Now is the time that certificates are held against.
	Now func() time.Time
}

// Check tries the brokers and the topics of the events, as Send would use them. It
// writes nothing, and makes no topic. It must not run beside Send.
func (s *Sink) Check(ctx context.Context, t Trial) []preflight.Finding {
	found := s.try(ctx, t)
	if login := s.cluster.dialer.Login; login != nil {
		preflight.Hide(found, login.Hide)
	}
	return found
}

// maxTried is how many brokers are connected to that the cluster names itself.
const maxTried = 100

func (s *Sink) try(ctx context.Context, t Trial) []preflight.Finding {
	found, alive := s.tryBrokers(ctx, t.Now, s.cluster.seeds)
	if len(alive) == 0 {
		return found
	}
	// One that answers is enough for the start.
	for i, f := range found {
		if f.Result == preflight.Failed {
			found[i].Result = preflight.Warning
		}
	}
	sure := map[string]bool{} // false: only possible
	for _, e := range t.Possible {
		sure[s.topic.Expand(e)] = false
	}
	for _, e := range t.Sure {
		sure[s.topic.Expand(e)] = true
	}
	names := slices.Sorted(maps.Keys(sure))
	defer s.cluster.close()
	request := askFor(names)
	request.IncludeTopicAuthorizedOperations = true
	answer, err := s.cluster.link(alive[0]).Exchange(ctx, request)
	if err != nil {
		f := preflight.Failure("topics", err)
		if f.Advice == "" {
			f.Advice = "see the broker's log, and check again"
		}
		return append(found, f)
	}
	cluster := answer.(*kmsg.MetadataResponse)
	s.cluster.learn(cluster, names)
	others := slices.DeleteFunc(slices.Sorted(maps.Values(s.cluster.brokers)), func(address string) bool {
		return slices.Contains(s.cluster.seeds, address)
	})
	more := len(others) - maxTried
	advertised, _ := s.tryBrokers(ctx, t.Now, others[:min(len(others), maxTried)])
	if more > 0 {
		advertised = append(advertised, preflight.Finding{Step: "brokers", Result: preflight.Remark, Detail: fmt.Sprintf("%d more of the cluster are not tried", more)})
	}
	for i, f := range advertised {
		if f.Result == preflight.Failed {
			advertised[i].Advice = "the cluster names this address itself: see advertised.listeners of that broker; " + f.Advice
		}
	}
	found = append(found, advertised...)
	settings := s.topicSettings(ctx, alive[0], names)
	slices.SortFunc(cluster.Topics, func(a, b kmsg.MetadataResponseTopic) int {
		return strings.Compare(brokerMessage(a.Topic), brokerMessage(b.Topic))
	})
	for _, topic := range cluster.Topics {
		name := brokerMessage(topic.Topic)
		if _, asked := sure[name]; !asked {
			continue
		}
		f := s.tryTopic(ctx, t, name, topic, settings[name])
		if f.Result == preflight.Failed && !sure[name] {
			f.Result, f.Detail = preflight.Warning, f.Detail+"; only events that match may not let through go there"
		}
		found = append(found, f)
	}
	return found
}

// tryBrokers connects to all of them at once. alive are those that are ready for
// requests.
func (s *Sink) tryBrokers(ctx context.Context, now func() time.Time, addresses []string) (found []preflight.Finding, alive []string) {
	results := make([][]preflight.Finding, len(addresses))
	errs := make([]error, len(addresses))
	var trials sync.WaitGroup
	for i, address := range addresses {
		trials.Go(func() { results[i], errs[i] = s.tryBroker(ctx, now, address) })
	}
	trials.Wait()
	for i, address := range addresses {
		found = append(found, preflight.At("broker "+address, results[i])...)
		if errs[i] == nil {
			alive = append(alive, address)
		}
	}
	return found, alive
}

func (s *Sink) tryBroker(ctx context.Context, now func() time.Time, address string) ([]preflight.Finding, error) {
	d := *s.cluster.dialer
	way := &preflight.Path{Address: address, Key: "brokers", Now: now}
	d.TLS = way.Secure(d.TLS)
	whole := ctx
	ctx, cancel := preflight.Half(whole)
	defer cancel()
	conn, err := d.Dial(way.Watch(ctx), address)
	found, explained := way.Findings(err)
	if err != nil {
		// As long as ctx has not ended: the looks at the port take their time.
		broken := kafkawire.ErrorOfConnection(ctx, err, "the connection broke")
		if _, refused := errors.AsType[*sinks.Error](err); refused {
			found = append(found, preflight.Failure("sign-in", err))
		} else if explained {
			return found, err
		} else if wrong, ok := s.wrongPort(whole, address); ok {
			found = append(found, wrong)
		} else if late, ok := errors.AsType[net.Error](err); ok && late.Timeout() {
			found = append(found, preflight.Finding{
				Step: "sign-in", Result: preflight.Failed, Detail: "the connection stands, and the broker does not answer",
				Advice: "is it a Kafka broker, and the port for what tls and sasl say?",
			})
		} else {
			f := preflight.Failure("sign-in", broken)
			if f.Advice == "" {
				f.Advice = "is it a Kafka broker, and the port for what tls and sasl say? The broker's log may say why it hung up"
			}
			found = append(found, f)
		}
		return found, err
	}
	conn.Close() // it has served
	signIn := preflight.Finding{Step: "sign-in", Result: preflight.OK, Detail: "the broker asks nobody who they are, or knows the certificate"}
	if d.Login != nil {
		signIn.Detail = fmt.Sprintf("%s is accepted by %s", d.Login.Username, d.Login.Name())
		if d.TLS == nil && d.Login.Name() == "PLAIN" {
			signIn.Result, signIn.Detail = preflight.Warning, signIn.Detail+", and the password is sent in the clear"
			signIn.Advice = "set tls, or a SCRAM mechanism"
		}
	}
	return append(found, signIn), nil
}

// wrongPort looks whether another protocol is spoken at an address than the options say.
// It signs in to nobody.
func (s *Sink) wrongPort(ctx context.Context, address string) (f preflight.Finding, found bool) {
	f = preflight.Finding{Step: "tls", Result: preflight.Failed}
	if s.cluster.dialer.TLS != nil {
		ctx, cancel := preflight.Half(ctx)
		defer cancel()
		ctx, cancel = context.WithTimeout(ctx, time.Second)
		defer cancel()
		plain := kafkawire.Dialer{Brokers: s.cluster.dialer.Brokers, ClientID: s.cluster.dialer.ClientID}
		conn, err := plain.Dial(ctx, address)
		if err != nil {
			return f, false
		}
		conn.Close()
		f.Detail = "what listens there is a Kafka broker without TLS, and is spoken to in TLS"
		f.Advice = "use the broker's port for TLS in brokers, or take tls out"
		return f, true
	}
	switch expectsTLS, answersHTTP := preflight.Recognize(ctx, address); {
	case expectsTLS:
		f.Detail = "what listens there expects TLS, and is spoken to in plain text"
		f.Advice = "set tls, or use the port for plain connections in brokers"
	case answersHTTP:
		f.Step, f.Detail = "sign-in", "what listens there speaks HTTP, and is no Kafka broker"
		f.Advice = "use the port for Kafka clients in brokers"
	default:
		return f, false
	}
	return f, true
}

// The operations on a topic, as bits of what the broker tells (KIP-430).
const (
	mayRead  = 1 << 3
	mayWrite = 1 << 4
)

func (s *Sink) tryTopic(ctx context.Context, t Trial, name string, topic kmsg.MetadataResponseTopic, settings map[string]int) preflight.Finding {
	step := "topic " + name
	layout := layoutOf(name, topic)
	switch {
	case layout.unknown && s.create != nil && !t.Reads:
		return s.tryCreation(ctx, step, name)
	case layout.err != nil:
		return preflight.Failure(step, layout.err)
	}
	f := preflight.Finding{Step: step, Result: preflight.OK, Detail: "1 partition"}
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
	told := topic.AuthorizedOperations > 0 // a broker that does not know says the least number, an old one nothing
	worse := func(result preflight.Result, detail, advice string) preflight.Finding {
		return preflight.Finding{Step: step, Result: result, Detail: f.Detail + ", and " + detail, Advice: advice}
	}
	limit := settings[maxMessage]
	switch {
	case told && int(topic.AuthorizedOperations)&operation == 0:
		return worse(preflight.Failed, "the user may not do "+word+" on it", "give the user the operations "+word+" and Describe on the topic")
	case len(headless) > 0:
		return worse(preflight.Failed, fmt.Sprintf("%v have no leader", headless), "see whether all brokers run")
	case len(short) > 0 && !t.Reads:
		return worse(preflight.Failed, fmt.Sprintf("%v have fewer replicas in sync than min.insync.replicas, which is %d", short, least), "see whether all brokers run")
	case limit > 0 && limit < s.maxBytes && !t.Reads:
		return worse(preflight.Warning, fmt.Sprintf("it takes messages of up to %d bytes: what is larger, compressed, is rejected, although max_message_bytes is %d", limit, s.maxBytes),
			"raise max.message.bytes of the topic, or lower max_message_bytes")
	case len(behind) > 0:
		return worse(preflight.Warning, fmt.Sprintf("replicas of %v are not in sync", behind), "see whether all brokers run")
	case !told:
		f.Result, f.Detail = preflight.Remark, f.Detail+", and the broker does not tell whether the user may "+word
	}
	return f
}

// tryCreation asks whether the topic could be made, without making it.
func (s *Sink) tryCreation(ctx context.Context, step, topic string) preflight.Finding {
	refused, err := s.cluster.create(ctx, *s.create, []string{topic}, true)
	if err != nil {
		return preflight.Failure(step, err)
	}
	if err := refused[topic]; err != nil {
		return preflight.Failure(step, err)
	}
	return preflight.Finding{Step: step, Result: preflight.Remark, Detail: "it does not exist, and will be made at the first event"}
}

// minInSync is the setting of a topic that says how many replicas must have a record
// before acks: all has it acknowledged.
const minInSync = "min.insync.replicas"

// topicSettings asks for settings that are numbers, by topic. A user who may not know
// them gets none.
func (s *Sink) topicSettings(ctx context.Context, broker string, topics []string) map[string]map[string]int {
	all := map[string]map[string]int{}
	answer, err := s.cluster.describe(ctx, broker, topics, maxMessage, minInSync)
	if err != nil {
		return all
	}
	for _, topic := range answer.Resources {
		all[topic.ResourceName] = map[string]int{}
		for _, entry := range topic.Configs {
			if n, ok := number(entry); ok {
				all[topic.ResourceName][entry.Name] = n
			}
		}
	}
	return all
}
