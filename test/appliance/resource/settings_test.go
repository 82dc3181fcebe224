package resource

import (
	"sync"
	"testing"

	"ndrbridge/test/appliance/openapi"
	"ndrbridge/test/appliance/rest"
	"ndrbridge/test/require"
)

func TestSettingsThatAreChangedAtOnceAreAllChanged(t *testing.T) {
	d := require.Value(openapi.Load("service"))(t)
	s := NewSettings("/service/services", Object{})
	patch := s.Handlers(d)["PATCH /service/services"]
	var clients sync.WaitGroup
	for _, field := range []string{"shell", "snmp"} {
		clients.Go(func() {
			for i := range 5000 {
				patch(&rest.Request{Operation: &openapi.Operation{}, Value: Object{field: i}})
				if got := s.Value()[field]; got != i {
					t.Errorf("%s is %v, want %d", field, got, i)
					return
				}
			}
		})
	}
	clients.Wait()
}
