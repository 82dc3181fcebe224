package bridge_test

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"ndrbridge/checkpoint"
	"ndrbridge/configs"
	"ndrbridge/internal/admin"
	"ndrbridge/test/ledger"
	"ndrbridge/test/require"
	"ndrbridge/transform"
)

func TestTailSinceATimeIsCompleteAlthoughTheClockWasSet(t *testing.T) {
	_, url := startAppliance(t, 0)
	soc := startReceiver(t, ledger.New(), "soc")
	yaml := configuration(t, url, webhookSink("soc", soc.url))
	config, err := configs.Parse("ndrbridge.yaml", []byte(yaml), nil)
	require.NoError(t, err)
	noon := time.Now().Add(-5 * time.Hour).Truncate(time.Second)
	s, err := checkpoint.Open(config.State, checkpoint.Options{})
	require.NoError(t, err)
	c := checkpoint.Commit{Source: checkpoint.Source{Appliance: "other", Stream: "audit"}, Position: []byte("p")}
	for i, minute := range []int{0, 9, 1, 2, 3, 10} { // the clock was set back behind the second
		e, err := transform.New(transform.Attributes{
			ID: fmt.Sprint(i), Source: "ndrbridge://other/audit", Type: "io.ndrbridge.audit.logged",
			RecordedTime: noon.Add(time.Duration(minute) * time.Minute),
		}, []byte(`{"audit":{}}`))
		require.NoError(t, err)
		c.Events = append(c.Events, e)
	}
	require.NoError(t, errors.Join(s.Commit(t.Context(), c), s.Close()))

	var shown []string
	enough := errors.New("enough")
	err = run(t, yaml).control(t).Tail(t.Context(), admin.From{Since: noon.Add(3 * time.Minute)}, func(e transform.Event) error {
		if shown = append(shown, e.ID); e.ID == "5" {
			return enough
		}
		return nil
	})
	if want := []string{"1", "2", "3", "4", "5"}; !errors.Is(err, enough) || !slices.Equal(shown, want) {
		t.Errorf("shows %v, %v, want %v", shown, err, want)
	}
}
