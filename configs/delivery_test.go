package configs

import (
	"testing"
	"time"

	"ndrbridge/test/assert"
)

func TestDeliveryKeyErrors(t *testing.T) {
	expectErrors(t, sink, []mistake{
		{"a match with a mistyped field", `file: {path: "-"}, match: "detection.riskscore >= 80"`, "did you mean risk_score?"},
		{"a match of a field as another type", `file: {path: "-"}, match: 'detection.risk_score >= "80"'`, ">= cannot be applied to (int, string)"},
		{"a match that is not an expression", `file: {path: "-"}, match: "detection.risk_score = 80"`, "use == to compare"},
		{"an event given up before it failed", `file: {path: "-"}, poison: {attempts: 0}`, "sinks[0].poison.attempts: is 0; it must be at least 1"},
		{"fewer attempts than none", `file: {path: "-"}, max_attempts: -1`, "sinks[0].max_attempts: is -1; it must be 0 or more"},
		{"a rate below none", `file: {path: "-"}, rate_limit: -0.5`, "sinks[0].rate_limit: is -0.5; it must be 0 or more"},
		{"a rate that is not a number", `file: {path: "-"}, rate_limit: .nan`, "sinks[0].rate_limit: "},
		{"a field that is not a path", `file: {path: "-"}, redact: [detection.title, ".title"]`, `sinks[0].redact[1]: ".title" is not the path of a field`},
		{"a lag below none", `file: {path: "-"}, lag: {max_age: -1h}`, "sinks[0].lag.max_age: is -1h; it must be 0 or more"},
		{"a lag that the journal cannot hold", `file: {path: "-"}, lag: {max_bytes: 2GiB}`, "sinks[0].lag.max_bytes: is 2GiB, which the journal cannot hold (journal.max_bytes: 2GiB)"},
		{"a policy that is none", `file: {path: "-"}, lag: {policy: drop}`, `sinks[0].lag.policy: "drop" is not one of block, skip`},
		{"skipping without a bound", `file: {path: "-"}, lag: {policy: skip}`, "sinks[0].lag.policy: is skip without a limit; set max_age, max_bytes or both"},
		{"no request in flight", `webhook: {url: "https://h", concurrency: 0}`, "sinks[0].webhook.concurrency: is 0; it must be at least 1"},
	})
	t.Run("what is right is taken", func(t *testing.T) {
		s := parse(t, sink(`webhook: {url: "https://h", concurrency: 8, gzip: true}, lag: {max_age: 6h, policy: skip}, poison: {attempts: 2, after: 10m}, max_attempts: 5, rate_limit: 0.5, redact: [detection.title]`)).Sinks[0]
		if s.Poison.Attempts != 2 || time.Duration(s.Poison.After) != 10*time.Minute || s.MaxAttempts != 5 || s.RateLimit != 0.5 || len(s.Redact) != 1 || s.Webhook.Concurrency != 8 || !s.Webhook.Gzip {
			t.Errorf("%+v", s)
		}
		assert.Equal(t, s.Lag, (Lag{MaxAge: Duration(6 * time.Hour), Policy: LagSkip}), "lag")
	})
}

func TestLimitKeys(t *testing.T) {
	expectErrors(t, func(text string) string { return text + valid }, []mistake{
		{"a heartbeat is not made more often than each second", "events: {heartbeat: 500ms}", "events.heartbeat: is 500ms; write at least 1s, or 0 for none"},
		{"files are not watched more often than each second", "reload: {watch: 999ms}", "reload.watch: is 999ms; write at least 1s, or 0 to reload only when asked"},
		{"a heartbeat does not go back", "events: {heartbeat: -1m}", "events.heartbeat: is -1m; it must be 0 or more"},
		{"dead letters cannot be fewer than none", "dead_letters: {max_bytes: -1}", `dead_letters.max_bytes: "-1" is not a size`},
	})
	t.Run("what is right is taken, and the rest has its defaults", func(t *testing.T) {
		c := parse(t, "events: {heartbeat: 1m}"+valid, "NDRBRIDGE_DEAD_LETTERS_MAX_BYTES=0", "NDRBRIDGE_SINKS_0_LAG_MAX_BYTES=1MiB")
		assert.True(t, c.Events.Heartbeat == Duration(time.Minute) && c.DeadLetters.MaxBytes == 0 && c.Sinks[0].Lag == (Lag{MaxBytes: MiB, Policy: LagBlock}), c)
		c = parse(t, valid)
		assert.True(t, c.Events.Heartbeat == 0 && c.DeadLetters.MaxBytes == 256*MiB && c.Sinks[0].Lag == (Lag{Policy: LagBlock}), c)
	})
}
