package appliance_test

import (
	"bytes"
	"encoding/json"
	"net/http"
	"slices"
	"testing"
	"time"
	"unicode/utf8"

	standin "ndrbridge/test/appliance"
	"ndrbridge/test/assert"
	"ndrbridge/test/require"
)

func TestModel(t *testing.T) {
	t.Run("an added detection gets what is missing", func(t *testing.T) {
		a := standin.New(standin.Options{Now: still})
		v := a.Add(standin.Detection{Title: "x"})[0]
		assert.True(t, v.ID != 0 && v.ModTime == now && v.StartTime == now && v.UpdateTime == now && v.CreateTime == now, "it", v)
		other := a.Add(standin.Detection{})[0]
		assert.True(t, other.ID != v.ID, "an id was given twice")
	})
	t.Run("an update has a new mod_time", func(t *testing.T) {
		a := standin.New(standin.Options{Now: still})
		v := a.AddLate(time.Minute)
		require.NoError(t, a.Update(func(d *standin.Detection) { d.Title = "new" }, v.ID))
		got := a.Latest()[0]
		assert.True(t, got.Title == "new" && got.ModTime == now && v.ModTime == now-minute, v, "became", got)
	})
	t.Run("an update can choose its mod_time", func(t *testing.T) {
		a := standin.New(standin.Options{Now: still})
		v := a.AddMany(1)[0]
		require.NoError(t, a.Update(func(d *standin.Detection) { d.ModTime = 5 }, v.ID))
		assert.Equal(t, a.Latest()[0].ModTime, 5, "it is")
	})
	t.Run("an edit keeps the mod_time", func(t *testing.T) {
		a := standin.New(standin.Options{Now: still})
		v := a.AddLate(time.Minute)
		require.NoError(t, a.Edit(func(d *standin.Detection) { d.Title, d.ModTime = "new", 5 }, v.ID))
		got := a.Latest()[0]
		assert.True(t, got.Title == "new" && got.ModTime == v.ModTime, v, "became", got)
	})
	t.Run("an update of many ties them", func(t *testing.T) {
		a := standin.New(standin.Options{}) // the clock goes on
		var ids []int64
		for _, v := range a.AddBacklog(100, time.Hour) {
			ids = append(ids, v.ID)
		}
		require.NoError(t, a.Update(func(d *standin.Detection) { d.Status = "closed" }, ids...))
		latest := a.Latest()
		assert.Equal(t, latest[0].ModTime, latest[99].ModTime, "from", "to")
	})
	t.Run("an update of a version that is not visible changes nothing", func(t *testing.T) {
		a := standin.New(standin.Options{Now: still})
		v := a.AddMany(1)[0]
		assert.Error(t, a.Update(func(d *standin.Detection) { d.Title = "new" }, v.ID, 999), "there is no error")
		assert.Equal(t, len(a.History()), 1, "versions in the history")
	})
	t.Run("the history keeps versions in their order", func(t *testing.T) {
		a := standin.New(standin.Options{Now: still})
		v := a.AddMany(1)[0]
		for _, title := range []string{"b", "c"} {
			require.NoError(t, a.Edit(func(d *standin.Detection) { d.Title = title }, v.ID))
		}
		var titles []string
		for _, v := range a.History() {
			titles = append(titles, v.Title)
		}
		assert.EqualSlices(t, titles, []string{v.Title, "b", "c"}, "the titles were")
	})
	t.Run("what is hidden is gone but for its history", func(t *testing.T) {
		a, c := serve(t, standin.Options{})
		versions := a.AddMany(3)
		a.Hide(versions[0].ID, 999)
		if len(a.Latest()) != 2 || a.Len() != 2 || len(a.History()) != 3 {
			t.Errorf("visible %d, ever %d", a.Len(), len(a.History()))
		}
		got := c.search(`{}`)
		assert.True(t, !slices.Contains(got, versions[0].ID) && len(got) == 2, "found", got)
		assert.NoError(t, a.Update(func(*standin.Detection) {}, versions[2].ID))
	})
	t.Run("late and future ones have their mod_time and are visible", func(t *testing.T) {
		a, c := serve(t, standin.Options{})
		late, future := a.AddLate(time.Hour), a.AddFuture(time.Hour)
		assert.Equal(t, late.ModTime, now-60*minute, "they are")
		assert.Equal(t, future.ModTime, now+60*minute)
		wantIDs(t, c.search(sorted("mod_time", "asc", "id", "asc")), late.ID, future.ID)
	})
	t.Run("a huge one is huge", func(t *testing.T) {
		a, c := serve(t, standin.Options{})
		v := a.AddHuge(1 << 20)
		got := c.want(http.StatusOK, "POST", "/detections/search", `{}`)
		assert.True(t, len(v.JSON) >= 1<<20, "it has", len(v.JSON), "bytes")
		assert.Equal(t, len(got.body), len(v.JSON)+2, "it has", "the answer")
	})
	t.Run("bytes that are not UTF-8 are sent as they are, after updates too", func(t *testing.T) {
		a, c := serve(t, standin.Options{})
		v := a.AddInvalidUTF8()
		for range 2 {
			body := c.want(http.StatusOK, "POST", "/detections/search", `{}`).body
			assert.False(t, utf8.ValidString(body), "the answer is", body)
			assert.True(t, json.Valid([]byte(body)), "the answer is", body)
			require.NoError(t, a.Update(func(d *standin.Detection) { d.Status = "new" }, v.ID))
		}
	})
	t.Run("a version has the fields of its JSON", func(t *testing.T) {
		a := standin.New(standin.Options{Now: still, Seed: 4})
		for _, v := range a.AddBacklog(100, time.Hour) {
			d := v.Detection()
			again, err := json.Marshal(map[string]any{
				"id": d.ID, "mod_time": d.ModTime, "end_time": d.EndTime, "title": d.Title, "status": d.Status.String(), "ticket_id": d.TicketID.ID,
			})
			require.NoError(t, err)
			want, err := json.Marshal(map[string]any{
				"id": v.ID, "mod_time": v.ModTime, "end_time": v.EndTime, "title": v.Title, "status": v.Status, "ticket_id": v.TicketID,
			})
			assert.NoError(t, err, string(again), string(want))
			assert.True(t, bytes.Equal(again, want), string(again), string(want))
		}
	})
	t.Run("nothing is kept without a history", func(t *testing.T) {
		a := standin.New(standin.Options{NoHistory: true})
		a.AddMany(3)
		if len(a.History()) != 0 || a.Len() != 3 {
			t.Errorf("the history holds %d versions", len(a.History()))
		}
	})
}

