package format

import (
	"slices"

	"ndrbridge/transform"
)

// ecsAudit returns the tables of entries of the audit log, by what the entry is about.
func ecsAudit() []table {
	entry := func(name string, where condition, rows ...row) table {
		return table{name: name, stream: transform.StreamAudit, where: where, rows: slices.Concat(rows, ecsAuditEntry())}
	}
	const operation, component = "audit.body.operation", "audit.body.component"
	return []table{
		entry("audit: authentication", condition{source: operation, has: signWords},
			row{"event.category", from(`=#["authentication"]`), raw},
			row{"event.type", from(operation), signType},
			row{"event.outcome", from(operation + " + audit.body.details + audit.body.result"), signOutcome},
		),
		entry("audit: user", condition{source: component, has: []string{"user", "account", "privilege", "api access", "api key", "identity provider", "saml"}},
			row{"event.category", from(`=#["iam"]`), raw},
			row{"event.type", from(operation+" + "+component, "=#[]"), iamType},
		),
		entry("audit: configuration", condition{},
			row{"event.category", from(`=#["configuration"]`), raw},
			row{"event.type", from(operation, "=#[]"), configurationType},
		),
	}
}

// ecsAuditEntry are the rows of every entry.
func ecsAuditEntry() []row {
	const user, name, address4 = "audit.body.user", "audit.body.user.name", "audit.body.source_ip"
	return []row{
		{"event.kind", from("=event"), text},
		{"event.dataset", from("=ndrbridge.audit"), text},
		{"event.action", from("audit.body.operation", "event.action"), text},
		{"event.created", from("event.recordedtime"), timestamp},
		{"message", from("audit.body.details", "audit.body.operation", "audit.body", "event.type"), text},
		{"observer.type", from("=ids"), text},
		{"user.name", from(user, name), text},
		{"source.ip", from(address4, "audit.body.ip"), address},
		{"related.user", from(user + " + " + name), allOf(text)},
		{"related.ip", from(address4 + " + audit.body.ip"), allOf(address)},
		{"ndrbridge.audit.id", from("audit.id"), text},
		{"ndrbridge.audit.component", from("audit.body.component"), text},
		{"ndrbridge.audit.occur_time", from("audit.occur_time"), timestamp},
		{"ndrbridge.audit.logged_time", from("audit.time"), timestamp},
		{"ndrbridge.audit.body", from("audit.body"), flattened},
	}
}
