package resource

import (
	"net/http"
	"testing"

	"ndrbridge/test/appliance/openapi"
	"ndrbridge/test/appliance/rest"
	"ndrbridge/test/require"
)

func TestACollectionHoldsNoMoreThanItsKindAllows(t *testing.T) {
	d, err := openapi.Load("service")
	require.NoError(t, err)
	c := NewCollection(d, Kind{Path: "/tags", Name: "tag", Component: "Tag", Max: 2})
	create := c.Handlers()["POST /tags"]
	for i, want := range []int{http.StatusCreated, http.StatusCreated, http.StatusUnprocessableEntity} {
		r := &rest.Request{Operation: &openapi.Operation{}, Value: map[string]any{"name": "a"}}
		if got := create(r).Status; got != want {
			t.Errorf("object %d is answered with %d, want %d", i+1, got, want)
		}
	}
}
