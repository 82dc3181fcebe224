package ledger

import "ndrbridge/transform"

// Commit records events of the bridge's journal. Every sink must receive them, including
// intermediate versions and the bridge's own events. It returns the number of events whose source
// and id it had recorded before.
func (l *Ledger) Commit(events ...transform.Event) (again int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, e := range events {
		event := identity{e.Source, e.ID}
		if _, there := l.committed[event]; there {
			again++
		}
		l.committed[event] = struct{}{}
	}
	return again
}

// Committed counts the distinct events passed to Commit.
func (l *Ledger) Committed() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.committed)
}

// MissingCommitted returns the number of committed events that did not reach a sink, and the
// source and id of one.
func (l *Ledger) MissingCommitted(sink string) (n int, example string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for event := range l.committed {
		if _, there := l.ids[sink][event]; !there {
			n, example = n+1, event.source+" "+event.id
		}
	}
	return n, example
}

// JudgeCommitted checks that a sink received every committed event.
func (l *Ledger) JudgeCommitted(sink string) Verdict {
	missing, example := l.MissingCommitted(sink)
	verdict := Verdict{Delivered: l.Committed() - missing}
	if missing > 0 {
		verdict.fault("%d events were committed and did not arrive; one is %s", missing, example)
	}
	return verdict
}

// Has reports whether events have reached a sink.
func (l *Ledger) Has(sink string, events ...transform.Event) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, e := range events {
		if _, there := l.ids[sink][identity{e.Source, e.ID}]; !there {
			return false
		}
	}
	return true
}
