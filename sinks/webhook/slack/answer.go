package slack

import (
	"context"
	"encoding/json"
	"slices"

	"ndrbridge/internal/failure"
	"ndrbridge/sinks/webhook"
)

// Slack's error codes that are more specific than their status: an incoming webhook
// returns one as text, the Web API in JSON and mostly with status 200. Any other error
// is temporary or classified by its status.
var (
	// rejected concern this message.
	rejected = []string{
		"invalid_payload", "invalid_blocks", "invalid_blocks_format", "invalid_attachments", "too_many_attachments",
		"no_text", "missing_text_or_fallback_or_attachments", "msg_too_long", "msg_blocks_too_long",
		"invalid_arguments", "invalid_json", "json_not_object", "block_mismatch", "markdown_text_conflict",
	}
	// halted concern the webhook, the token or the channel.
	halted = []string{
		"no_service", "no_service_id", "no_active_hooks", "no_team", "team_disabled", "invalid_token",
		"action_prohibited", "posting_to_general_channel_denied", "channel_is_archived", "channel_not_found",
		"user_not_found", "is_archived", "not_in_channel", "not_authed", "invalid_auth", "account_inactive",
		"token_revoked", "token_expired", "missing_scope", "no_permission", "not_allowed_token_type", "access_denied",
		"restricted_action", "restricted_action_read_only_channel", "restricted_action_thread_only_channel",
		"restricted_action_non_threadable_channel", "ekm_access_denied", "org_login_required", "team_access_not_granted",
		"two_factor_setup_required", "enterprise_is_restricted", "messages_tab_disabled", "as_user_not_supported",
		"deprecated_endpoint", "method_deprecated", "missing_post_type", "invalid_post_type", "invalid_charset",
		"invalid_form_data", "accesslimited",
	}
	throttled = []string{"ratelimited", "rate_limited", "message_limit_exceeded"}
	// lost concern the message to edit or reply to, or its channel: it was deleted,
	// belongs to another user, or can no longer be changed. The configured channel may
	// be another one.
	lost = []string{
		"message_not_found", "cant_update_message", "edit_window_closed", "thread_not_found", "cannot_reply_to_message",
		"restricted_action_thread_locked", "restricted_action_non_threadable_channel", "channel_not_found", "is_archived", "not_in_channel",
	}
)

// answer is a response of the Web API.
type answer struct {
	OK      bool   `json:"ok"`
	Error   string `json:"error"`
	Channel string `json:"channel"`
	TS      string `json:"ts"`
	Message struct {
		TS     string `json:"ts"`
		Thread string `json:"thread_ts"`
	} `json:"message"`
}

// read parses a response of the Web API; it returns the zero value for any other.
func read(a webhook.Answer) (parsed answer) {
	if json.Unmarshal(a.Body, &parsed) != nil {
		return answer{}
	}
	parsed.OK = parsed.OK && a.Status/100 == 2
	return parsed
}

// lost reports whether the message to edit or reply to is lost.
func (a answer) lost() bool { return !a.OK && slices.Contains(lost, a.Error) }

// ask sends a request of a bot. The error is that of refused.
func ask(ctx context.Context, c *webhook.Conversation, r webhook.Request) (answer, error) {
	a, err := c.Do(ctx, r)
	if err != nil {
		return answer{}, err
	}
	reply := read(a)
	if reply.OK {
		return reply, nil
	}
	return reply, refused(a, reply.Error)
}

// refused returns the error of an answer with an error code.
func refused(a webhook.Answer, code string) error {
	refusal := a.Refusal()
	class, _ := failure.ClassOf(refusal) // Transient if the status is 200
	if class == failure.Throttled {
		return refusal
	}
	switch {
	case slices.Contains(halted, code):
		class = failure.Halted
	case slices.Contains(rejected, code):
		class = failure.Rejected
	case slices.Contains(throttled, code):
		class = failure.Throttled
	}
	return a.Error(class)
}
