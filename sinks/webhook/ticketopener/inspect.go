package ticketopener

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"ndrbridge/internal/finding"
	"ndrbridge/sinks/webhook"
)

// An inspector is a System that can be asked whether it has what following needs: rights of the
// account, and the states, transitions and people that are configured.
type inspector interface {
	inspect(ctx context.Context, c *webhook.Conversation, f *Follow) []finding.Finding
}

// inspection collects findings. Its requests change nothing.
type inspection struct {
	ctx   context.Context
	c     *webhook.Conversation
	found []finding.Finding
}

// add adds the finding of a step. If there is advice, it is not OK.
func (i *inspection) add(step string, result finding.Result, detail, advice string) {
	i.found = append(i.found, finding.Finding{Step: step, Result: result, Detail: i.c.Quote(detail), Advice: advice})
}

// ask sends a request and decodes the answer. If it cannot, that is the step's finding: not tried,
// because an account may follow tickets without the right to read what is asked.
func (i *inspection) ask(step string, r webhook.Request, answer any, advice string) bool {
	a, err := i.c.Do(i.ctx, r)
	if err != nil {
		i.add(step, finding.Untried, err.Error(), advice)
		return false
	}
	if f := a.Finding("", advice); f.Result != finding.OK {
		i.add(step, finding.Untried, f.Detail, f.Advice)
		return false
	}
	if err := json.Unmarshal(a.Body, answer); err != nil {
		i.add(step, finding.Untried, "the answer cannot be read: "+err.Error(), "check url")
		return false
	}
	return true
}

// get returns the request that reads an address.
func get(target *url.URL, query url.Values) webhook.Request {
	target.RawQuery = query.Encode()
	return webhook.Request{Method: http.MethodGet, URL: target}
}

// names adds the finding of configured names: what each is, if known knows it, or otherwise, which is
// finding.Warning if all may be incomplete, that all has none such.
func (i *inspection) names(step, key string, otherwise finding.Result, configured map[string]string, known func(string) string, all []string) {
	var is, missing []string
	there, correct := "there is no ", "correct "
	if otherwise == finding.Warning {
		there, correct = "there may be no ", "check "
	}
	for _, name := range slices.Sorted(maps.Keys(configured)) {
		if what := known(configured[name]); what != "" {
			is = append(is, name+": "+what)
		} else {
			missing = append(missing, fmt.Sprintf("%q (%s)", configured[name], name))
		}
	}
	switch {
	case len(missing) > 0:
		i.add(step, otherwise, there+strings.Join(missing, ", "), correct+key+i.c.Quote(oneOf(all)))
	case len(is) > 0:
		i.add(step, finding.OK, strings.Join(is, ", "), "")
	}
}

// rights adds the finding of the permissions that are wanted: that the account has them, or otherwise,
// which is finding.Warning if has may be wrong, which it lacks.
func (i *inspection) rights(otherwise finding.Result, wanted map[string]bool, has func(right string) bool) {
	var had, lacks []string
	for _, right := range slices.Sorted(maps.Keys(wanted)) {
		switch {
		case !wanted[right]:
		case has(right):
			had = append(had, right)
		default:
			lacks = append(lacks, right)
		}
	}
	detail := "the account lacks the permission "
	if otherwise == finding.Warning {
		detail = "the account may lack the permission "
	}
	switch {
	case len(lacks) > 0:
		i.add("rights", otherwise, detail+strings.Join(lacks, ", "), "grant it that, or leave out what needs it under follow")
	case len(had) > 0:
		i.add("rights", finding.OK, "the account has the permission "+strings.Join(had, ", "), "")
	}
}

func oneOf(all []string) string {
	if len(all) == 0 {
		return ""
	}
	return "; there are " + strings.Join(all, ", ")
}

// moves are the configured moves: what they lead to by their status.
func (f *Follow) moves() map[string]string {
	to := map[string]string{}
	for status, m := range f.States {
		to[status] = m.To
	}
	return to
}

// kept are the statuses that are configured to stay, by numbers.
func (f *Follow) kept() map[string]string {
	all := map[string]string{}
	for n, status := range f.KeepClosed {
		all[fmt.Sprintf("keep_closed[%d]", n)] = status
	}
	return all
}
