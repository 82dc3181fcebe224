package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	standin "ndrbridge/test/appliance"
	"ndrbridge/test/loopback"
	"ndrbridge/test/natscluster"
	"ndrbridge/test/process"
)

// clusterReport is the cost of a cluster of bridges on a cluster of NATS servers that sync
// every write.
type clusterReport struct {
	Members  int                 `json:"members"`
	Drains   []clusterDrainRow   `json:"drains"`
	Latency  latencyRow          `json:"latency"`
	Idle     clusterIdleRow      `json:"idle"`
	Takeover *clusterTakeoverRow `json:"takeover"`
}

// clusterDrainRow is a drain of one appliance by the owner, compared with that by a bridge without
// a cluster.
type clusterDrainRow struct {
	Name    string `json:"name"`
	Events  int    `json:"events"`
	Rate    spread `json:"events_per_second"`
	Alone   spread `json:"events_per_second_without_cluster"`
	CPU     spread `json:"cpu_seconds"`         // of all members
	Servers spread `json:"servers_cpu_seconds"` // of all NATS servers
	Anon    int64  `json:"rss_anon"`            // the highest of a member, in all runs
	title   string
}

// clusterIdleRow is the share of a core that a cluster uses while nothing happens.
type clusterIdleRow struct {
	Members float64 `json:"members_cpu"`
	Servers float64 `json:"servers_cpu"`
}

// clusterTakeoverRow is a fleet of many appliances whose cluster loses the owner.
type clusterTakeoverRow struct {
	Appliances int     `json:"appliances"`
	Events     int     `json:"events"`
	Seconds    float64 `json:"seconds"` // until all events were delivered
	Lost       float64 `json:"seconds_without_owner"`
	Anon       []int64 `json:"rss_anon"` // by member, the owner first
}

const (
	clusterMembers    = 3
	clusterServers    = 3
	clusterAppliances = 100
	clusterIdleFor    = time.Minute
	// clusterPatience is the time limit of the parts that are not drains.
	clusterPatience = patience + time.Minute
)

// clusterDrains are the drains that are run by a cluster.
var clusterDrains = []string{"kafka", "nats", "webhook-100"}

// clusters measures a cluster.
func (b *bench) clusters(ctx context.Context, r *report) error {
	row := &clusterReport{Members: clusterMembers}
	r.Cluster = row
	for _, d := range allDrains {
		if !slices.Contains(clusterDrains, d.name) {
			continue
		}
		drained := clusterDrainRow{Name: d.name, Events: b.events, title: d.title}
		var rates, alone, cpu, servers []float64
		for n := range b.runs {
			b.say("a cluster, %s: run %d of %d", d.title, n+1, b.runs)
			for _, start := range []starter{b.startAlone, b.startCluster} {
				f, err := b.receiveCluster(ctx, d, start)
				if err != nil {
					return fmt.Errorf("%s: %w", d.title, err)
				}
				rate := float64(b.events) / f.Seconds
				if f.servers == 0 {
					alone = append(alone, rate)
					continue
				}
				rates, cpu, servers = append(rates, rate), append(cpu, f.CPU), append(servers, f.servers)
				drained.Anon = max(drained.Anon, f.Anon)
			}
		}
		drained.Rate, drained.Alone, drained.CPU, drained.Servers = spreadOf(rates), spreadOf(alone), spreadOf(cpu), spreadOf(servers)
		row.Drains = append(row.Drains, drained)
	}
	for _, part := range []struct {
		name string
		run  func(ctx context.Context, dir string) error
	}{
		{"latency", func(ctx context.Context, dir string) (err error) {
			row.Latency, err = b.clusterLatency(ctx, dir)
			return err
		}},
		{"idle", func(ctx context.Context, dir string) (err error) {
			row.Idle, err = b.clusterIdle(ctx, dir)
			return err
		}},
		{"the loss of the owner", func(ctx context.Context, dir string) (err error) {
			row.Takeover, err = b.clusterTakeover(ctx, dir)
			return err
		}},
	} {
		b.say("a cluster: %s", part.name)
		if err := b.run(ctx, clusterPatience, part.run); err != nil {
			return fmt.Errorf("%s: %w", part.name, err)
		}
	}
	return nil
}

