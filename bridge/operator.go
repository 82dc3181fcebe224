package bridge

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"ndrbridge/admin"
	"ndrbridge/appliance"
	"ndrbridge/checkpoint"
	"ndrbridge/configs"
	"ndrbridge/poller"
)

// operator does what an operator asks for: on the state of a bridge that runs,
// or of one that does not.
type operator struct {
	config *configs.Config
	store  *checkpoint.Store
	log    *slog.Logger
	// client returns the client of an appliance.
	client func(configs.Appliance) (*appliance.Client, error)
}

// Rewind moves the position of a stream back to a time, as poller.Rewind does.
// admin.ErrUnknown where the appliance has no such stream.
func (p *operator) Rewind(ctx context.Context, source checkpoint.Source, to time.Time) error {
	a, err := p.appliance(source.Appliance)
	if err != nil {
		return err
	}
	var names []string
	for _, name := range streamsOf(a) {
		if name == source.Stream {
			return poller.Rewind(ctx, p.store, source, to)
		}
		names = append(names, name)
	}
	return fmt.Errorf("%w stream %q: appliance %s has %s", admin.ErrUnknown, source.Stream, a.Name, strings.Join(names, ", "))
}

// Verify compares what an appliance shows since a time with what was
// journalled, stream by stream.
func (p *operator) Verify(ctx context.Context, name string, since time.Time, report poller.VerifyReport) ([]poller.Verification, error) {
	a, err := p.appliance(name)
	if err != nil {
		return nil, err
	}
	client, err := p.client(a)
	if err != nil {
		return nil, err
	}
	s := streams{
		appliance: a, prefix: p.config.Events.TypePrefix, client: client.Background(), store: p.store,
		metrics: poller.NewMetrics(prometheus.NewRegistry()), log: p.log,
	}
	var all []poller.Verification
	if a.Detections.Enabled {
		o, err := s.detections()
		if err != nil {
			return all, err
		}
		v, err := poller.VerifyDetections(ctx, s.client, s.store, o, since, report)
		if err != nil {
			return all, err
		}
		all = append(all, v)
	}
	if a.Audit.Enabled {
		v, err := poller.VerifyAudit(ctx, s.client, s.store, s.audit(), since, report)
		if err != nil {
			return all, err
		}
		all = append(all, v)
	}
	for _, q := range a.Records {
		o, err := s.records(q)
		if err != nil {
			return all, err
		}
		v, err := poller.VerifyRecords(ctx, s.client, s.store, p.store, o, since, report)
		if err != nil {
			return all, err
		}
		all = append(all, v)
	}
	return all, nil
}

func (p *operator) appliance(name string) (configs.Appliance, error) {
	var names []string
	for _, a := range p.config.Appliances {
		if a.Name == name {
			return a, nil
		}
		names = append(names, a.Name)
	}
	return configs.Appliance{}, fmt.Errorf("%w appliance %q: the configuration has %s", admin.ErrUnknown, name, strings.Join(names, ", "))
}

// streamsOf names the streams that an appliance is polled for.
func streamsOf(a configs.Appliance) []string {
	var names []string
	if a.Detections.Enabled {
		names = append(names, "detections")
	}
	if a.Audit.Enabled {
		names = append(names, "audit")
	}
	for _, q := range a.Records {
		names = append(names, "records/"+q.Name)
	}
	return names
}

// Offline is the state of a bridge that does not run, for an operator.
type Offline struct {
	operator
	clients []*appliance.Client
}

// OpenOffline opens the state of a configuration, which must be there. The error
// wraps checkpoint.ErrLocked while a bridge runs on it.
func OpenOffline(config *configs.Config, o Options) (*Offline, error) {
	if _, err := os.Stat(config.State); errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("there is no state at %s: the bridge has not run with this configuration yet", config.State)
	}
	store, err := checkpoint.Open(config.State, checkpoint.Options{Limits: limits(config)})
	if err != nil {
		return nil, err
	}
	f := &Offline{operator: operator{config: config, store: store, log: o.Log}}
	f.client = func(a configs.Appliance) (*appliance.Client, error) {
		client, err := newClient(a, o.Version, nil)
		if err == nil {
			f.clients = append(f.clients, client)
		}
		return client, err
	}
	return f, nil
}

// Close closes the state.
func (f *Offline) Close() error {
	for _, c := range f.clients {
		c.Close()
	}
	return f.store.Close()
}

func limits(config *configs.Config) checkpoint.Limits {
	return checkpoint.Limits{MaxBytes: int64(config.Journal.MaxBytes), Retain: time.Duration(config.Journal.Retain)}
}
