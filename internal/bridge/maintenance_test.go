package bridge_test

import (
	"strings"
	"testing"

	"ndrbridge/internal/admin"
	"ndrbridge/test/assert"
)

// What a running bridge keeps of sinks and appliances is changed once they are no longer
// configured.
func TestARunningBridgeForgetsAndRenamesWhatIsNotConfigured(t *testing.T) {
	_, url := startAppliance(t, 10)
	soc, other := startInbox(t), startInbox(t)
	both := configuration(t, url, webhookSink("soc", soc.URL)+webhookSink("other", other.URL))
	r := run(t, both)
	await(t, "the backlog", func() bool { return soc.count("") == 10 && other.count("") == 10 })
	client, ctx := clientOf(t, r.Bridge), t.Context()

	for what, err := range map[string]error{
		"soc was forgotten": admin.API.ForgetSink.Do(ctx, client, admin.OfSink{Sink: "soc"}), "soc was renamed": admin.API.RenameSink.Do(ctx, client, admin.RenameRequest{OfSink: admin.OfSink{Sink: "soc"}, To: "new"}),
		"it was renamed to other": admin.API.RenameSink.Do(ctx, client, admin.RenameRequest{OfSink: admin.OfSink{Sink: "soc"}, To: "other"}), "hq was forgotten": admin.API.ForgetAppliance.Do(ctx, client, admin.ForgetRequest{Appliance: "hq"}),
	} {
		assert.ErrorContains(t, err, "configuration has", what, "while it is configured")
	}
	r.reload(t, strings.Replace(strings.Replace(both, webhookSink("soc", soc.URL), "", 1), "name: hq", "name: dc", 1))
	await(t, "the backlog under another name", func() bool { return other.count("") >= 20 })

	err := admin.API.RenameSink.Do(ctx, client, admin.RenameRequest{OfSink: admin.OfSink{Sink: "soc"}, To: "other"})
	assert.True(t, err != nil && strings.Contains(err.Error(), "the sink other is configured"), "soc was renamed to a sink that is configured", err)
	assert.NoError(t, admin.API.RenameSink.Do(ctx, client, admin.RenameRequest{OfSink: admin.OfSink{Sink: "soc"}, To: "new"}))
	sinkStatus(t, client, "new")
	assert.NoError(t, admin.API.ForgetSink.Do(ctx, client, admin.OfSink{Sink: "new"}))
	assert.ErrorIs(t, admin.API.ForgetSink.Do(ctx, client, admin.OfSink{Sink: "new"}), admin.ErrUnknown, "a sink was forgotten twice")
	assert.NoError(t, admin.API.ForgetAppliance.Do(ctx, client, admin.ForgetRequest{Appliance: "hq"}))
	assert.ErrorIs(t, admin.API.ForgetAppliance.Do(ctx, client, admin.ForgetRequest{Appliance: "hq"}), admin.ErrUnknown, "an appliance was forgotten twice")
	assert.ErrorIs(t, admin.API.ForgetAppliance.Do(ctx, client, admin.ForgetRequest{Appliance: "nobody", Identity: true}), admin.ErrUnknown)

	// The appliance is new again.
	r.reload(t, both)
	await(t, "the backlog once more", func() bool { return other.count("") >= 30 })
}