func TestOnRequestComesBeforeTheAnswer(t *testing.T) {
	a, c := serve(t, standin.Options{})
	a.OnRequest(func(*http.Request) { a.AddMany(1) })
	for want := 1; want <= 3; want++ {
		assert.Equal(t, len(c.search(`{}`)), want, "found")
	}
	a.OnRequest(nil)
	assert.Equal(t, len(c.search(`{}`)), 3, "found")
}

func TestGeneratedDetections(t *testing.T) {
	const n, size = 250, 2000
	a := standin.New(standin.Options{Now: still, Seed: 11, Size: size})
	var bytesOfAll, perf, above32, numeric, open, null, custom, ongoing int
	types := make(map[string]bool)
	for _, v := range a.AddMany(n) {
		d := v.Detection()
		types[v.Type] = true
		bytesOfAll += len(v.JSON)
		if d.RiskScore == nil {
			perf++
			assert.True(t, slices.Contains(v.Categories, "perf"), v.Type, "has no risk_score")
		}
		if v.ID > 1<<32 {
			above32++
		}
		if d.TicketID.Numeric {
			numeric++
		}
		switch v.Status {
		case "open":
			open++
		case "":
			null++
		}
		if d.IsUserCreated {
			custom++
		}
		if v.EndTime == 0 {
			ongoing++
		}
		assert.True(t, v.StartTime <= v.UpdateTime && v.UpdateTime <= v.ModTime && v.CreateTime <= v.ModTime, "the times of", v.ID, "are out of order", v)
	}
	average := bytesOfAll / n
	assert.True(t, average >= size*8/10 && average <= size*12/10, "a detection", average, "bytes")
	for name, count := range map[string]int{
		"performance": perf, "ids past 32 bits": above32, "numeric tickets": numeric, "open": open,
		"no status": null, "custom": custom, "ongoing": ongoing,
	} {
		assert.True(t, count != 0 && count != n, name, count, n)
	}
	assert.True(t, len(types) >= 15, "there are", len(types), "types")
}
