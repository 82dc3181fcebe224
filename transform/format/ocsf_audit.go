package format

import "ndrbridge/transform"

// ocsfAudit returns the classes of audit entries. The interface leaves open which
// operations there are; they are told apart by the words in them.
func ocsfAudit(o Options) []table {
	authentication := ocsfClass{
		uid: 3002, name: "Authentication", category: 3, categoryName: "Identity & Access Management",
		activities: map[int]string{1: "Logon", 2: "Logoff"}, stream: transform.StreamAudit,
		where: condition{source: "audit.body.operation", has: []string{
			"login", "logon", "log in", "log on", "logout", "logoff", "log out", "log off", "sign in", "signin", "sign out", "signout", "authenticat",
		}},
	}
	authenticationActivity := within(
		wordIn{"logout", choice{2, "Logoff"}}, wordIn{"logoff", choice{2, "Logoff"}}, wordIn{"log out", choice{2, "Logoff"}}, wordIn{"log off", choice{2, "Logoff"}},
		wordIn{"sign out", choice{2, "Logoff"}}, wordIn{"signout", choice{2, "Logoff"}}, wordIn{"*", choice{1, "Logon"}},
	)
	byComponent := ocsfClass{
		uid: 3001, name: "Account Change", category: 3, categoryName: "Identity & Access Management",
		activities: map[int]string{
			1: "Create", 2: "Enable", 3: "Password Change", 4: "Password Reset", 5: "Disable", 6: "Delete", 9: "Lock", 12: "Unlock",
		},
		stream: transform.StreamAudit,
		where:  condition{source: "audit.body.component", has: []string{"user", "account"}},
	}
	byOperation := byComponent
	byOperation.where = condition{source: "audit.body.operation", has: []string{"user", "account", "password"}}
	accountActivity := within(
		wordIn{"reset password", choice{4, "Password Reset"}}, wordIn{"password reset", choice{4, "Password Reset"}}, wordIn{"password", choice{3, "Password Change"}},
		wordIn{"create", choice{1, "Create"}},
		wordIn{"delete", choice{6, "Delete"}}, wordIn{"remove", choice{6, "Delete"}},
		wordIn{"enable", choice{2, "Enable"}}, wordIn{"disable", choice{5, "Disable"}},
		wordIn{"unlock", choice{12, "Unlock"}}, wordIn{"lock", choice{9, "Lock"}},
		wordIn{"address", choice{99, ""}}, wordIn{"add", choice{1, "Create"}}, wordIn{"unknown", choice{0, "Unknown"}}, wordIn{"*", choice{99, ""}},
	)
	api := ocsfClass{
		uid: 6003, name: "API Activity", category: 6, categoryName: "Application Activity",
		activities: map[int]string{1: "Create", 2: "Read", 3: "Update", 4: "Delete"}, stream: transform.StreamAudit,
	}
	apiActivity := beginnings(
		wordIn{"create", choice{1, "Create"}}, wordIn{"add", choice{1, "Create"}}, wordIn{"generate", choice{1, "Create"}},
		wordIn{"upload", choice{1, "Create"}}, wordIn{"import", choice{1, "Create"}},
		wordIn{"view", choice{2, "Read"}}, wordIn{"read", choice{2, "Read"}}, wordIn{"get", choice{2, "Read"}}, wordIn{"list", choice{2, "Read"}},
		wordIn{"download", choice{2, "Read"}}, wordIn{"export", choice{2, "Read"}},
		wordIn{"modify", choice{3, "Update"}}, wordIn{"update", choice{3, "Update"}}, wordIn{"change", choice{3, "Update"}}, wordIn{"edit", choice{3, "Update"}},
		wordIn{"enable", choice{3, "Update"}}, wordIn{"disable", choice{3, "Update"}}, wordIn{"assign", choice{3, "Update"}}, wordIn{"apply", choice{3, "Update"}},
		wordIn{"delete", choice{4, "Delete"}}, wordIn{"remove", choice{4, "Delete"}}, wordIn{"unknown", choice{0, "Unknown"}}, wordIn{"*", choice{99, ""}},
	)
	outcome := within(
		wordIn{"fail", choice{2, "Failure"}}, wordIn{"denied", choice{2, "Failure"}}, wordIn{"reject", choice{2, "Failure"}}, wordIn{"invalid", choice{2, "Failure"}},
		wordIn{"succe", choice{1, "Success"}}, wordIn{"unknown", choice{0, "Unknown"}},
	)
	common := append(siblings("status_id", "status", outcome, "audit.body.operation", "audit.body.details", "=unknown"), []row{
		{"message", from("audit.body.details", "audit.body.operation", "event.type"), text},
		{"metadata.event_code", from("audit.body.operation"), text},
		{"metadata.original_event_uid", from("audit.id", "event.subject"), text},
		{"metadata.original_time", from("audit.occur_time", "audit.time"), text},
		{"actor.user.name", from("audit.body.user", "=unknown"), userName},
		{"src_endpoint.ip!", from("audit.body.source_ip", "audit.body.ip"), address},
	}...)
	component := row{"service.name!", from("audit.body.component"), text}
	appliance := row{"dst_endpoint.name", from("event.appliance", "=unknown"), text}
	operation := from("audit.body.operation", "=unknown")
	return []table{
		authentication.table(o, authenticationActivity, operation, informational, common, []row{
			{"user.name", from("audit.body.user", "=unknown"), userName}, component, appliance,
		}),
		byComponent.table(o, accountActivity, operation, informational, common, []row{{"user.name", from("=unknown"), text}}),
		byOperation.table(o, accountActivity, operation, informational, common, []row{{"user.name", from("=unknown"), text}}),
		api.table(o, apiActivity, operation, informational, common, []row{
			{"api.operation", operation, text},
			{"api.service.name!", from("audit.body.component"), text},
			{"src_endpoint.name?", from("=unknown"), text}, appliance,
		}),
	}
}

// userName is the name of a user, or that of an object.
var userName = conversion{"text, or the `name` of an object", func(dst, value []byte) ([]byte, fit) {
	if value[0] != '{' {
		return text.append(dst, value)
	}
	return memberOf("name", text).append(dst, value)
}}
