package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"path"
	"strconv"
	"sync"
	"time"

	"ndrbridge/internal/appliance"
	"ndrbridge/internal/jsonscan"
	standin "ndrbridge/test/appliance"
	"ndrbridge/test/process"
	"ndrbridge/transform"
)

// followUpsRow is a drain of detections with all follow-ups, compared with the same without.
type followUpsRow struct {
	Events  int     `json:"events"`
	With    sideRow `json:"with"`
	Without sideRow `json:"without"`
	// Cost is the median CPU time with follow-ups, divided by that without.
	Cost float64 `json:"cpu_by_without"`
	// Types counts the other events of the last run until there are some about detections, by type.
	Types map[string]int `json:"events_besides"`
}

// What the appliance has for the follow-ups.
const (
	followUpNotes   = 1000
	followUpRecords = 100_000
	followUpTagged  = 100 // devices
)

// followUps runs a drain with all follow-ups and without any, in turn.
func (b *bench) followUps(ctx context.Context, r *report) (err error) {
	url, stop, err := b.startAppliance(ctx, b.events, 24*time.Hour, "--record-backlog", strconv.Itoa(followUpRecords))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, stop()) }()
	if err := populate(ctx, url); err != nil {
		return fmt.Errorf("populate the appliance: %w", err)
	}
	row := &followUpsRow{Events: b.events}
	sides := map[bool][]figures{}
	for n := range b.runs {
		for _, with := range []bool{false, true} {
			title := "without follow-ups"
			if with {
				title = "with all follow-ups"
			}
			b.say("a drain %s: run %d of %d", title, n+1, b.runs)
			if err := b.run(ctx, patience, func(ctx context.Context, dir string) error {
				f, types, err := b.drainVersions(ctx, url, dir, with)
				if err != nil {
					return err
				}
				sides[with] = append(sides[with], f)
				b.say("%.1f s, %.2f s of CPU, and %v", f.Seconds, f.CPU, types)
				if with {
					row.Types = types
				}
				return nil
			}); err != nil {
				return err
			}
		}
	}
	row.With, row.Without = sideOf(b.events, sides[true]), sideOf(b.events, sides[false])
	row.Cost = ratio(row.With.CPU, row.Without.CPU)
	r.FollowUps = row
	return nil
}

// populate gives an appliance what follow-ups read.
func populate(ctx context.Context, url string) error {
	c, err := appliance.New(appliance.Options{URL: url, Key: func() (string, error) { return standin.DefaultAPIKey, nil }})
	if err != nil {
		return err
	}
	defer c.Close()
	var page appliance.Page
	if err := c.SearchDetections(ctx, appliance.Search{ModTime: 1, Limit: followUpNotes, Newest: true}, &page); err != nil {
		return err
	}
	send := func(method, to string, body any) (location string, err error) {
		text, err := json.Marshal(body)
		if err != nil {
			return "", err
		}
		r, err := http.NewRequestWithContext(ctx, method, url+"/api/v1"+to, bytes.NewReader(text))
		if err != nil {
			return "", err
		}
		r.Header.Set("Authorization", "Service apikey="+standin.DefaultAPIKey)
		r.Header.Set("Content-Type", "application/json")
		answer, err := http.DefaultClient.Do(r)
		if err != nil {
			return "", err
		}
		said, err := io.ReadAll(answer.Body)
		if err := errors.Join(err, answer.Body.Close()); err != nil {
			return "", err
		}
		if answer.StatusCode/100 != 2 {
			return "", fmt.Errorf("%s %s: %s: %s", method, to, answer.Status, said)
		}
		return answer.Header.Get("Location"), nil
	}
	type object = map[string]any
	for _, o := range page.Objects {
		id, err := jsonscan.Integer(jsonscan.At(o.Raw, "id"))
		if err != nil {
			return err
		}
		if _, err := send(http.MethodPut, fmt.Sprintf("/detections/%d/notes", id), object{"note": fmt.Sprintf("Detection %d was looked at.", id)}); err != nil {
			return err
		}
	}
	for _, name := range []string{"crown jewels", "laboratory"} {
		tag, err := send(http.MethodPost, "/tags", object{"name": name})
		if err != nil {
			return err
		}
		for device := range followUpTagged {
			if _, err := send(http.MethodPost, fmt.Sprintf("/devices/%d/tags/%s", device+1, path.Base(tag)), nil); err != nil {
				return err
			}
		}
		if _, err := send(http.MethodPost, "/devicegroups", object{"name": name, "filter": object{"field": "role", "operator": "=", "operand": "printer"}}); err != nil {
			return err
		}
	}
	return nil
}

