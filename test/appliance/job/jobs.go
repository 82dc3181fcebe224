// Package job implements the stand-in appliance's jobs: operations that go on after the
// request which started them was answered.
//
//	PENDING ──► RUNNING, step by step ──► DONE
//	                 │ a step fails, or Interrupt
//	                 ▼
//	              FAILED
//
// Jobs proceed when they are looked at, by the time that the caller gives.
package job

import (
	"net/http"
	"slices"
	"strconv"
	"sync"
	"time"

	"ndrbridge/test/appliance/openapi"
	"ndrbridge/test/appliance/rest"
)

// maxJobs is the number of jobs that are remembered.
const maxJobs = 100

// Step is a part of a job.
type Step struct {
	Description string
	Lasts       time.Duration
	// End is called with the time when the step has ended; nil: nothing is to be done. An error
	// fails the job. It must not call the Jobs.
	End func(at time.Time) error
}

// The statuses of a job.
const (
	pending = "PENDING"
	running = "RUNNING"
	done    = "DONE"
	failed  = "FAILED"
)

// job is a job as the interface shows it.
type job struct {
	ID          string `json:"id"`
	Type        string `json:"type"`
	Status      string `json:"status"`
	Step        int    `json:"step_number"`
	Total       int    `json:"total_steps"`
	Description string `json:"step_description"`
	Created     int64  `json:"create_time"`
	Ended       *int64 `json:"end_time"`

	steps []Step
	since time.Time // when it was created, or the current step began
}

// Jobs are the jobs of an appliance, of which at most one is not finished. They are safe for
// concurrent use.
type Jobs struct {
	wait time.Duration

	mu   sync.Mutex
	last int
	jobs []*job // oldest first
}

// NewJobs returns jobs that are pending for the duration wait before they run. One exists
// already, which installed the appliance at a time.
func NewJobs(wait time.Duration, at time.Time) *Jobs {
	j := &Jobs{wait: wait}
	j.add("install", at, []Step{{Description: "Install the system"}})
	j.jobs[0].advance(at, 0)
	return j
}

// Start starts a job of a type, which names it, and returns its id. It reports false if
// another job is not finished.
func (j *Jobs) Start(kind string, at time.Time, steps ...Step) (id string, ok bool) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.current() != nil {
		return "", false
	}
	id = j.add(kind, at, steps)
	j.current().advance(at, j.wait)
	return id, true
}

func (j *Jobs) add(kind string, at time.Time, steps []Step) (id string) {
	j.last++
	id = kind + "-" + strconv.Itoa(j.last)
	j.jobs = append(j.jobs, &job{
		ID: id, Type: kind, Status: pending, Total: len(steps), Created: at.UnixMilli(), steps: steps, since: at,
	})
	if len(j.jobs) > maxJobs {
		j.jobs = slices.Delete(j.jobs, 1, 2) // the first stays, so that one is always known
	}
	return id
}

// current returns the job that is not finished, or nil. The jobs must be locked.
func (j *Jobs) current() *job {
	if last := j.jobs[len(j.jobs)-1]; last.Ended == nil {
		return last
	}
	return nil
}

// Advance makes the progress that is due at a time.
func (j *Jobs) Advance(at time.Time) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if current := j.current(); current != nil {
		current.advance(at, j.wait)
	}
}

// Interrupt fails the job that is not finished, if there is one.
func (j *Jobs) Interrupt(at time.Time, reason string) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if current := j.current(); current != nil {
		current.end(failed, at)
		current.Description = reason
	}
}

func (j *job) advance(at time.Time, wait time.Duration) {
	for j.Ended == nil {
		lasts := wait
		if j.Status == running {
			lasts = j.steps[j.Step-1].Lasts
		}
		next := j.since.Add(lasts)
		if next.After(at) {
			return
		}
		j.since = next
		if j.Status == running {
			if end := j.steps[j.Step-1].End; end != nil {
				if err := end(next); err != nil {
					j.end(failed, next)
					j.Description = err.Error()
					return
				}
			}
		}
		if j.Step == j.Total {
			j.end(done, next)
			return
		}
		j.Status, j.Step = running, j.Step+1
		j.Description = j.steps[j.Step-1].Description
	}
}

func (j *job) end(status string, at time.Time) {
	j.Status, j.Ended, j.steps = status, new(at.UnixMilli()), nil
}

// Handlers returns the handler of a job's status.
func (j *Jobs) Handlers() rest.Handlers {
	return rest.Handlers{"GET /jobs/{id}": func(r *rest.Request) rest.Answer {
		id := r.Parameters["id"]
		j.mu.Lock()
		defer j.mu.Unlock()
		for _, found := range j.jobs {
			if found.ID == id {
				return rest.JSON(http.StatusOK, found)
			}
		}
		return rest.NotFound("no job has the id %q", id)
	}}
}

// Accepted returns the answer to a request that started a job.
func Accepted(id string) rest.Answer {
	return rest.Answer{Status: http.StatusAccepted, Header: http.Header{"Location": {openapi.Root + "/jobs/" + id}}}
}
