package pipeline

import (
	"bytes"
	"log/slog"
	"path/filepath"
	"strings"
	"testing"

	"ndrbridge/checkpoint"
	"ndrbridge/internal/appliance"
)

func TestAnApplianceIsReplacedIfTwoOfItsFactsChange(t *testing.T) {
	var (
		first   = appliance.System{Hostname: "a.example", MgmtIPAddr: "192.0.2.1", Platform: "sensor"}
		second  = appliance.System{Hostname: "b.example", MgmtIPAddr: "192.0.2.2", Platform: "sensor"}
		renamed = appliance.System{Hostname: "b.example", MgmtIPAddr: "192.0.2.1", Platform: "sensor"}
	)
	for name, test := range map[string]struct {
		answers  []appliance.System
		replaced bool
		warned   bool
	}{
		"the same answer again":                       {[]appliance.System{first, first}, false, false},
		"two other facts":                             {[]appliance.System{first, second}, true, false},
		"another name":                                {[]appliance.System{first, renamed}, false, true},
		"an answer without any fact":                  {[]appliance.System{first, {}, first}, false, false},
		"two other facts after an answer without any": {[]appliance.System{first, {}, second}, true, false},
		"two other facts after an answer with one":    {[]appliance.System{first, {Platform: "sensor"}, second}, true, false},
		"an answer with another of the host's names":  {[]appliance.System{first, {DisplayHost: "Sensor A"}, first}, false, false},
		"two other facts, one of them another of its names": {[]appliance.System{
			{Hostname: "a.example", ExternalHostname: "a.out", MgmtIPAddr: "192.0.2.1"},
			{ExternalHostname: "b.out", MgmtIPAddr: "192.0.2.2"},
		}, true, false},
		"a hostname after an answer with the display name alone": {[]appliance.System{
			{DisplayHost: "Sensor A", MgmtIPAddr: "192.0.2.1"}, {Hostname: "a.example", MgmtIPAddr: "192.0.2.1"},
		}, false, false},
		"a first answer that lacks what the next has":  {[]appliance.System{{Platform: "sensor"}, first}, false, false},
		"an address that changes after one without it": {[]appliance.System{first, {Hostname: "a.example"}, {Hostname: "a.example", MgmtIPAddr: "192.0.2.2"}}, false, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			store, err := checkpoint.Open(filepath.Join(t.TempDir(), "state.db"), checkpoint.Options{})
			if err != nil {
				t.Fatal(err)
			}
			defer store.Close()
			var log bytes.Buffer
			d := newIdentityDetector("hq", store, slog.New(slog.NewTextHandler(&log, nil)))
			for _, is := range test.answers {
				if err := d.observe(t.Context(), is); err != nil {
					t.Fatal(err)
				}
			}
			known, _, err := ReadIdentity(t.Context(), store, "hq")
			if err != nil {
				t.Fatal(err)
			}
			if (known.Replaced != nil) != test.replaced || strings.Contains(log.String(), renamedMessage) != test.warned {
				t.Errorf("replaced: %+v, want %v; want a warning: %v\n%s", known.Replaced, test.replaced, test.warned, &log)
			}
		})
	}
}
