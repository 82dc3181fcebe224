package transform_test

import (
	"fmt"
	"testing"

	"ndrbridge/internal/jsonscan"
	"ndrbridge/test/assert"
	"ndrbridge/test/require"
	"ndrbridge/transform"
)

func TestTheLifecycleFollowsTheStatus(t *testing.T) {
	for _, c := range []struct {
		name     string
		created  bool
		fields   string // beside the status
		statuses []string
		want     string // after the last; the mod_time of the nth version is n
	}{
		{"a new one", true, `,"create_time":1750000000000`, []string{`"new"`}, `{"first_seen":1750000000000}`},
		{"one without create_time", true, ``, []string{`null`, `"new"`}, `{"first_seen":1}`},
		{"one that is acknowledged at once", true, ``, []string{`"acknowledged"`}, `{"first_seen":1,"acknowledged":1}`},
		{"one that is in progress, then acknowledged", true, ``, []string{`"new"`, `"in_progress"`, `"acknowledged"`}, `{"first_seen":1,"acknowledged":2}`},
		{"one that is closed at once", true, ``, []string{`"new"`, `"closed"`, `"closed"`}, `{"first_seen":1,"closed":2}`},
		{"one that is reopened", true, ``, []string{`"in_progress"`, `"closed"`, `null`}, `{"first_seen":1,"acknowledged":1,"reopened":3}`},
		{"one that is reopened into work, and closed again", true, ``, []string{`"new"`, `"closed"`, `"in_progress"`, `"closed"`}, `{"first_seen":1,"acknowledged":3,"closed":4,"reopened":3}`},
		{"one that is reopened twice", true, ``, []string{`"closed"`, `"open"`, `"closed"`, `"new"`}, `{"first_seen":1,"reopened":4}`},
		{"what was before the first version is unknown", false, ``, []string{`"acknowledged"`, `"in_progress"`}, `{"first_seen":1}`},
		{"when it was closed before is unknown", false, ``, []string{`"closed"`, `"closed"`}, `{"first_seen":1}`},
		{"what follows is known", false, ``, []string{`"closed"`, `"new"`, `"acknowledged"`}, `{"first_seen":1,"acknowledged":3,"reopened":2}`},
	} {
		t.Run(c.name, func(t *testing.T) {
			var life transform.Lifecycle
			var before []byte
			for i, status := range c.statuses {
				d := parse(t, fmt.Sprintf(`{"id":1,"mod_time":%d,"status":%s%s}`, i+1, status, c.fields))
				life = life.After(before, c.created && i == 0, d)
				before = d.Tracked
				e := require.Value(encoder.Detection(d, transform.Observation{Lifecycle: life, Repeat: 1, Recorded: recorded}))(t)
				for name, value := range jsonscan.Members(e.Data()) {
					assert.True(t, i < len(c.statuses)-1 || string(name) == "detection" || string(name) == "lifecycle" && string(value) == c.want, string(name), string(value))
				}
				assert.Contains(t, string(e.Data()), `"lifecycle"`)
			}
		})
	}
}

func TestAnUnknownLifecycleIsLeftOut(t *testing.T) {
	// An earlier release saw it without a create_time.
	d := parse(t, `{"id":1,"mod_time":5,"status":"closed"}`)
	life := transform.Lifecycle{}.After(d.Tracked, false, d)
	e := require.Value(encoder.Detection(d, transform.Observation{Lifecycle: life, Repeat: 1, Recorded: recorded}))(t)
	assert.NotContains(t, string(e.Data()), "lifecycle")
}

func TestTheLifecycleIsRedactedWithItsFields(t *testing.T) {
	life := transform.Lifecycle{FirstSeen: 1, Acknowledged: 2, Closed: 3, Reopened: 4}
	e := require.Value(encoder.Detection(parse(t, `{"id":1,"mod_time":5}`), transform.Observation{Lifecycle: life, Repeat: 1, Recorded: recorded}))(t)
	for path, want := range map[string]string{
		"detection.create_time": `{"detection":{"id":1,"mod_time":5},"lifecycle":{"acknowledged":2,"closed":3,"reopened":4}}`,
		"detection.status":      `{"detection":{"id":1,"mod_time":5},"lifecycle":{"first_seen":1}}`,
		"lifecycle":             `{"detection":{"id":1,"mod_time":5}}`,
	} {
		r := require.Value(transform.ParseRedaction([]string{path}))(t)
		assert.Equal(t, string(require.Value(r.Apply(e))(t).Data()), want, path)
	}
}
