package appliance

import (
	"cmp"
	"crypto/sha256"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/http"
	"slices"
	"sync"

	"ndrbridge/test/appliance/certificate"
	"ndrbridge/test/appliance/firmware"
	"ndrbridge/test/appliance/job"
	"ndrbridge/test/appliance/openapi"
	"ndrbridge/test/appliance/power"
	"ndrbridge/test/appliance/resource"
	"ndrbridge/test/appliance/rest"
)

// system is what the system resource administers, besides the identity and ticketing.
type system struct {
	power       *power.Switch
	jobs        *job.Jobs
	firmware    *firmware.Manager
	certificate *certificate.Store
	cluster     *resource.Settings
	access      *resource.Settings // to detections
	services    *resource.Settings
	processes   *processes

	secret struct {
		sync.Mutex
		rand *rand.Rand
		text string // of flow logs
	}
}

// newSystem sets up the system resource.
func (a *Appliance) newSystem() {
	o, s := a.options, &a.system
	now := o.Now()
	s.power = power.New(o.RestartTime, o.PowerOnAfter)
	s.jobs = job.NewJobs(o.StepTime, now)
	s.firmware = firmware.NewManager(firmware.System{
		Version: func() firmware.Version { return firmware.Version(a.identity.Load().Firmware) },
		Install: a.install, Restart: s.power.Restart, RestartTime: o.RestartTime, Now: o.Now, StepTime: o.StepTime,
	}, s.jobs)
	s.certificate = certificate.NewStore(o.Certificate, o.Now, func() string { return a.identity.Load().Host })
	s.cluster = resource.NewSettings("/service/cluster", resource.Object{"ingest_enabled": true})
	if o.ThirdPartyRecords {
		s.cluster.Refuse = func(*rest.Request) (rest.Answer, bool) {
			return rest.Unprocessable("the records are in a third-party record store, which has no cluster"), true
		}
	}
	s.access = resource.NewSettings("/service/detections/access", resource.Object{"access": "privileged"})
	on, off := resource.Object{"enabled": true}, resource.Object{"enabled": false}
	s.services = resource.NewSettings("/service/services", resource.Object{
		"admin_ui": on, "shell": off, "snmp": off, "flow_collector": on, "key_receiver": off,
	})
	s.processes = newProcesses(o.RestartTime, now)
	s.secret.rand = chance(o.Seed, chanceSystem)
	s.newSecret()
}

// systemHandlers returns the handlers of the system resource, of jobs, of the connection to
// the cloud, and of analysis priorities.
func (a *Appliance) systemHandlers() rest.Handlers {
	get := func(body func() map[string]string) rest.Handler {
		return func(*rest.Request) rest.Answer { return rest.JSON(http.StatusOK, body()) }
	}
	s := &a.system
	handlers := rest.Handlers{
		"GET /service": get(func() map[string]string {
			i := a.identity.Load()
			return map[string]string{
				"display_host": i.Host, "external_hostname": i.Host, "hostname": i.Host,
				"mgmt_ipaddr": i.Address, "platform": i.Platform, "version": i.Firmware,
			}
		}),
		"GET /service/version":          get(func() map[string]string { return map[string]string{"version": a.identity.Load().Firmware} }),
		"GET /service/platform":         get(func() map[string]string { return map[string]string{"platform": a.identity.Load().Platform} }),
		"GET /service/edition":          get(func() map[string]string { return map[string]string{"edition": a.options.Edition} }),
		"GET /service/idrac":            get(func() map[string]string { return map[string]string{"ipaddr": "192.0.2.11"} }),
		"POST /service/cloudresources":  updateCloudResources,
		"GET /service/flowlogs/secret":  get(s.currentSecret),
		"POST /service/flowlogs/secret": get(s.newSecret),
		"POST /service/restart":         a.restart,
		"POST /service/shutdown":        a.shutdown,
		"GET /service/ticketing":        a.getTicketing,
		"PATCH /service/ticketing":      a.patchTicketing,
		"GET /service/processes": func(*rest.Request) rest.Answer {
			return rest.JSON(http.StatusOK, s.processes.list(a.options.Now(), s.power.Booted()))
		},
		"POST /service/processes/{process}/restart": a.restartProcess,
		"POST /cloud/connect":                       a.connectCloud,
	}
	for _, more := range []rest.Handlers{
		s.jobs.Handlers(), s.firmware.Handlers(), s.certificate.Handlers(),
		s.cluster.Handlers(a.description), s.access.Handlers(a.description), s.services.Handlers(a.description),
		a.analysisPriorityHandlers(),
	} {
		maps.Copy(handlers, more)
	}
	return handlers
}