// clusterFigures are those of a drain by a cluster. The CPU time is that of all members.
type clusterFigures struct {
	figures
	servers float64
}

// starter starts bridges, and waits until one of them delivers.
type starter func(ctx context.Context, dir string, sinks []map[string]any, appliances ...map[string]any) (*cluster, error)

// receiveCluster runs a drain as receive does.
func (b *bench) receiveCluster(ctx context.Context, d drain, start starter) (f clusterFigures, err error) {
	_, err = b.receive(ctx, d, func(ctx context.Context, dir string, addresses []string) (_ figures, err error) {
		f, err = b.clusterDrain(ctx, dir, d, addresses, start)
		return f.figures, err
	})
	return f, err
}

// clusterDrain starts bridges and then the appliance, whose detections one of them delivers.
func (b *bench) clusterDrain(ctx context.Context, dir string, d drain, addresses []string, start starter) (f clusterFigures, err error) {
	ports, release, err := loopback.Ports(1)
	if err != nil {
		return f, err
	}
	defer release()
	address := net.JoinHostPort("127.0.0.1", strconv.Itoa(ports[0]))
	hq := applianceAt("http://"+address, map[string]any{})
	hq["retry"], hq["unreachable_after"] = map[string]any{"initial": "20ms", "max": "20ms"}, 1_000_000
	sinks := make([]map[string]any, len(d.targets))
	for i, t := range d.targets {
		sinks[i] = t.sink(addresses[i])
	}
	c, err := start(ctx, dir, sinks, hq)
	if err != nil {
		return f, err
	}
	defer func() { err = errors.Join(err, c.stop()) }()
	before, ofServers := c.cpu()
	_, stop, err := b.startAppliance(ctx, b.events, 24*time.Hour, "--listen", address)
	if err != nil {
		return f, err
	}
	defer func() { err = errors.Join(err, stop()) }()
	began := time.Now()
	err = c.await(ctx, b.events)
	f.Seconds = time.Since(began).Seconds()
	after, ofServersAfter := c.cpu()
	f.CPU, f.servers = (after - before).Seconds(), (ofServersAfter - ofServers).Seconds()
	for _, m := range c.members {
		anon, _ := process.Memory(m.cmd.Process.Pid)
		f.Anon = max(f.Anon, anon)
	}
	return f, err
}

// clusterLatency measures the latency of single detections.
func (b *bench) clusterLatency(ctx context.Context, dir string) (row latencyRow, err error) {
	shown, arrived := &shownAppliance{appliance: standin.New(standin.Options{Seed: 1, Size: b.size})}, make(arrivals, 1)
	sensor, hook := httptest.NewServer(shown), httptest.NewServer(arrived)
	defer sensor.Close()
	defer hook.Close()
	sink := webhookTarget.sink(hook.URL)
	sink["batch"] = map[string]any{"linger": 0}
	c, err := b.startCluster(ctx, dir, []map[string]any{sink}, applianceAt(sensor.URL, map[string]any{"interval": latencyInterval}))
	if err != nil {
		return row, err
	}
	running, end := whileRunning(ctx, c.members...)
	defer end()
	row, err = shown.measure(running, arrived, latencyDetections, func() bool { return true })
	row.Beside = "a cluster"
	return row, errors.Join(err, c.stop())
}

