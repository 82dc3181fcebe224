package job_test

import (
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"ndrbridge/test/appliance/job"
	"ndrbridge/test/appliance/rest"
)

// status returns what the interface shows of a job.
func status(j *job.Jobs, id string) string {
	answer := j.Handlers()["GET /jobs/{id}"](&rest.Request{Parameters: map[string]string{"id": id}})
	if answer.Status != http.StatusOK {
		return ""
	}
	return string(answer.Parts[0])
}

// A job's state depends on the time alone, however often it is looked at before, and steps
// end in order, once, at their time.
func TestAJobIsTheSameHoweverOftenItIsLookedAt(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		start := time.UnixMilli(1_700_000_000_000)
		wait := time.Duration(rapid.IntRange(0, 3).Draw(t, "wait"))
		lasts := rapid.SliceOfN(rapid.IntRange(0, 3), 1, 5).Draw(t, "lasts")
		fails := rapid.IntRange(-1, len(lasts)-1).Draw(t, "fails")
		looks := rapid.SliceOfN(rapid.IntRange(0, 4), 1, 10).Draw(t, "looks")

		run := func() (j *job.Jobs, id string, ended *[]time.Time) {
			ended = new([]time.Time)
			steps := make([]job.Step, len(lasts))
			for i, d := range lasts {
				steps[i] = job.Step{Description: "step", Lasts: time.Duration(d), End: func(at time.Time) error {
					*ended = append(*ended, at)
					if i == fails {
						return errors.New("it failed")
					}
					return nil
				}}
			}
			j = job.NewJobs(wait, start)
			id, ok := j.Start("test", start, steps...)
			if !ok {
				t.Fatal("the job does not start")
			}
			return j, id, ended
		}
		often, id, _ := run()
		now := start
		for _, passed := range looks {
			now = now.Add(time.Duration(passed))
			once, sameID, ended := run()
			often.Advance(now)
			once.Advance(now)
			got, want := status(often, id), status(once, sameID)
			if got != want {
				t.Fatalf("looked at often, it is %s, and once %s", got, want)
			}
			due, steps := start.Add(wait), 0
			for i, d := range lasts {
				if due = due.Add(time.Duration(d)); due.After(now) {
					break
				}
				if steps++; len(*ended) < steps || !(*ended)[i].Equal(due) {
					t.Fatalf("step %d ended at %v, want %v", i, *ended, due)
				}
				if i == fails {
					break
				}
			}
			if len(*ended) != steps {
				t.Fatalf("%d steps have ended, want %d", len(*ended), steps)
			}
			finished := steps == len(lasts) || fails >= 0 && steps > fails
			if _, free := once.Start("next", now); free != finished {
				t.Fatalf("another job starts: %v, but this is %s", free, got)
			}
			if fails >= 0 && steps > fails && !strings.Contains(got, `"FAILED"`) {
				t.Fatalf("the failed job is %s", got)
			}
		}
	})
}
