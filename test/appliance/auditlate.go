package appliance

import "slices"

// heldEntry is an entry of the audit log that is not visible yet.
type heldEntry struct {
	*AuditEntry
	until int64 // the id of the entry after which it is
}

// HoldAudit gives an id to a new entry that becomes visible after n further ones, in its
// place among them.
func (a *Appliance) HoldAudit(n int) AuditEntry {
	a.audit.Lock()
	defer a.audit.Unlock()
	l := &a.audit
	e := a.log(l.activity())
	l.entries, l.history = l.entries[:len(l.entries)-1], l.history[:max(0, len(l.history)-1)]
	l.held = append(l.held, heldEntry{e, e.ID + int64(n)})
	return *e
}

// SwapAudit adds two entries, which are shown in the other order than that of their ids.
func (a *Appliance) SwapAudit() {
	a.audit.Lock()
	defer a.audit.Unlock()
	l := &a.audit
	a.log(l.activity())
	a.log(l.activity())
	if n := len(l.entries); n > 1 {
		l.entries[n-2], l.entries[n-1] = l.entries[n-1], l.entries[n-2]
	}
}

// reveal makes the held entries visible that are due. The log must be locked.
func (l *auditLog) reveal(history bool) {
	l.held = slices.DeleteFunc(l.held, func(h heldEntry) bool {
		if h.until >= l.nextID {
			return false
		}
		at := len(l.entries)
		for at > 0 && l.entries[at-1].ID > h.ID {
			at--
		}
		l.entries = slices.Insert(l.entries, at, h.AuditEntry)
		if history {
			l.history = append(l.history, h.AuditEntry)
		}
		return true
	})
}