// clusterIdle measures a cluster whose one appliance has nothing.
func (b *bench) clusterIdle(ctx context.Context, dir string) (row clusterIdleRow, err error) {
	sensor := httptest.NewServer(standin.New(standin.Options{Seed: 1}))
	defer sensor.Close()
	c, err := b.startCluster(ctx, dir, []map[string]any{webhookTarget.sink("http://127.0.0.1:1")}, applianceAt(sensor.URL, map[string]any{}))
	if err != nil {
		return row, err
	}
	members, servers := c.cpu()
	err = sleep(ctx, clusterIdleFor)
	membersAfter, serversAfter := c.cpu()
	row.Members = (membersAfter - members).Seconds() / clusterIdleFor.Seconds()
	row.Servers = (serversAfter - servers).Seconds() / clusterIdleFor.Seconds()
	return row, errors.Join(err, c.stop())
}

// clusterTakeover reads many appliances, kills the owner, and waits until another member owns the
// log.
func (b *bench) clusterTakeover(ctx context.Context, dir string) (*clusterTakeoverRow, error) {
	one := standin.New(standin.Options{Seed: 1, Size: b.size})
	one.AddBacklog(fleetDetections, fleetDetections*time.Minute)
	one.AddAudit(fleetAudit)
	row := &clusterTakeoverRow{Appliances: clusterAppliances, Events: clusterAppliances * (fleetDetections + fleetAudit)}
	var appliances []map[string]any
	sensors := make([]*httptest.Server, clusterAppliances)
	for i := range sensors {
		// None answers before the log has an owner.
		sensors[i] = httptest.NewUnstartedServer(one)
		defer sensors[i].Close()
		a := applianceAt("http://"+sensors[i].Listener.Addr().String(), map[string]any{})
		a["name"] = fmt.Sprintf("sensor-%d", i)
		a["audit"] = map[string]any{"start": "beginning"}
		a["timeout"], a["retry"], a["unreachable_after"] = "1s", map[string]any{"initial": "1s", "max": "1s"}, 1_000_000
		delete(a, "rate_limit")
		appliances = append(appliances, a)
	}
	receiver, err := receiveHTTP(dir)
	if err != nil {
		return nil, err
	}
	defer receiver.stop()
	c, err := b.startCluster(ctx, dir, []map[string]any{webhookBatch(batch).sink(receiver.address)}, appliances...)
	if err != nil {
		return nil, err
	}
	defer func() { _ = c.stop() }() // again, if it failed
	began := time.Now()
	for _, sensor := range sensors {
		sensor.Start()
	}
	if err := c.members[0].until(ctx, askEvery, func() (bool, error) {
		n, err := receiver.count()
		return n >= int64(row.Events), err
	}); err != nil {
		return nil, err
	}
	row.Seconds = time.Since(began).Seconds()
	owner, err := c.awaitOwner(ctx)
	if err != nil {
		return nil, err
	}
	c.members[0], c.members[owner] = c.members[owner], c.members[0]
	for _, m := range c.members {
		anon, _ := process.Memory(m.cmd.Process.Pid)
		row.Anon = append(row.Anon, anon)
	}
	lost := c.members[0]
	c.members = c.members[1:]
	began = time.Now()
	_ = lost.cmd.Process.Kill()
	<-lost.ended
	lost.peaks()
	if _, err := c.awaitOwner(ctx); err != nil {
		return nil, err
	}
	row.Lost = time.Since(began).Seconds()
	return row, c.stop()
}

// cluster is a cluster of bridges and the NATS servers that store its state, or a bridge alone.
type cluster struct {
	servers *natscluster.Cluster // nil: there is no cluster
	members []*service
}

// startCluster starts NATS servers and bridges in dir and waits until the log has an
// owner.
func (b *bench) startCluster(ctx context.Context, dir string, sinks []map[string]any, appliances ...map[string]any) (*cluster, error) {
	c := new(cluster)
	if err := b.openCluster(ctx, c, dir, sinks, appliances); err != nil {
		return nil, errors.Join(err, c.stop())
	}
	return c, nil
}

