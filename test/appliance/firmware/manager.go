package firmware

import (
	"cmp"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"path"
	"sync"
	"time"

	"ndrbridge/test/appliance/job"
	"ndrbridge/test/appliance/rest"
)

// System is the appliance whose firmware is managed.
type System struct {
	// Version returns the installed version.
	Version func() Version
	// Install changes the installed version. user asked for it at a time before.
	Install func(v Version, user string)
	// Restart restarts the appliance, which takes RestartTime.
	Restart     func(at time.Time)
	RestartTime time.Duration
	// Now returns the time by which jobs proceed.
	Now func() time.Time
	// StepTime is the duration of each step of a job, except the restart.
	StepTime time.Duration
}

// Manager uploads, downloads and installs firmware. It is safe for concurrent use.
type Manager struct {
	system System
	jobs   *job.Jobs

	mu       sync.Mutex
	uploaded Version // of the most recent image; empty: none
	previous Version // of the image that the appliance had before; empty: that of delivery
}

// NewManager returns a manager that has no image to install.
func NewManager(s System, jobs *job.Jobs) *Manager { return &Manager{system: s, jobs: jobs} }

// Handlers returns the handlers of the operations on firmware.
func (m *Manager) Handlers() rest.Handlers {
	return rest.Handlers{
		"POST /service/firmware":                   m.upload,
		"POST /service/firmware/download/url":      m.downloadURL,
		"POST /service/firmware/download/version":  m.downloadVersion,
		"POST /service/firmware/latest/upgrade":    m.upgrade,
		"GET /service/firmware/next":               func(*rest.Request) rest.Answer { return rest.JSON(http.StatusOK, m.system.Version().Next()) },
		"GET /service/firmware/previous":           m.getPrevious,
		"POST /service/firmware/previous/rollback": m.rollback,
	}
}

func (m *Manager) upload(r *rest.Request) rest.Answer {
	v, ok := Image(r.Data)
	if !ok {
		return rest.BadRequest(errors.New("the body is not a firmware image; its first line must be the word firmware and a version"))
	}
	m.keep(v)
	answer := rest.NoContent()
	answer.Audit = audit("Upload", "Uploaded a firmware image of version %s", v)
	return answer
}

func (m *Manager) keep(v Version) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.uploaded = v
}

func (m *Manager) downloadURL(r *rest.Request) rest.Answer {
	var body struct {
		URL     string `json:"firmware_url"`
		Upgrade bool
	}
	if err := r.Decode(&body); err != nil {
		return rest.BadRequest(err)
	}
	source, err := url.Parse(body.URL)
	if err != nil || source.Host == "" {
		return rest.BadRequest(errors.New("firmware_url: it must be the URL of a file on another host"))
	}
	v, ok := Named(path.Base(source.Path))
	return m.download(r, body.Upgrade, "from "+source.Host, v, func(time.Time) error {
		if !ok {
			return errors.New("the file is not a firmware image: its name has no version")
		}
		return nil
	})
}

func (m *Manager) downloadVersion(r *rest.Request) rest.Answer {
	var body struct {
		Version Version
		Upgrade bool
	}
	if err := r.Decode(&body); err != nil {
		return rest.BadRequest(err)
	}
	return m.download(r, body.Upgrade, string("version "+body.Version), body.Version, func(time.Time) error {
		if !m.system.Version().Offers(body.Version) {
			return fmt.Errorf("the version %s is not offered for %s", body.Version, m.system.Version())
		}
		return nil
	})
}

// download starts a job that fetches the image of a version, which check accepts, and with
// upgrade installs it.
func (m *Manager) download(r *rest.Request, upgrade bool, what string, v Version, check func(time.Time) error) rest.Answer {
	steps := []job.Step{
		{Description: "Find the firmware image", Lasts: m.system.StepTime, End: check},
		{Description: "Download the firmware image", Lasts: m.system.StepTime},
		{Description: "Verify the firmware image", Lasts: m.system.StepTime, End: func(time.Time) error {
			m.keep(v)
			return nil
		}},
	}
	if upgrade {
		steps = append(steps, m.installation(r.Caller.Name, v, false)...)
	}
	return m.start("download", audit("Download", "Started the download of a firmware image, %s", what), steps)
}

func (m *Manager) upgrade(r *rest.Request) rest.Answer {
	m.mu.Lock()
	v := m.uploaded
	m.mu.Unlock()
	if v == "" {
		return rest.Unprocessable("no firmware image was uploaded or downloaded; do that first")
	}
	return m.start("upgrade", audit("Upgrade", "Started the upgrade to firmware %s", v), m.installation(r.Caller.Name, v, false))
}

func (m *Manager) getPrevious(*rest.Request) rest.Answer {
	return rest.JSON(http.StatusOK, map[string]Version{"version": m.before()})
}

// before returns the version that the appliance can be rolled back to.
func (m *Manager) before() Version {
	m.mu.Lock()
	defer m.mu.Unlock()
	return cmp.Or(m.previous, m.system.Version().Previous())
}

func (m *Manager) rollback(r *rest.Request) rest.Answer {
	v := m.before()
	return m.start("rollback", audit("Roll back", "Started the rollback to firmware %s", v), m.installation(r.Caller.Name, v, true))
}

// installation returns the steps that install a version on behalf of a user.
func (m *Manager) installation(user string, v Version, older bool) []job.Step {
	return []job.Step{
		{Description: "Check the compatibility", Lasts: m.system.StepTime, End: func(time.Time) error {
			if installed := m.system.Version(); !older && v.Before(installed) {
				return fmt.Errorf("the firmware image has the version %s, which is older than %s; roll back instead", v, installed)
			}
			return nil
		}},
		{Description: "Install the firmware", Lasts: m.system.StepTime, End: func(at time.Time) error {
			if installed := m.system.Version(); installed != v {
				m.mu.Lock()
				m.previous = installed
				m.mu.Unlock()
			}
			m.system.Install(v, user)
			m.system.Restart(at)
			return nil
		}},
		{Description: "Restart the system", Lasts: m.system.RestartTime},
	}
}

// start starts a job.
func (m *Manager) start(kind string, entry *rest.Audit, steps []job.Step) rest.Answer {
	id, ok := m.jobs.Start(kind, m.system.Now(), steps...)
	if !ok {
		return rest.Unprocessable("another job is not finished; wait for it")
	}
	answer := job.Accepted(id)
	answer.Audit = entry
	return answer
}

func audit(operation, format string, args ...any) *rest.Audit {
	return &rest.Audit{Operation: operation, Component: "Firmware", Details: fmt.Sprintf(format, args...)}
}
