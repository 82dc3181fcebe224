package preflight

import (
	"slices"
	"testing"

	"ndrbridge/configs"
	"ndrbridge/internal/fixture"
	"ndrbridge/test/assert"
	"ndrbridge/test/require"
)

func TestSamplesAreOfTheFollowUpsThatAreConfigured(t *testing.T) {
	of := func(change func(*configs.Config, *configs.Appliance)) (names []string) {
		a, config := configs.Appliance{Name: "hq"}, new(configs.Config)
		a.Detections.Enabled = true
		change(config, &a)
		config.Appliances = []configs.Appliance{a}
		for _, spec := range everyKind(config) {
			require.Value(fixture.Event(spec))(t)
			names = append(names, spec.Name)
		}
		return names
	}
	usual := of(func(*configs.Config, *configs.Appliance) {})
	for _, test := range []struct {
		name   string
		change func(*configs.Config, *configs.Appliance)
		want   []string
	}{
		{"what is no longer shown", func(_ *configs.Config, a *configs.Appliance) {
			a.Detections.Reconcile.Report = []string{"hidden", "gone"}
		}, []string{"detection.gone", "detection.hidden"}},
		{"notes", func(_ *configs.Config, a *configs.Appliance) { a.Notes.In = true }, []string{"detection.noted"}},
		{"context", func(_ *configs.Config, a *configs.Appliance) { a.Context.Devices = true }, []string{"detection.context"}},
		{"rules", func(_ *configs.Config, a *configs.Appliance) { a.Rules.Enabled = true }, []string{"rule.created", "rule.expired", "rule.removed", "rule.updated"}},
		{"one kind of blind spots", func(_ *configs.Config, a *configs.Appliance) { a.BlindSpots.RecordIngest = true }, []string{"blindspot.closed", "blindspot.opened"}},
		{"tickets", func(c *configs.Config, _ *configs.Appliance) { c.Tickets.Enabled = true }, []string{"blindspot.closed", "blindspot.opened", "ticket.applied", "ticket.rejected"}},
		{"nothing without detections", func(_ *configs.Config, a *configs.Appliance) {
			a.Detections.Enabled, a.Detections.Reconcile.Report = false, []string{"hidden"}
		}, nil},
	} {
		t.Run(test.name, func(t *testing.T) {
			got := slices.DeleteFunc(of(test.change), func(name string) bool { return slices.Contains(usual, name) })
			slices.Sort(got)
			assert.EqualSlices(t, got, test.want)
		})
	}
}
