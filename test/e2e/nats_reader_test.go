//go:build e2e

package e2e

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"
)

// natsReader reads what a server has.
type natsReader struct {
	conn       *nats.Conn
	subscribed *nats.Subscription
}

// natsPatience is the time limit of every wait of a reader.
const natsPatience = 10 * time.Second

// dialNATS connects a reader with credentials, if there are any.
func dialNATS(address string, login ...nats.Option) (*natsReader, error) {
	conn, err := nats.Connect("nats://"+address, append(login, nats.Timeout(natsPatience), nats.NoReconnect())...)
	return &natsReader{conn: conn}, err
}

// subscribe subscribes and returns when the server has processed it.
func (r *natsReader) subscribe(subject string) (err error) {
	if r.subscribed, err = r.conn.SubscribeSync(subject); err != nil {
		return err
	}
	return r.conn.FlushTimeout(natsPatience)
}

// next waits for a message.
func (r *natsReader) next() (*nats.Msg, error) { return r.subscribed.NextMsg(natsPatience) }

// api sends a request to JetStream's API. An error response is returned as an error.
func (r *natsReader) api(subject string, request, answer any) error {
	payload, err := json.Marshal(request)
	if err != nil {
		return err
	}
	m, err := r.conn.Request("$JS.API."+subject, payload, natsPatience)
	if err != nil {
		return fmt.Errorf("%s: %w", subject, err)
	}
	var refusal struct{ Error *nats.APIError }
	if err := json.Unmarshal(m.Data, &refusal); err != nil {
		return fmt.Errorf("%s: %w: %q", subject, err, m.Data)
	}
	if refusal.Error != nil {
		return fmt.Errorf("%s: %w", subject, refusal.Error)
	}
	return json.Unmarshal(m.Data, answer)
}

// natsStream is the information about a stream.
type natsStream struct {
	Config  map[string]any
	State   struct{ Messages, LastSeq uint64 }
	Cluster struct {
		Leader   string
		Replicas []struct {
			Name    string
			Current bool
		}
	}
}

func (r *natsReader) stream(name string) (s natsStream, err error) {
	return s, r.api("STREAM.INFO."+name, struct{}{}, &s)
}

// makeStream creates a stream of ndr.> with further settings.
func (r *natsReader) makeStream(name string, settings map[string]any) error {
	config := map[string]any{"name": name, "subjects": []string{"ndr.>"}, "storage": "file", "retention": "limits", "num_replicas": 1}
	for key, value := range settings {
		config[key] = value
	}
	return r.api("STREAM.CREATE."+name, config, &struct{}{})
}

// read returns all messages in a stream, in order.
func (r *natsReader) read(stream string) (messages []*nats.Msg, err error) {
	s, err := r.stream(stream)
	if err != nil {
		return nil, err
	}
	js, err := r.conn.JetStream(nats.MaxWait(natsPatience))
	if err != nil {
		return nil, err
	}
	all, err := js.SubscribeSync(">", nats.BindStream(stream), nats.OrderedConsumer())
	if err != nil {
		return nil, err
	}
	defer all.Unsubscribe()
	for range s.State.Messages {
		m, err := all.NextMsg(natsPatience)
		if err != nil {
			return nil, err
		}
		messages = append(messages, m)
	}
	return messages, nil
}
