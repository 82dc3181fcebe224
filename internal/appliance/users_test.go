package appliance

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"

	"ndrbridge/test/require"
)

func TestUsers(t *testing.T) {
	roles := func(pairs ...string) map[string]string {
		m := make(map[string]string)
		for i := 0; i < len(pairs); i += 2 {
			m[pairs[i]] = pairs[i+1]
		}
		return m
	}
	for name, test := range map[string]struct {
		body string
		want []User // nil: not known
	}{
		"one user": {
			`[{"username": "ana", "granted_roles": {"write": "full"}, "effective_roles": {"write": "limited", "ndr": "full"}}]`,
			[]User{{"ana", roles("write", "limited", "ndr", "full")}},
		},
		"a user with granted roles only": {`[{"username": "ana", "granted_roles": {"system": "full"}}]`, []User{{"ana", roles("system", "full")}}},
		"several users":                  {`[{"username": "ana"}, {"username": "bo", "effective_roles": {}}]`, []User{{"ana", nil}, {"bo", roles()}}},
		"levels that nobody knows": {
			`[{"username": "ana", "effective_roles": {"write": "most", "ndr": null, "npm": {"level": "full"}, "detections": "full", "packets": 1}}]`,
			[]User{{"ana", nil}},
		},
		"a name with control characters": {"[{\"username\": \"a\\u001b[31m\\nb\"}]", []User{{"a[31m b", nil}}},
		"a long name":                    {`[{"username": "` + strings.Repeat("x", 1000) + `"}]`, []User{{strings.Repeat("x", 255) + "…", nil}}},
		"no users":                       {`[]`, []User{}},
		"users without a name":           {`[{"username": "ana"}, {"id": 1}]`, nil},
		"an object":                      {`{"users": []}`, nil},
		"roles that are a list":          {`[{"username": "ana", "effective_roles": ["write"]}]`, nil},
		"null":                           {`null`, []User{}},
		"text":                           {`none`, nil},
	} {
		t.Run(name, func(t *testing.T) {
			c := newClient(t, answer(200, "application/json", test.body))
			users, known, err := c.Users(t.Context())
			if err != nil || known != (test.want != nil) || len(users) != len(test.want) {
				t.Fatalf("%+v, %t, %v, want %+v", users, known, err, test.want)
			}
			for i, user := range users {
				if user.Name != test.want[i].Name || !reflect.DeepEqual(user.Levels, test.want[i].Levels) {
					t.Errorf("%+v, want %+v", user, test.want[i])
				}
			}
		})
	}
	t.Run("a list without end is an error", func(t *testing.T) {
		c := newClient(t, answer(200, "application/json", `[{"username": "`+strings.Repeat("x", 2<<20)+`"}]`))
		if users, known, err := c.Users(t.Context()); err == nil || known || users != nil {
			t.Errorf("%d users, %t, %v", len(users), known, err)
		}
	})
}

func TestNamesOfTheApplianceNeverRepeatTheKey(t *testing.T) {
	key, err := json.Marshal(testKey)
	require.NoError(t, err)
	c := newClient(t, answer(200, "application/json", `[{"username": `+string(key)+`}]`))
	if users, _, err := c.Users(t.Context()); err != nil || len(users) != 1 || strings.Contains(users[0].Name, testKey) {
		t.Errorf("%+v, %v", users, err)
	}
	c = newClient(t, answer(200, "application/json", `{"edition": `+string(key)+`}`))
	if edition, err := c.Edition(t.Context()); err != nil || edition == "" || strings.Contains(edition, testKey) {
		t.Errorf("%q, %v", edition, err)
	}
}

func TestLevelsOfAPrivilege(t *testing.T) {
	for name, test := range map[string]struct {
		levels           map[string]string
		privilege, level string
		want             bool
	}{
		"the same level":                 {map[string]string{"write": "limited"}, "write", "limited", true},
		"a higher level":                 {map[string]string{"write": "full"}, "write", "limited", true},
		"a lower level":                  {map[string]string{"write": "personal"}, "write", "limited", false},
		"a module without access":        {map[string]string{"ndr": "none"}, "ndr", "full", false},
		"a privilege that is not there":  {map[string]string{"ndr": "full"}, "npm", "full", false},
		"what system privileges include": {map[string]string{"system": "full"}, "write", "full", true},
	} {
		t.Run(name, func(t *testing.T) {
			if (User{Levels: test.levels}).Has(test.privilege, test.level) != test.want {
				t.Errorf("%v: want %t", test.levels, test.want)
			}
		})
	}
}

func TestEdition(t *testing.T) {
	for name, test := range map[string]struct{ body, want string }{
		"an edition":      {`{"edition": "cloud"}`, "cloud"},
		"another shape":   {`{"edition": {"name": "cloud"}}`, ""},
		"an array":        {`[]`, ""},
		"an odd text":     {"{\"edition\": \"a\\u0007 \\nb\"}", "a b"},
		"nothing like it": {`{}`, ""},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := newClient(t, answer(200, "application/json", test.body)).Edition(t.Context())
			if err != nil || got != test.want {
				t.Errorf("%q, %v, want %q", got, err, test.want)
			}
		})
	}
}
