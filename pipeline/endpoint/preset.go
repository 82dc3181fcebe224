package endpoint

import (
	"context"
	"fmt"
	"time"

	"ndrbridge/configs"
	"ndrbridge/sinks/webhook"
	"ndrbridge/sinks/webhook/presets"
	"ndrbridge/sinks/webhook/ticketopener"
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
	if w.Preset == "" {
		return nil, nil
	}
	preset, found := presets.Find(w.Preset)
	if !found {
		return nil, fmt.Errorf("unknown preset %q", w.Preset)
	}
	return preset.Open(w.PresetSettings(key))
}

// Link links a detection with the ticket that a sink opened for it, as ticketopener.Options.Link.
type Link = func(context.Context, transform.Event, ticketopener.Ticket) error

// ticketPreset returns the preset that opens tickets.
func ticketPreset(w configs.Webhook, link Link) (webhook.Preset, error) {
	system, err := w.TicketSystem()
	if err != nil {
		return nil, fmt.Errorf("ticket: %w", err)
	}
	if !w.Ticket.Link {
		link = nil
	}
	return ticketopener.New(ticketopener.Options{
		System: system, Link: link, SearchDelay: time.Duration(w.Ticket.SearchDelay), Now: time.Now,
	}), nil
}
