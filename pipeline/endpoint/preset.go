package endpoint

import (
	"context"
	"fmt"
	"time"

	"ndrbridge/configs"
	"ndrbridge/sinks/webhook"
	"ndrbridge/sinks/webhook/datadog"
	"ndrbridge/sinks/webhook/discord"
	"ndrbridge/sinks/webhook/elasticsearch"
	"ndrbridge/sinks/webhook/pagerduty"
	"ndrbridge/sinks/webhook/slack"
	"ndrbridge/sinks/webhook/splunk"
	"ndrbridge/sinks/webhook/teams"
	"ndrbridge/sinks/webhook/ticket"
	"ndrbridge/transform"
)

// openPreset returns the preset of a webhook, or nil if it has none. It reads the key
// again on each call. link is used if the preset opens tickets.
func openPreset(w configs.Webhook, link Link) (webhook.Preset, error) {
	if w.Ticket != nil {
		return ticketPreset(w, link)
	}
	key, err := w.Key.Read()
	if err != nil {
		return nil, fmt.Errorf("key: %w", err)
	}
	url := w.URL.Value()
	switch w.Preset {
	case "":
		return nil, nil
	case configs.PresetSlack:
		return orNil(slack.New(slack.Options{URL: url, Token: key, Channel: w.Channel, Updates: slack.Updates(w.Updates)}))
	case configs.PresetTeams:
		return teams.Preset{}, nil
	case configs.PresetDiscord:
		return orNil(discord.New(url))
	case configs.PresetPagerDuty:
		return orNil(pagerduty.New(pagerduty.Options{URL: url, RoutingKey: key}))
	case configs.PresetSplunkHEC:
		return orNil(splunk.New(splunk.Options{URL: url, Token: key, Index: w.Index, SourceType: w.SourceType}))
	case configs.PresetElasticsearch:
		return orNil(elasticsearch.New(elasticsearch.Options{URL: url, APIKey: key}))
	case configs.PresetDatadog:
		return orNil(datadog.New(datadog.Options{URL: url, APIKey: key, Service: w.Service, Tags: w.Tags}))
	}
	return nil, fmt.Errorf("unknown preset %q", w.Preset)
}

// orNil returns a nil interface with an error, instead of one that holds a nil pointer.
func orNil[P webhook.Preset](preset P, err error) (webhook.Preset, error) {
	if err != nil {
		return nil, err
	}
	return preset, nil
}

// Link links a detection with the ticket that a sink opened for it, as ticket.Options.Link.
type Link = func(context.Context, transform.Event, ticket.Ticket) error

// ticketPreset returns the preset that opens tickets.
func ticketPreset(w configs.Webhook, link Link) (webhook.Preset, error) {
	system, err := w.TicketSystem()
	if err != nil {
		return nil, fmt.Errorf("ticket: %w", err)
	}
	if !w.Ticket.Link {
		link = nil
	}
	return ticket.New(ticket.Options{
		System: system, Link: link, SearchDelay: time.Duration(w.Ticket.SearchDelay), Now: time.Now,
	}), nil
}
