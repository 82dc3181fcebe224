package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	standin "ndrbridge/test/appliance"
	"ndrbridge/test/jira"
)

// story is what happens to the first ticket: a person comments on it, and its detection is closed
// and reopened at the appliance.
type story struct {
	appliance *standin.Appliance
	url       string // of the appliance
	jira      *jira.Server
	screen    *screen

	reached atomic.Int32 // the last of storySteps that has happened, from 1
}

const (
	storyteller = "ada"
	storyText   = "That is our new backup server."
)

// storySteps say what has happened.
var storySteps = []string{
	"the first ticket was opened", storyteller + "'s comment arrived in the detection's note",
	"the first ticket was commented and closed with its detection", "the first ticket was reopened with its detection",
}

// tell lets the story happen, until ctx is done.
func (s *story) tell(ctx context.Context) {
	look := time.NewTicker(200 * time.Millisecond)
	defer look.Stop()
	var key string
	var id int64
	for step := 0; step < len(storySteps); {
		select {
		case <-ctx.Done():
			return
		case <-look.C:
		}
		happened := false
		switch step {
		case 0:
			if key, id = s.first(); key != "" {
				happened = true
				s.jira.Comment(key, storyText, storyteller)
			}
		case 1:
			happened = strings.Contains(s.note(ctx, id), storyText)
		case 2:
			happened = s.moved(key, id, "closed", "no_action_taken", "Done")
		case 3:
			happened = s.moved(key, id, "new", standin.Null, "To Do")
		}
		if happened {
			step++
			s.reached.Store(int32(step))
			s.screen.line("(" + key + ") " + storySteps[step-1] + ".")
		}
	}
}

// first returns the key of the first issue, and its detection.
func (s *story) first() (key string, id int64) {
	issues := s.jira.Issues()
	if len(issues) == 0 {
		return "", 0
	}
	for _, label := range issues[0].Labels {
		if detection, ok := strings.CutPrefix(label, "ndrbridge-hq-"); ok {
			id, _ = strconv.ParseInt(detection, 10, 64) // of the bridge
		}
	}
	return issues[0].Key, id
}

// note returns the text of the detection's note; empty if it cannot be read now.
func (s *story) note(ctx context.Context, id int64) string {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, fmt.Sprintf("%s/api/v1/detections/%d/notes", s.url, id), nil)
	if err != nil {
		return ""
	}
	r.Header.Set("Authorization", "Service apikey="+standin.DefaultAPIKey)
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		return ""
	}
	defer answer.Body.Close()
	var n struct{ Note string }
	_ = json.NewDecoder(io.LimitReader(answer.Body, 1<<20)).Decode(&n)
	return n.Note
}

// moved gives the detection a status, and reports whether the issue has the one that belongs to it.
func (s *story) moved(key string, id int64, status, resolution standin.Text, want string) bool {
	for _, v := range s.appliance.Latest() {
		if v.ID == id && v.Status != string(status) { // others change it, too
			_ = s.appliance.Update(func(d *standin.Detection) { d.Status, d.Resolution = status, resolution }, id)
		}
	}
	for _, i := range s.jira.Issues() {
		if i.Key == key {
			return i.Status.Name == want
		}
	}
	return false
}

// missing returns what has not happened yet; empty if everything has, or nothing can: there is no
// ticket.
func (s *story) missing() string {
	key, _ := s.first()
	if reached := int(s.reached.Load()); key != "" && reached < len(storySteps) {
		return storySteps[reached]
	}
	return ""
}
