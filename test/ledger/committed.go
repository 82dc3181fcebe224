package ledger

import "ndrbridge/transform"

// Commit records events that the bridge's journal held. From then on each sink
// owes them, those in between two versions and those that the bridge tells of
// itself, too.
func (l *Ledger) Commit(events ...transform.Event) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, e := range events {
		l.committed[identity{e.Source, e.ID}] = struct{}{}
	}
}

// Committed counts what Commit was called with, each event once.
func (l *Ledger) Committed() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.committed)
}

// MissingCommitted returns how many committed events did not reach a sink, and
// the source and id of one.
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

// JudgeCommitted compares what a sink received with what was committed: nothing
// of it is missing.
func (l *Ledger) JudgeCommitted(sink string) Verdict {
	missing, example := l.MissingCommitted(sink)
	verdict := Verdict{Delivered: l.Committed() - missing}
	if missing > 0 {
		verdict.fault("%d events were committed and did not arrive; one is %s", missing, example)
	}
	return verdict
}