// Identity is an appliance's identity in the system resource.
type Identity struct {
	Host     string // empty: Options.Host
	Address  string // of its management interface; empty: 192.0.2.10
	Platform string // empty: sensor, or console
	// Firmware is the version; empty: the one that is installed. It does not affect the
	// appliance's behaviour, but the next upgrade replaces it.
	Firmware string
}

// SetIdentity sets the identity that the system resource returns.
func (a *Appliance) SetIdentity(i Identity) {
	platform := "sensor"
	if a.options.Console {
		platform = "console"
	}
	i.Host = cmp.Or(i.Host, a.options.Host)
	i.Address = cmp.Or(i.Address, "192.0.2.10")
	i.Platform = cmp.Or(i.Platform, platform)
	i.Firmware = cmp.Or(i.Firmware, *a.installed.Load())
	a.identity.Store(&i)
}

// install replaces the firmware, as a user asked. Detections show the fields that it has.
func (a *Appliance) install(v firmware.Version, user string) {
	version := string(v)
	a.installed.Store(&version)
	i := *a.identity.Load()
	before := i.Firmware
	i.Firmware = version
	a.identity.Store(&i)
	a.store.Lock()
	if old := isOld(v); old != a.oldFirmware.Swap(old) {
		for _, shown := range slices.Clone(a.store.current) {
			d := shown.Detection()
			a.show(&d, shown.By)
		}
	}
	a.store.Unlock()
	a.logAPI(user, rest.Audit{
		Operation: "Upgrade", Component: "Firmware", Details: fmt.Sprintf("Replaced firmware %s by %s", before, version),
	})
}

// isOld reports whether a version is from before detections had a mod_time.
func isOld(v firmware.Version) bool { return v.Before("9.3") }

// seeing returns a caller with the privilege to see detections, if all users have it and an
// operation shows detections.
func (a *Appliance) seeing(o *openapi.Operation, c rest.Caller) rest.Caller {
	if o.Tag == "Detections" && !o.Changes && a.system.access.Value()["access"] == "all" {
		roles := map[string]string{"ndr": "full"}
		for privilege, level := range c.Roles {
			if privilege != "ndr" {
				roles[privilege] = level
			}
		}
		c.Roles = roles
	}
	return c
}

func (s *system) currentSecret() map[string]string {
	s.secret.Lock()
	defer s.secret.Unlock()
	return map[string]string{"secret": s.secret.text}
}

// newSecret replaces the secret of flow logs.
func (s *system) newSecret() map[string]string {
	s.secret.Lock()
	s.secret.text = fmt.Sprintf("%016x%016x", s.secret.rand.Uint64(), s.secret.rand.Uint64())
	s.secret.Unlock()
	return s.currentSecret()
}

func updateCloudResources(r *rest.Request) rest.Answer {
	answer := rest.NoContent()
	answer.Audit = &rest.Audit{
		Operation: "Modify", Component: r.Operation.Tag,
		Details: fmt.Sprintf("Updated the cloud resources with %d bytes, SHA-256 %x", len(r.Data), sha256.Sum256(r.Data)),
	}
	return answer
}

func (a *Appliance) connectCloud(r *rest.Request) rest.Answer {
	if a.options.Edition == EditionCloud {
		return rest.Unprocessable("this is the cloud-hosted edition already")
	}
	answer := rest.NoContent()
	answer.Audit = &rest.Audit{
		Operation: "Connect", Component: r.Operation.Tag,
		Details: fmt.Sprintf("Connected the system to the cloud as %q", resource.Text(r.Object(), "nickname")),
	}
	return answer
}

func (a *Appliance) getTicketing(*rest.Request) rest.Answer {
	a.store.RLock()
	defer a.store.RUnlock()
	return rest.JSON(http.StatusOK, map[string]bool{"enabled": a.store.ticketing})
}

func (a *Appliance) patchTicketing(r *rest.Request) rest.Answer {
	answer := rest.NoContent()
	if enabled, ok := r.Object()["enabled"].(bool); ok {
		a.SetTicketing(enabled)
		answer.Audit = &rest.Audit{Operation: "Modify", Component: r.Operation.Tag, Details: fmt.Sprintf("%s: %t", r.Operation.Summary, enabled)}
	}
	return answer
}

// SetTicketing enables or disables external ticket tracking, like a PATCH of the ticketing
// resource.
func (a *Appliance) SetTicketing(enabled bool) {
	a.store.Lock()
	defer a.store.Unlock()
	a.store.ticketing = enabled
}
