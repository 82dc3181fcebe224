package access

import (
	"maps"
	"net/http"
	"slices"
	"strings"

	"ndrbridge/test/appliance/openapi"
	"ndrbridge/test/appliance/rest"
)

// levels are the values of each privilege, the least first.
var levels = map[string][]string{
	"system":  {"full"},
	"write":   {"personal", "limited", "full"},
	"metrics": {"restricted", "full"},
	"ndr":     {"none", "full"},
	"npm":     {"none", "full"},
	"packets": {"slices_only", "full", "full_with_keys"},
}

// Check returns the refusal of an operation to a caller who lacks privileges for it.
func Check(o *openapi.Operation, c rest.Caller) (refused rest.Answer, ok bool) {
	var lacks []string
	for privilege, level := range o.Privileges {
		if !has(c.Roles, privilege, level) {
			lacks = append(lacks, privilege+": "+level)
		}
	}
	if lacks == nil {
		return rest.Answer{}, true
	}
	slices.Sort(lacks)
	return forbidden(c, lacks...), false
}

// has reports whether roles contain at least a level of a privilege.
func has(roles map[string]string, privilege, level string) bool {
	return slices.Index(levels[privilege], roles[privilege]) >= slices.Index(levels[privilege], level)
}

func isAdministrator(roles map[string]string) bool { return has(roles, "system", "full") }

func forbidden(c rest.Caller, lacks ...string) rest.Answer {
	return rest.Refuse(http.StatusForbidden, "the user %s lacks the privilege %s", c.Name, strings.Join(lacks, ", "))
}

// everything is what a user with system privileges may do.
func everything() map[string]string {
	all := make(map[string]string, len(levels))
	for privilege, values := range levels {
		all[privilege] = values[len(values)-1]
	}
	return all
}

// effective returns the privileges of a user to whom some were granted.
func effective(granted map[string]any) map[string]string {
	if granted["system"] == "full" {
		return everything()
	}
	roles := make(map[string]string, len(granted))
	for privilege, level := range granted {
		roles[privilege], _ = level.(string)
	}
	return roles
}

// asObject returns roles as a field of an object.
func asObject(roles map[string]string) map[string]any {
	object := make(map[string]any, len(roles))
	for privilege, level := range maps.All(roles) {
		object[privilege] = level
	}
	return object
}
