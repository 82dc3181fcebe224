package appliance_test

import (
	"testing"

	standin "ndrbridge/test/appliance"
)

func TestNotes(t *testing.T) {
	const path = "/detections/7/notes"
	setUp := func(t *testing.T) (*standin.Appliance, *caller) {
		a, c := serve(t, standin.Options{})
		a.Add(standin.Detection{ID: 7, ModTime: now - minute})
		return a, c
	}
	t.Run("one is written, replaced and deleted, and leaves mod_time as it is", func(t *testing.T) {
		a, c := setUp(t)
		c.want(404, "GET", path, "")
		c.want(204, "PUT", path, `{"note":"seen"}`)
		if got := c.want(200, "GET", path, "").body; got != `{"author":"api","note":"seen","update_time":1772600767890}` {
			t.Errorf("it is %s", got)
		}
		c.want(204, "PUT", path, `{"note":"seen again","author":"ana","update_time":5}`)
		if got := c.want(200, "GET", path, "").body; got != `{"author":"ana","note":"seen again","update_time":5}` {
			t.Errorf("it is %s", got)
		}
		c.want(204, "DELETE", path, "")
		c.want(404, "GET", path, "")
		c.want(404, "DELETE", path, "")
		if got := a.Latest()[0].ModTime; got != now-minute || len(a.History()) != 1 {
			t.Errorf("the detection changed, at %d", got)
		}
	})
	t.Run("it goes with its detection", func(t *testing.T) {
		a, c := setUp(t)
		c.want(204, "PUT", path, `{"note":"seen"}`)
		a.Hide(7)
		a.Add(standin.Detection{ID: 7})
		c.want(404, "GET", path, "")
	})
	t.Run("without ticket tracking there is none", func(t *testing.T) {
		a, c := setUp(t)
		c.want(204, "PUT", path, `{"note":"seen"}`)
		a.SetTicketing(false)
		c.want(422, "GET", path, "")
		c.want(422, "PUT", path, `{"note":"x"}`)
		c.want(422, "DELETE", path, "")
		a.SetTicketing(true)
		c.want(200, "GET", path, "")
	})
}
