package preflight

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"time"

	natsgo "github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"ndrbridge/checkpoint/replicated"
	"ndrbridge/configs"
	"ndrbridge/internal/cluster"
	"ndrbridge/internal/finding"
	"ndrbridge/internal/pipeline/endpoint"
	"ndrbridge/sinks/file"
	"ndrbridge/sinks/nats"
)

// clusterTarget is the target of findings about the NATS servers of a cluster.
const clusterTarget = "cluster"

// checkCluster tries the NATS servers of a cluster. It creates nothing.
func checkCluster(ctx context.Context, c *configs.Cluster, o Options) []finding.Finding {
	if c.NATS.Embedded != nil {
		if err := endpoint.CheckCluster(c); err != nil {
			return unusable(err)
		}
		return []finding.Finding{{
			Step: "connect", Result: finding.Untried, Detail: "the NATS servers are parts of running members",
			Advice: "start the members, and see ndrbridge cluster status",
		}}
	}
	options, err := endpoint.NATS(c.NATS.Connection())
	if err != nil {
		return unusable(err)
	}
	options.Sink, options.Subject = clusterTarget, clusterTarget // a sink needs both; nothing is published
	sink, err := nats.New(options)
	if err != nil {
		return unusable(err)
	}
	defer sink.Close()
	return sink.CheckServers(ctx, o.Now, func(nc *natsgo.Conn) []finding.Finding {
		t := clusterTrial{cluster: c, nc: nc, hide: options.Secrets().Hide}
		t.server()
		t.rights(ctx)
		if t.jetStream(ctx) {
			t.streams(ctx)
		}
		t.add("sync_interval", finding.Untried, "whether the servers write each message to disk before they acknowledge it cannot be seen from outside",
			"set sync_interval: always in the jetstream block of every server; without it, a power failure of all servers can lose ticket commands and operators' actions")
		return t.found
	})
}

// checkMember returns a warning if no other member of the cluster can reach this one, and one if
// this one could not write archives. Neither prevents a start.
func checkMember(config *configs.Config) (found []finding.Finding) {
	if !config.Cluster.Enabled() {
		return nil
	}
	if config.Advertise() == "" {
		found = append(found, finding.Finding{
			Step: "admin.advertise", Result: finding.Warning,
			Detail: "admin.listen is " + config.Admin.Listen + ": the other members cannot pass requests on to this one while it is the owner",
			Advice: "listen on an address that they can reach, such as 0.0.0.0:9600, or set admin.advertise",
		})
	}
	if a := config.Cluster.Archive; a != nil {
		const key = "cluster.archive.folder"
		f := file.CheckPath(key, filepath.Join(a.Folder, "ndrbridge-"+config.Cluster.Name+".db"), key)[0]
		if f.Result == finding.Failed {
			f.Result = finding.Warning
		}
		found = append(found, f)
	}
	return found
}

// clusterTrial is a trial of one NATS server of a cluster.
type clusterTrial struct {
	cluster *configs.Cluster
	nc      *natsgo.Conn
	hide    func(string) string // removes secrets from texts of the servers
	found   []finding.Finding
}

func (t *clusterTrial) add(step string, result finding.Result, detail, advice string) {
	t.found = append(t.found, finding.Finding{Step: step, Result: result, Detail: detail, Advice: advice})
}

// server checks the server's report about itself.
func (t *clusterTrial) server() {
	faults := replicated.CheckServer(t.nc)
	if !slices.ContainsFunc(faults, func(f *replicated.Fault) bool { return f.Subject == replicated.ServerVersion }) {
		t.add(replicated.ServerVersion, finding.OK, "nats-server "+t.hide(t.nc.ConnectedServerVersion()), "")
	}
	for _, f := range faults {
		t.fault(f.Subject, f)
	}
	if t.cluster.Replicas > 1 && t.nc.ConnectedClusterName() == "" {
		t.add("servers", finding.Failed, fmt.Sprintf("the server is not part of a cluster of servers, and cluster.replicas is %d", t.cluster.Replicas),
			"run three servers as a cluster, or set cluster.replicas: 1 for a test")
	} else if n := len(strings.Split(t.cluster.NATS.URL.Value(), ",")); n < t.cluster.Replicas {
		t.add("servers", finding.Remark, fmt.Sprintf("cluster.nats.url has %d of at least %d servers: while these cannot be reached, no member can start", n, t.cluster.Replicas), "")
	}
}

