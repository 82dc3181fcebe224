package webhookintake

import "ndrbridge/internal/commands"

// Jira returns the mapping of Jira's issue webhooks
// (https://developer.atlassian.com/cloud/jira/platform/webhooks/). The statuses of a
// workflow belong to three categories that every workflow has. The resolutions are
// the ones of a new site and some common ones; others are ignored, because an unknown
// resolution is no reason to keep a detection open.
func Jira() Mapping {
	return Mapping{
		Event:     "webhookEvent",
		Events:    []string{"jira:issue_created", "jira:issue_updated"},
		Actor:     []string{"user.accountId", "user.name", "user.emailAddress"},
		Changes:   "changelog.items",
		KeyHeader: "X-Atlassian-Webhook-Identifier", // unchanged when a webhook is repeated
		TicketID:  "issue.key",
		Status:    []string{"issue.fields.status.name", "issue.fields.status.statusCategory.key"},
		Statuses: map[string]string{
			"undefined": ignore, "new": "new", "indeterminate": "in_progress", "done": "closed",
		},
		Resolution: "issue.fields.resolution.name",
		Resolutions: map[string]string{
			"done": "action_taken", "fixed": "action_taken", "resolved": "action_taken",
			"won't do": "no_action_taken", "won't fix": "no_action_taken", "duplicate": "no_action_taken",
			"cannot reproduce": "no_action_taken", "known error": "no_action_taken", "declined": "no_action_taken",
			"rejected": "no_action_taken", "cancelled": "no_action_taken", "canceled": "no_action_taken",
			"false positive": "no_action_taken", Any: ignore,
		},
	}
}

// ServiceNow returns the mapping of a record of the table incident, sent by a REST
// message whose body uses the table's column names. The states belong to the
// incident life cycle: 1 new, 2 in progress, 3 on hold, 6 resolved, 7 closed, 8
// canceled. The close codes are from old and new instances; others are ignored.
func ServiceNow() Mapping {
	return Mapping{
		Event:    "operation",
		Events:   []string{"insert", "update"},
		Actor:    []string{"sys_updated_by"},
		Key:      []string{"sys_id", "sys_mod_count"},
		TicketID: "number",
		Status:   []string{"state"},
		Statuses: map[string]string{
			"1": "new", "2": "in_progress", "3": "in_progress", "6": "closed", "7": "closed", "8": "closed",
		},
		Resolution: "close_code",
		Resolutions: map[string]string{
			"solution provided": "action_taken", "workaround provided": "action_taken", "resolved by change": "action_taken",
			"resolved by problem": "action_taken", "resolved by request": "action_taken",
			"solved (permanently)": "action_taken", "solved (work around)": "action_taken", "solved remotely (permanently)": "action_taken",
			"no resolution provided": "no_action_taken", "not solved (not reproducible)": "no_action_taken",
			"not solved (too costly)": "no_action_taken", "resolved by caller": "no_action_taken",
			"closed/resolved by caller": "no_action_taken", "user error": "no_action_taken",
			"known error": "no_action_taken", "duplicate": "no_action_taken",
			Any: ignore,
		},
	}
}

// Generic returns the mapping of a body that has the fields of a command and the
// sender's account.
func Generic() Mapping {
	m := Mapping{
		Actor: []string{"account"}, KeyHeader: "Idempotency-Key",
		TicketID: "ticket_id", Appliance: "appliance", DetectionID: "detection_id", Assignee: "assignee",
		Status: []string{"status"}, Statuses: make(map[string]string),
		Resolution: "resolution", Resolutions: make(map[string]string),
	}
	for _, s := range commands.Statuses() {
		m.Statuses[s] = s
	}
	for _, r := range commands.Resolutions() {
		m.Resolutions[r] = r
	}
	return m
}
