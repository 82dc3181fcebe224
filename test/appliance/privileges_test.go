package appliance_test

import (
	"slices"
	"strconv"
	"strings"
	"testing"

	standin "ndrbridge/test/appliance"
)

func TestPrivileges(t *testing.T) {
	a, c := serve(t, standin.Options{})
	d := a.Generate()
	d.TicketID = standin.TicketID{ID: "T-1"}
	id := strconv.FormatInt(a.Add(d)[0].ID, 10)
	users := map[string]*caller{"admin": c}
	for name, roles := range map[string]string{
		"guest":    `{}`,
		"reader":   `{"ndr":"full"}`,
		"outsider": `{"ndr":"none","write":"full"}`,
		"analyst":  `{"ndr":"full","write":"limited"}`,
		"engineer": `{"ndr":"full","write":"full","metrics":"full","npm":"full"}`,
	} {
		users[name] = c.user(name, roles)
	}
	for name, test := range map[string]struct {
		method, path, body string
		status             int // for those who may
		users              string
	}{
		"the audit log is for everyone":          {"GET", "/auditlog", "", 200, "guest reader outsider analyst engineer admin"},
		"devices are for everyone":               {"POST", "/devices/search", `{"limit":1}`, 200, "guest reader outsider analyst engineer admin"},
		"detections are found with the module":   {"POST", "/detections/search", `{}`, 200, "reader analyst engineer admin"},
		"a detection is read with the module":    {"GET", "/detections/" + id, "", 200, "reader analyst engineer admin"},
		"detections are changed with few rights": {"PATCH", "/detections/" + id, `{"status":"acknowledged"}`, 204, "analyst engineer admin"},
		"tickets are changed with few rights":    {"PATCH", "/detections/tickets", `{"ticket_id":"T-1","status":"new"}`, 204, "analyst engineer admin"},
		"records need full write privileges":     {"POST", "/records/search", `{"from":"-1h"}`, 200, "outsider engineer admin"},
		"email groups need full write as well":   {"PATCH", "/emailgroups/9", `{}`, 404, "outsider engineer admin"},
		"dashboards need metrics":                {"GET", "/dashboards/~none", "", 404, "engineer admin"},
		"owning needs write privileges":          {"DELETE", "/activitymaps/9", "", 404, "outsider analyst engineer admin"},
		"formats need full write":                {"DELETE", "/detections/formats/none", "", 404, "engineer admin"},
		"activity needs metrics":                 {"GET", "/applications/9999/activity", "", 404, "engineer admin"},
		"custom devices are the system's":        {"DELETE", "/customdevices/9", "", 404, "admin"},
		"ticketing can be read by everyone":      {"GET", "/service/ticketing", "", 200, "guest reader outsider analyst engineer admin"},
		"ticketing is switched by the system's":  {"PATCH", "/service/ticketing", `{"enabled":true}`, 204, "admin"},
		"users are created by the system's":      {"POST", "/users", `{"username":"new"}`, 201, "admin"},
	} {
		t.Run(name, func(t *testing.T) {
			for user, caller := range users {
				status := 403
				if slices.Contains(strings.Fields(test.users), user) {
					status = test.status
				}
				caller.within(t).want(status, test.method, test.path, test.body)
			}
		})
	}
}
