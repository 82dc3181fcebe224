package admin_test

import (
	"errors"
	"fmt"
	"net/http"
	"testing"

	"ndrbridge/internal/admin"
	"ndrbridge/test/assert"
	"ndrbridge/test/require"
)

// change records what the bridge is to change.
func (c *control) change(what string) error {
	c.changes = append(c.changes, what)
	return c.err
}

func TestClientMaintenance(t *testing.T) {
	c := newControl(t)
	client, server := serve(t, c)
	all := func() error {
		return errors.Join(admin.API.ForgetSink.Do(t.Context(), client, admin.OfSink{Sink: "lake"}), admin.API.RenameSink.Do(t.Context(), client, admin.RenameRequest{OfSink: admin.OfSink{Sink: "lake"}, To: "sea"}),
			admin.API.ForgetAppliance.Do(t.Context(), client, admin.ForgetRequest{Appliance: "hq"}), admin.API.ForgetAppliance.Do(t.Context(), client, admin.ForgetRequest{Appliance: "hq", Identity: true}))
	}
	require.NoError(t, all())
	assert.EqualSlices(t, c.changes, []string{"forget lake", "rename lake to sea", "forget appliance hq", "forget identity hq"})
	c.err = fmt.Errorf("%w sink", admin.ErrUnknown)
	assert.ErrorIs(t, all(), admin.ErrUnknown)
	c.err = errors.New("the sink is configured")
	answer, body := request(t, "POST", server.URL+"/api/v1/sinks/lake/forget", "", token)
	checkProblem(t, answer, body, http.StatusConflict, "the sink is configured")
	answer, body = request(t, "POST", server.URL+"/api/v1/sinks/lake/rename", `{}`, token)
	checkProblem(t, answer, body, http.StatusBadRequest, "to is missing")
}
