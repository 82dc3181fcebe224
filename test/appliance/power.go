package appliance

import (
	"crypto/tls"
	"net/http"
	"slices"
	"strconv"
	"sync"
	"time"

	"ndrbridge/test/appliance/power"
	"ndrbridge/test/appliance/rest"
)

// PowerOn powers an appliance on that was shut down. Otherwise it does nothing.
func (a *Appliance) PowerOn() { a.system.power.PowerOn(a.options.Now()) }

// GetCertificate returns the certificate of the appliance for a new connection. It serves as
// the function of the same name in a [tls.Config].
func (a *Appliance) GetCertificate(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	return a.system.certificate.Current()
}

// unreachable refuses a request if the appliance does not run, and reports whether it did. It
// resets the connection, without returning, if the appliance is down.
func (a *Appliance) unreachable(w http.ResponseWriter) bool {
	now := a.options.Now()
	a.system.jobs.Advance(now)
	state, left := a.system.power.State(now)
	switch state {
	case power.Down:
		reset(w)
	case power.Starting:
		refused := rest.Refuse(http.StatusServiceUnavailable, "the service is starting")
		seconds := (left + time.Second - 1) / time.Second
		refused.Header = http.Header{"Retry-After": {strconv.FormatInt(int64(seconds), 10)}}
		a.send(w, behaviour{}, refused)
		return true
	case power.On:
	}
	return false
}

func (a *Appliance) restart(r *rest.Request) rest.Answer {
	now := a.options.Now()
	a.system.jobs.Interrupt(now, "the system was restarted")
	a.system.power.Restart(now)
	return accepted(rest.Audit{Operation: "Restart", Component: r.Operation.Tag, Details: "Restarted the system"})
}

func (a *Appliance) shutdown(r *rest.Request) rest.Answer {
	now := a.options.Now()
	a.system.jobs.Interrupt(now, "the system was shut down")
	a.system.power.Shutdown(now)
	return accepted(rest.Audit{Operation: "Shut down", Component: r.Operation.Tag, Details: "Shut down the system"})
}

func accepted(entry rest.Audit) rest.Answer {
	return rest.Answer{Status: http.StatusAccepted, Audit: &entry}
}

// process is a process of the system as the interface shows it.
type process struct {
	Name        string `json:"name"`
	Description string `json:"description"`
	Status      string `json:"status"`
	StartTime   int64  `json:"start_time"`

	serves  bool // whether requests are refused without it
	running time.Time
}

// processes are the processes of an appliance.
type processes struct {
	restart time.Duration

	mu  sync.Mutex
	all []process
}

// newProcesses returns processes that run since a time and take some time to restart.
func newProcesses(restart time.Duration, since time.Time) *processes {
	p := &processes{restart: restart}
	for _, known := range []process{
		{Name: "alerts", Description: "Evaluates alerts"},
		{Name: "api", Description: "Serves the REST interface", serves: true},
		{Name: "capture", Description: "Captures and analyzes traffic"},
		{Name: "flowlogs", Description: "Receives flow logs"},
		{Name: "notify", Description: "Sends notifications"},
		{Name: "portal", Description: "Serves the web interface"},
		{Name: "search", Description: "Searches records"},
		{Name: "webserver", Description: "Accepts connections", serves: true},
	} {
		known.StartTime, known.running = since.UnixMilli(), since
		p.all = append(p.all, known)
	}
	return p
}

// list returns the processes as they are at a time, on a system that was booted at another.
func (p *processes) list(now, booted time.Time) []process {
	p.mu.Lock()
	defer p.mu.Unlock()
	all := slices.Clone(p.all)
	for i := range all {
		all[i].StartTime = max(all[i].StartTime, booted.UnixMilli())
		all[i].Status = "running"
		if now.Before(all[i].running) {
			all[i].Status = "restarting"
		}
	}
	return all
}

// begin restarts a process at a time. It reports false if there is none of the name, and
// whether requests are refused meanwhile.
func (p *processes) begin(name string, now time.Time) (serves, ok bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	i := slices.IndexFunc(p.all, func(known process) bool { return known.Name == name })
	if i < 0 {
		return false, false
	}
	p.all[i].StartTime, p.all[i].running = now.UnixMilli(), now.Add(p.restart)
	return p.all[i].serves, true
}

func (a *Appliance) restartProcess(r *rest.Request) rest.Answer {
	name, now := r.Parameters["process"], a.options.Now()
	serves, ok := a.system.processes.begin(name, now)
	if !ok {
		return rest.NotFound("no process has the name %q", name)
	}
	if serves {
		a.system.power.Start(now)
	}
	return accepted(rest.Audit{Operation: "Restart", Component: r.Operation.Tag, Details: "Restarted the process " + name})
}
