package rest_test

import (
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"ndrbridge/test/appliance/rest"
	"ndrbridge/test/require"
)

func TestIntegers(t *testing.T) {
	for text, want := range map[string]string{
		`7.0`:                       `7`,
		`-1e3`:                      `-1000`,
		`{"a":[1.5,2.0,{"b":3E0}]}`: `{"a":[1.5,2,{"b":3}]}`,
		`[7,1.5,"2.0",null,true,1e300,9007199254740993.0,0.0000001]`: `[7,1.5,"2.0",null,true,1e300,9007199254740993.0,0.0000001]`,
	} {
		value, err := jsonschema.UnmarshalJSON(strings.NewReader(text))
		require.NoError(t, err)
		integers, modified := rest.Integers(value)
		if modified != (text != want) {
			t.Errorf("whether %s is modified is %v", text, modified)
		}
		if got, err := rest.Encode(integers); err != nil || string(got) != want {
			t.Errorf("%s becomes %s, %v; want %s", text, got, err, want)
		}
	}
}
