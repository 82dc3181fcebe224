package teams

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"ndrbridge/internal/failure"
	"ndrbridge/sinks/webhook"
	"ndrbridge/test/presettest"
)

// strict answers as a workflow does, and as Teams would behind it.
func strict(request presettest.Request) presettest.Reply {
	if len(request.Body) > 28000 {
		return presettest.Reply{Status: http.StatusRequestEntityTooLarge}
	}
	if err := check(request.Body); err != nil {
		return presettest.Reply{Status: http.StatusBadRequest, Body: `{"error":{"code":"TriggerInputSchemaMismatch","message":"` + err.Error() + `"}}`}
	}
	return presettest.Reply{Status: http.StatusAccepted}
}

type object = map[string]any

// check reads a message by the reference of Adaptive Cards, and that no text in it is
// where Markdown, a function or a template would be read.
func check(body []byte) error {
	var m struct {
		Type        string
		Attachments []struct {
			ContentType string
			Content     struct {
				Type, Version, FallbackText string
				Body                        []object
			}
		}
	}
	if err := json.Unmarshal(body, &m); err != nil {
		return err
	}
	if m.Type != "message" || len(m.Attachments) != 1 || m.Attachments[0].ContentType != "application/vnd.microsoft.card.adaptive" {
		return errors.New("no message with a card")
	}
	content := m.Attachments[0].Content
	if content.Type != "AdaptiveCard" || content.Version != "1.4" || len(content.Body) == 0 || content.FallbackText == "" {
		return fmt.Errorf("card %s %s", content.Type, content.Version)
	}
	errs := []error{mute(content.FallbackText)}
	for _, c := range content.Body {
		if c["type"] != "Container" {
			return fmt.Errorf("%v is not a container", c["type"])
		}
		for _, i := range c["items"].([]any) {
			switch i := i.(object); i["type"] {
			case "RichTextBlock":
				for _, r := range i["inlines"].([]any) {
					r := r.(object)
					text, _ := r["text"].(string)
					if r["type"] != "TextRun" || text == "" || r["selectAction"] != nil {
						errs = append(errs, fmt.Errorf("run %v", r))
					}
					errs = append(errs, mute(text))
				}
			case "ActionSet":
				for _, a := range i["actions"].([]any) {
					if a := a.(object); a["type"] != "Action.OpenUrl" || a["title"] != "Open" || !strings.HasPrefix(a["url"].(string), "http") {
						errs = append(errs, fmt.Errorf("action %v", a))
					}
				}
			default:
				errs = append(errs, fmt.Errorf("item %v", i["type"]))
			}
		}
	}
	return errors.Join(errs...)
}

func mute(text string) error {
	if strings.Contains(text, "{{") || strings.Contains(text, "${") && !strings.Contains(text, "${\u200b") {
		return fmt.Errorf("a function or a template in %.200q", text)
	}
	return nil
}

func toTeams(url string) (*webhook.Preset, error) {
	return Spec().Open(webhook.PresetSettings{URL: url})
}

var chat = presettest.Chat{
	Open: toTeams, Answer: strict, LongText: strings.Repeat("漢", 1000), PerCard: `"size":"Medium"`,
	Check: func(body []byte) error {
		if len(body) > 28000 {
			return fmt.Errorf("%d bytes", len(body))
		}
		return check(body)
	},
}

func TestChat(t *testing.T) { chat.Run(t) }

func FuzzText(f *testing.F) { chat.FuzzText(f) }

func TestTheAnswersOfAWorkflow(t *testing.T) {
	text := func(status int, body string) presettest.Reply { return presettest.Reply{Status: status, Body: body} }
	code := func(code string) string { return `{"error":{"code":"` + code + `","message":"see the code"}}` }
	presettest.Answers(t, presettest.Events(t)[0].Event, toTeams, []presettest.Case{
		{Name: "accepted is durable", Reply: text(202, "")},
		{Name: "a connector's 1 is durable", Reply: text(200, "1")},
		{Name: "a connector that Teams throttled waits, though its status is 200", Class: failure.Throttled,
			Reply: text(200, "Webhook message delivery failed with error: Microsoft Teams endpoint returned HTTP error 429 with ContextId x")},
		{Name: "a connector's message that is too large is rejected", Class: failure.Rejected,
			Reply: text(200, "Webhook message delivery failed with error: Microsoft Teams endpoint returned HTTP error 413 with ContextId x")},
		{Name: "a connector whose channel is gone halts", Class: failure.Halted,
			Reply: text(200, "Webhook message delivery failed with error: Microsoft Teams endpoint returned HTTP error 404 with ContextId x")},
		{Name: "a connector that failed otherwise is tried again", Class: failure.Transient, Reply: text(200, "Webhook message delivery failed with error: timeout")},
		{Name: "a card that is wrong is rejected", Reply: text(400, code("TriggerInputSchemaMismatch")), Class: failure.Rejected},
		{Name: "a workflow that is off halts", Reply: text(400, code("WorkflowTriggerIsNotEnabled")), Class: failure.Halted},
		{Name: "a workflow that was deleted halts", Reply: text(404, code("WorkflowNotFound")), Class: failure.Halted},
		{Name: "a signature that is wrong halts", Reply: text(401, code("DirectApiAuthorizationRequired")), Class: failure.Halted},
		{Name: "too large is rejected", Reply: text(413, ""), Class: failure.Rejected},
		{Name: "a gateway that fails passes", Reply: text(502, code("NoResponse")), Class: failure.Transient},
		{Name: "too many wait as long as is asked for", Class: failure.Throttled, Wait: 12 * time.Second,
			Reply: presettest.Reply{Status: 429, Header: map[string]string{"Retry-After": "12"}}},
	})
}

func TestAWorkflowCannotBeChecked(t *testing.T) {
	presettest.Checks(t, []presettest.CheckTest{
		presettest.NoCheck("teams", toTeams),
	})
}