// drainVersions runs the bridge until every version is delivered, and counts its CPU time until
// then. With follow-ups it goes on until there are events of those about detections.
func (b *bench) drainVersions(ctx context.Context, url, dir string, with bool) (f figures, types map[string]int, err error) {
	received := &receivedTypes{versions: b.events, whole: make(chan struct{}), types: make(map[string]int)}
	hook := httptest.NewServer(received)
	defer hook.Close()
	reconcile := map[string]any{"every": "5s"}
	hq := applianceAt(url, map[string]any{"reconcile": reconcile})
	delete(hq, "rate_limit") // at the default the drain is long enough for the follow-ups
	if with {
		reconcile["report"] = []string{"hidden", "gone", "shown"}
		maps.Copy(hq, allFollowUps)
	}
	began := time.Now()
	s, err := b.startBridge(ctx, dir, configuration(dir, []map[string]any{webhookBatch(batch).sink(hook.URL)}, hq))
	if err != nil {
		return f, nil, err
	}
	select {
	case <-received.whole:
		f.Seconds, f.CPU = time.Since(began).Seconds(), process.CPU(s.cmd.Process.Pid).Seconds()
	case <-s.ended:
		err = s.failure(errors.New("the bridge ended"))
	case <-ctx.Done():
		err = s.failure(ctx.Err())
	}
	if err == nil && with {
		// Nothing of this is measured: it shows that the follow-ups were at work.
		err = s.until(ctx, askEvery, func() (bool, error) {
			have := received.others()
			return have["detection.noted"] > 0 && have["detection.context"] > 0 && have["detection.evidence"] > 0, nil
		})
	}
	types = received.others()
	_, m, stopErr := s.stop()
	f.Anon, f.Resident = m.anon, m.resident
	return f, types, errors.Join(err, stopErr)
}

// allFollowUps turns on all follow-ups that are not options of the detections.
var allFollowUps = map[string]any{
	"notes":       map[string]any{"in": true, "interval": "1s"},
	"context":     map[string]any{"devices": true, "tags": true, "groups": true},
	"evidence":    map[string]any{"match": "detection.risk_score >= 80", "after": "0s", "related": true, "per_hour": 10_000},
	"rules":       map[string]any{"enabled": true},
	"blind_spots": map[string]any{"exclusion_intervals": true, "alerts": true, "record_ingest": true},
}

// receivedTypes counts the events that a webhook receives, by type.
type receivedTypes struct {
	versions int           // how many are expected
	whole    chan struct{} // closed when all are received

	mu    sync.Mutex
	seen  int
	types map[string]int // of others
}

// ServeHTTP implements http.Handler.
func (c *receivedTypes) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	w.WriteHeader(http.StatusNoContent)
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, rest := range bytes.Split(body, []byte(`"type":"`+transform.TypePrefix))[1:] {
		kind, _, _ := bytes.Cut(rest, []byte{'"'})
		switch string(kind) {
		case "detection.created", "detection.updated":
			if c.seen++; c.seen == c.versions {
				close(c.whole)
			}
		default:
			c.types[string(kind)]++
		}
	}
}

func (c *receivedTypes) others() map[string]int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return maps.Clone(c.types)
}