// startAlone starts a bridge without a cluster.
func (b *bench) startAlone(ctx context.Context, dir string, sinks []map[string]any, appliances ...map[string]any) (*cluster, error) {
	s, err := b.startBridge(ctx, dir, configuration(dir, sinks, appliances...))
	if err != nil {
		return nil, err
	}
	return &cluster{members: []*service{s}}, s.awaitOpen(ctx)
}

func (b *bench) openCluster(ctx context.Context, c *cluster, dir string, sinks, appliances []map[string]any) (err error) {
	if c.servers, err = natscluster.New(b.server, filepath.Join(dir, "nats"), clusterServers, nil); err != nil {
		return err
	}
	if err := c.servers.Start(ctx); err != nil {
		return err
	}
	for n := range clusterMembers {
		own := filepath.Join(dir, "bridge-"+strconv.Itoa(n))
		if err := os.Mkdir(own, 0o700); err != nil {
			return err
		}
		settings := configuration(own, sinks, appliances...)
		settings["cluster"] = map[string]any{
			"name": "bench", "member": "bridge-" + strconv.Itoa(n), "replicas": clusterServers,
			"nats": map[string]any{"url": c.servers.URL()},
		}
		s, err := b.startBridge(ctx, own, settings)
		if err != nil {
			return err
		}
		c.members = append(c.members, s)
	}
	if err := b.createCluster(ctx, filepath.Join(dir, "bridge-0", "ndrbridge.yaml")); err != nil {
		return err
	}
	for _, m := range c.members {
		if err := m.awaitOpen(ctx); err != nil {
			return err
		}
	}
	_, err = c.awaitOwner(ctx)
	return err
}

// createCluster creates the cluster that members wait for, once its servers can.
func (b *bench) createCluster(ctx context.Context, configuration string) error {
	for {
		output, err := command(ctx, b.bridge, "cluster", "init", "--config", configuration).CombinedOutput()
		if err == nil {
			return nil
		}
		select {
		case <-time.After(time.Second):
		case <-ctx.Done():
			return fmt.Errorf("create the cluster: %w: %s", err, output)
		}
	}
}

// stop ends the bridges and the servers.
func (c *cluster) stop() error {
	var errs []error
	for _, m := range c.members {
		_, _, err := m.stop()
		errs = append(errs, err)
	}
	c.members = nil
	if c.servers != nil {
		errs = append(errs, c.servers.Stop())
	}
	return errors.Join(errs...)
}

// cpu returns the CPU time that the members and the servers have used.
func (c *cluster) cpu() (members, servers time.Duration) {
	for _, m := range c.members {
		members += process.CPU(m.cmd.Process.Pid)
	}
	if c.servers == nil {
		return members, 0
	}
	for _, s := range c.servers.Nodes {
		servers += process.CPU(s.PID())
	}
	return members, servers
}

// await waits until the members have delivered a number of events together.
func (c *cluster) await(ctx context.Context, events int) error {
	return c.members[0].until(ctx, askEvery, func() (bool, error) {
		all := 0
		for _, m := range c.members {
			delivered, err := m.delivered(ctx)
			if err != nil {
				return false, err
			}
			all += delivered
		}
		return all >= events, nil
	})
}

// awaitOwner waits until a member owns the log, and returns its number.
func (c *cluster) awaitOwner(ctx context.Context) (owner int, err error) {
	err = c.members[0].until(ctx, askEvery, func() (bool, error) {
		for n, m := range c.members {
			samples, err := m.samples(ctx)
			if err != nil || samples["ndrbridge_cluster_owner"] == 1 {
				owner = n
				return true, err
			}
		}
		return false, nil
	})
	return owner, err
}

// delivered counts the events that the bridge has delivered.
func (s *service) delivered(ctx context.Context) (n int, err error) {
	samples, err := s.samples(ctx)
	for name, value := range samples {
		if strings.HasPrefix(name, `ndrbridge_sink_events_total{result="delivered",`) {
			n += int(value)
		}
	}
	return n, err
}
