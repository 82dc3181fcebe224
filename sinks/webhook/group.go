package webhook

import (
	"context"

	"ndrbridge/internal/failure"
	"ndrbridge/transform"
)

// sendGroups sends the events group by group in the order of their first
// events. If a group fails other than by rejections, the groups behind it are not tried.
func (s *Sink) sendGroups(ctx context.Context, events []transform.Event, group func(transform.Event) string) error {
	parts := groups(events, group)
	if len(parts) == 1 {
		return s.sendParts(ctx, events, s.sendSequentially)
	}
	errs := make([]error, len(parts))
	for i, p := range parts {
		err := s.sendParts(ctx, p.events, s.sendSequentially)
		if errs[i] = err; rank(err) <= rejected {
			continue
		}
		if each, ok := err.(failure.EventErrors); ok {
			err = mostSevere(each)
		}
		if rank(err) < throttled {
			err = failure.ErrNotTried
		}
		for behind := i + 1; behind < len(parts); behind++ {
			errs[behind] = err
		}
		break
	}
	return join(parts, errs, len(events))
}

// groups divides the events by their groups, each in order.
func groups(events []transform.Event, group func(transform.Event) string) []part {
	var parts []part
	indexes := make(map[string]int)
	for i, e := range events {
		name := group(e)
		n, found := indexes[name]
		if !found {
			n = len(parts)
			indexes[name] = n
			parts = append(parts, part{})
		}
		p := &parts[n]
		p.events, p.indexes = append(p.events, e), append(p.indexes, i)
	}
	return parts
}
