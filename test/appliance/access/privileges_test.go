package access_test

import (
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"

	"ndrbridge/test/appliance/access"
	"ndrbridge/test/appliance/openapi"
	"ndrbridge/test/appliance/rest"
	"ndrbridge/test/assert"
	"ndrbridge/test/require"
)

// levels are the values of each privilege, the least first.
var levels = map[string][]string{
	"system": {"full"}, "write": {"personal", "limited", "full"}, "metrics": {"restricted", "full"},
	"ndr": {"none", "full"}, "npm": {"none", "full"}, "packets": {"slices_only", "full", "full_with_keys"},
}

// allowed reports whether a user with roles may call an operation, and the reason otherwise.
func allowed(o *openapi.Operation, roles map[string]string) (bool, string) {
	refused, ok := access.Check(o, rest.Caller{Name: "ada", Roles: roles})
	if ok {
		return true, ""
	}
	if refused.Status != http.StatusForbidden {
		return false, http.StatusText(refused.Status)
	}
	return false, string(refused.Parts[0])
}

func TestEveryOperationRequiresItsPrivileges(t *testing.T) {
	description := require.Value(openapi.Load("service"))(t)
	for _, o := range description.Operations {
		ok, reason := allowed(o, o.Privileges)
		assert.True(t, ok, o.Name, "with all that it requires", reason)
		for privilege, level := range o.Privileges {
			at := slices.Index(levels[privilege], level)
			if at < 0 {
				t.Errorf("%s requires %s: %s, which does not exist", o.Name, privilege, level)
				continue
			}
			above := maps.Clone(o.Privileges)
			above[privilege] = levels[privilege][len(levels[privilege])-1]
			ok, reason := allowed(o, above)
			assert.True(t, ok, o.Name, "with a higher level", reason)
			below := maps.Clone(o.Privileges)
			delete(below, privilege)
			if at > 0 {
				below[privilege] = levels[privilege][at-1]
			}
			ok, reason = allowed(o, below)
			assert.True(t, !ok && strings.Contains(reason, "the user ada lacks the privilege "+privilege+": "+level), o.Name, below, reason)
		}
	}
}

// Nothing is changed by users without privileges, except their own keys.
func TestUsersWithoutPrivilegesOnlyRead(t *testing.T) {
	description := require.Value(openapi.Load("service"))(t)
	var changes []string
	for _, o := range description.Operations {
		if ok, _ := allowed(o, nil); ok && o.Changes {
			changes = append(changes, o.Name)
		}
	}
	own := []string{"POST /users/{username}/apikeys", "DELETE /users/{username}/apikeys/{id}"}
	assert.EqualSlices(t, changes, own, "users without privileges may call")
}