// fault adds the finding of a fault.
func (t *clusterTrial) fault(step string, f *replicated.Fault) {
	result := finding.Failed
	if f.Warning {
		result = finding.Warning
	}
	t.add(step, result, t.hide(f.Detail), f.Advice)
}

// rights checks whether the user may publish what a member publishes.
func (t *clusterTrial) rights(ctx context.Context) {
	const step = "permissions"
	text, _, _ := strings.Cut(strings.ReplaceAll(replicated.Rights, "NAME", t.cluster.Name), "subscribe:")
	forbidden, known := nats.Forbidden(ctx, t.nc, strings.Fields(text)[1:])
	switch {
	case !known:
		t.add(step, finding.Untried, "the server does not report what the user may publish", "")
	case len(forbidden) > 0:
		t.add(step, finding.Failed, "the user may not publish to "+strings.Join(forbidden, ", "), "give the user the permissions that docs/cluster.md lists")
	default:
		t.add(step, finding.OK, "the user may publish what a member sends", "")
	}
}

// jetStream checks whether the account has JetStream.
func (t *clusterTrial) jetStream(ctx context.Context) bool {
	const step = "jetstream"
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	js, err := jetstream.New(t.nc)
	if err == nil {
		_, err = js.AccountInfo(ctx)
	}
	switch {
	case err == nil:
		t.add(step, finding.OK, "it is enabled", "")
		return true
	case errors.Is(err, jetstream.ErrJetStreamNotEnabled), errors.Is(err, natsgo.ErrNoResponders):
		t.add(step, finding.Failed, "the servers have no JetStream", "add a jetstream block to the configuration of the servers")
	case errors.Is(err, jetstream.ErrJetStreamNotEnabledForAccount):
		t.add(step, finding.Failed, "the user's account has no JetStream", "enable JetStream for the account")
	default:
		t.unanswered(step, err)
	}
	return false
}

// unanswered adds the finding of a request to JetStream that failed with err.
func (t *clusterTrial) unanswered(step string, err error) {
	if errors.Is(err, context.DeadlineExceeded) {
		if last := t.nc.LastError(); last != nil { // a server does not answer a request that it does not permit
			t.add(step, finding.Failed, t.hide(last.Error()), "give the user the permissions that docs/cluster.md lists")
			return
		}
		t.add(step, finding.Failed, "the servers do not answer", "see whether most of the servers run: the rest cannot serve JetStream alone")
		return
	}
	t.add(step, finding.Failed, t.hide(err.Error()), "see the log of the servers")
}

// streams checks which streams of the cluster exist, and their settings.
func (t *clusterTrial) streams(ctx context.Context) {
	const step = "streams"
	ctx, cancel := context.WithTimeout(ctx, 15*time.Second)
	defer cancel()
	// Secrets are removed from the errors when they are added.
	storage, err := replicated.Unopened(t.nc, replicated.JetStreamOptions{Name: t.cluster.Name, Replicas: t.cluster.Replicas})
	var generation uint64 // 0: there is no stream with the settings
	if err == nil {
		generation, err = cluster.Generation(ctx, storage, t.cluster.Name)
	}
	switch {
	case err == nil, errors.Is(err, jetstream.ErrStreamNotFound):
	case errors.Is(err, context.DeadlineExceeded):
		t.unanswered(step, err)
		return
	default:
		t.add(step, finding.Failed, t.hide(err.Error()), "see docs/cluster.md")
		return
	}
	faults, missing, err := storage.CheckStreams(ctx, generation)
	switch {
	case err != nil:
		t.unanswered(step, err)
	case generation == 0 && len(missing) == 2: // the settings and the log
		t.add(step, finding.Remark, "this cluster does not exist: ndrbridge cluster init creates it", "")
	case len(missing) > 0:
		t.add(step, finding.Failed, "NATS has lost "+strings.Join(missing, ", "), "bring its data back, or continue from a copy with ndrbridge cluster recover")
	default:
		t.add(step, finding.OK, "the settings, the snapshots and the log exist", "")
	}
	for _, f := range faults {
		t.fault("settings", f)
	}
}
