package intake_test

import (
	"bytes"
	"strings"
	"testing"

	"ndrbridge/test/assert"
	"ndrbridge/test/hostile"
	"ndrbridge/test/loopback"
)

func TestAHostileNATSServerIsReportedAndDoesNotDelayTheStop(t *testing.T) {
	for _, attack := range hostile.NATSAttacks() {
		t.Run(attack, func(t *testing.T) {
			t.Parallel()
			server := hostile.NewNATSServer(attack)
			intake := natsIntake(&counter{}, "nats://"+loopback.Serve(t, server.Serve), "hunter2")
			stop := running(t, intake.Run)
			eventually(t, "it connects", func() bool { return server.Accepted() > 0 })
			// Endless data and single bytes fail like silence, and cost more until then.
			if attack != hostile.NATSDrip && !strings.HasPrefix(attack, "endless") {
				eventually(t, "the status says so", func() bool { return intake.Status().Error != "" })
			}
			stop()
		})
	}
}

func TestATooLargeMessageIsRefusedAndTheNextAccepted(t *testing.T) {
	s, js, c := started(t)
	large := append(command("SEC-1"), bytes.Repeat([]byte(" "), 3<<20)...)
	publish(t, js, large, append(command("SEC-2"), bytes.Repeat([]byte(" "), 1<<20)...), command("SEC-3"))
	intake := natsIntake(c, s.ClientURL(), "hunter2")
	running(t, intake.Run)
	got := c.accepted(t, 1)
	assert.Equal(t, got[0], "SEC-3", "accepted", got)
	for _, refusal := range c.refusals(t, 2) {
		assert.Contains(t, refusal.Reason, "larger than 1048576 bytes", "refusal of a large message", refusal)
	}
	eventually(t, "all are acknowledged", func() bool { s := intake.Status(); return s.Stored == 1 && s.Refused == 2 && s.Error == "" })
}
