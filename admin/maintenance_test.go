package admin_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"testing"

	"ndrbridge/admin"
)

// maintainer is a bridge that records what it is to change.
type maintainer struct {
	*control
	done []string
	err  error
}

func (m *maintainer) do(what string) error {
	m.done = append(m.done, what)
	return m.err
}

func (m *maintainer) Forget(_ context.Context, sink string) error { return m.do("forget " + sink) }

func (m *maintainer) Rename(_ context.Context, sink, to string) error {
	return m.do("rename " + sink + " to " + to)
}

func (m *maintainer) ForgetAppliance(_ context.Context, name string) error {
	return m.do("forget appliance " + name)
}

func (m *maintainer) ForgetIdentity(_ context.Context, name string) error {
	return m.do("forget identity " + name)
}

func TestClientMaintenance(t *testing.T) {
	m := &maintainer{control: newControl(t)}
	server := httptest.NewServer(admin.NewHandler(handler(m)))
	defer server.Close()
	client, err := admin.NewClient(server.URL, token)
	if err != nil {
		t.Fatal(err)
	}
	all := func() error {
		return errors.Join(client.Forget(t.Context(), "lake"), client.Rename(t.Context(), "lake", "sea"),
			client.ForgetAppliance(t.Context(), "hq"), client.ForgetIdentity(t.Context(), "hq"))
	}
	if err := all(); err != nil {
		t.Error(err)
	}
	if want := []string{"forget lake", "rename lake to sea", "forget appliance hq", "forget identity hq"}; !slices.Equal(m.done, want) {
		t.Errorf("%q, want %q", m.done, want)
	}
	m.err = fmt.Errorf("%w sink", admin.ErrUnknown)
	if err := all(); !errors.Is(err, admin.ErrUnknown) {
		t.Errorf("%v, want that it is unknown", err)
	}
	m.err = errors.New("the sink is configured")
	answer, body := request(t, "POST", server.URL+"/api/v1/sinks/lake/forget", "", token)
	checkProblem(t, answer, body, http.StatusConflict, "the sink is configured")
	answer, body = request(t, "POST", server.URL+"/api/v1/sinks/lake/rename", `{}`, token)
	checkProblem(t, answer, body, http.StatusBadRequest, "to is missing")
}

func TestAControlWithoutMaintenanceRefusesIt(t *testing.T) {
	_, server := serve(t, newControl(t))
	answer, body := request(t, "POST", server.URL+"/api/v1/sinks/lake/forget", "", token)
	checkProblem(t, answer, body, http.StatusNotFound, "cannot change what its state keeps")
}
