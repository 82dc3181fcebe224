package appliance

import (
	"context"
	"encoding/json"
	"net/http"
	"slices"
)

// privilegeLevels are the levels of each privilege that the interface documents, the
// least first.
var privilegeLevels = map[string][]string{
	"system":  {"full"},
	"write":   {"personal", "limited", "full"},
	"metrics": {"restricted", "full"},
	"ndr":     {"none", "full"},
	"npm":     {"none", "full"},
	"packets": {"slices_only", "full", "full_with_keys"},
}

// User is an account of the appliance.
type User struct {
	Name string
	// Levels has the level of each privilege of the user, as in "write" and "limited". A
	// privilege that the appliance did not report is absent, and so is one that the
	// interface does not document. It is nil if the appliance reported no privileges that
	// the interface documents, and empty if it reported that the user has none.
	Levels map[string]string
}

// Has reports whether the user has at least a level of a privilege. System and access
// administration privileges include all others.
func (u User) Has(privilege, level string) bool {
	levels := privilegeLevels[privilege]
	return u.Levels["system"] == "full" || slices.Index(levels, u.Levels[privilege]) >= slices.Index(levels, level)
}

// Users fetches the users that the credentials may list: without system and access
// administration privileges that may be their owner only. Each name is shortened to
// printable characters, and never contains the key or a token. known is false if the answer
// does not have the expected shape.
func (c *Client) Users(ctx context.Context) (users []User, known bool, err error) {
	var cred credential
	r := request{method: http.MethodGet, path: "/users", small: true, signedIn: &cred}
	err = c.fetch(ctx, r, func(body []byte) error {
		// The shape is documented only in part: a different one is not an error.
		var answer []struct {
			Username  *string
			Effective map[string]any `json:"effective_roles"`
			Granted   map[string]any `json:"granted_roles"`
		}
		if json.Unmarshal(body, &answer) != nil {
			return nil
		}
		for _, user := range answer {
			if user.Username == nil {
				return nil
			}
			roles := user.Effective
			if roles == nil {
				roles = user.Granted
			}
			users = append(users, User{Name: *user.Username, Levels: levelsOf(roles)})
		}
		known = true
		return nil
	})
	if !known || err != nil {
		return nil, false, err
	}
	for i := range users {
		users[i].Name = c.presentable(users[i].Name, cred)
	}
	return users, true, nil
}

// levelsOf returns the documented levels of documented privileges; nil: roles has only others.
func levelsOf(roles map[string]any) map[string]string {
	if roles == nil {
		return nil
	}
	levels := make(map[string]string)
	for privilege, known := range privilegeLevels {
		if level, ok := roles[privilege].(string); ok && slices.Contains(known, level) {
			levels[privilege] = level
		}
	}
	if len(levels) == 0 && len(roles) > 0 {
		return nil
	}
	return levels
}

// Edition fetches the name of the appliance's edition, shortened to printable characters.
// It is empty if the answer does not have the expected shape.
func (c *Client) Edition(ctx context.Context) (string, error) {
	var answer struct{ Edition string }
	var cred credential
	r := request{method: http.MethodGet, path: "/" + c.product + "/edition", small: true, signedIn: &cred}
	err := c.fetch(ctx, r, func(body []byte) error {
		if json.Unmarshal(body, &answer) != nil {
			answer.Edition = ""
		}
		return nil
	})
	return c.presentable(answer.Edition, cred), err
}

// presentable returns a text of the appliance as one short line of printable characters,
// without the secrets that a request was sent with.
func (c *Client) presentable(text string, sent credential) string {
	return shorten(c.link.secrets(sent.secrets...).Hide(printable(text)))
}
