package slack

import (
	"encoding/json"
	"net/url"
	"regexp"
	"slices"

	"ndrbridge/internal/finding"
	"ndrbridge/sinks/webhook"
)

// channelID matches channel ids. Slack's methods do not look up channels by name.
var channelID = regexp.MustCompile(`^[CGD][A-Z0-9]{2,}$`)

// checks checks a bot's token and its channel. An incoming webhook cannot be checked.
func (p *preset) checks() []webhook.CheckRequest {
	info := p.post.JoinPath("../conversations.info")
	info.RawQuery = url.Values{"channel": {p.s.Channel}}.Encode()
	return []webhook.CheckRequest{
		{Step: "token", URL: p.post.JoinPath("../auth.test"), Judge: judgeToken},
		{Step: "channel", URL: info, Judge: p.judgeChannel},
	}
}

// reply is a response of the Web API to check requests.
type reply struct {
	OK         bool   `json:"ok"`
	Error      string `json:"error"`
	User, Team string
	Channel    struct {
		Name       string
		IsArchived bool `json:"is_archived"`
		IsMember   bool `json:"is_member"`
		IsIM       bool `json:"is_im"` // a direct message, which has neither name nor members
	}
}

func readReply(a webhook.Answer) (s reply, refused *finding.Finding) {
	if a.Status/100 != 2 {
		f := a.Finding("", "check that url is the base of Slack's methods, https://slack.com/api/")
		return s, &f
	}
	if json.Unmarshal(a.Body, &s) != nil {
		return s, &finding.Finding{Result: finding.Failed, Detail: "the answer is not from Slack", Advice: "check that url is the base of Slack's methods, https://slack.com/api/"}
	}
	return s, nil
}

func judgeToken(a webhook.Answer) finding.Finding {
	s, refused := readReply(a)
	switch {
	case refused != nil:
		return *refused
	case !s.OK:
		return finding.Finding{Result: finding.Failed, Detail: "Slack refuses the token: " + a.Quote(s.Error), Advice: "check key: it must be the bot's token, which begins with xoxb-"}
	}
	return finding.Finding{Result: finding.OK, Detail: "the token belongs to " + a.Quote(s.User) + " in " + a.Quote(s.Team)}
}

func (p *preset) judgeChannel(a webhook.Answer) finding.Finding {
	s, refused := readReply(a)
	lacks := []string{"missing_scope", "not_allowed_token_type", "no_permission"}
	switch {
	case refused != nil:
		return *refused
	case s.OK && s.Channel.IsArchived:
		return finding.Finding{Result: finding.Failed, Detail: "the channel " + a.Quote(s.Channel.Name) + " is archived", Advice: "check channel"}
	case s.OK && s.Channel.IsIM:
		return finding.Finding{Result: finding.OK, Detail: "the channel is a direct message with the bot"}
	case s.OK && !s.Channel.IsMember:
		return finding.Finding{
			Result: finding.Warning, Detail: "the bot is not in the channel " + a.Quote(s.Channel.Name),
			Advice: "invite it there, unless it has the scope chat:write.public",
		}
	case s.OK:
		return finding.Finding{Result: finding.OK, Detail: "the bot is in the channel " + a.Quote(s.Channel.Name)}
	case slices.Contains(lacks, s.Error), !channelID.MatchString(p.s.Channel):
		return finding.Finding{
			Result: finding.Untried, Detail: "the bot may not read channels, or channel is not an id: " + a.Quote(s.Error),
			Advice: "set channel to the channel's id and give the bot the scope channels:read, or send one event to be sure",
		}
	}
	return finding.Finding{Result: finding.Failed, Detail: "Slack does not show the channel: " + a.Quote(s.Error), Advice: "check channel, and invite the bot to it"}
}
