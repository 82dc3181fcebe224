package admin

import (
	"context"
	"net/http"
	"net/url"
	"strconv"

	"ndrbridge/checkpoint"
)

// Commands implements Control. The commands have no keys and notes.
func (c *Client) Commands(ctx context.Context, f checkpoint.CommandFilter, after uint64, limit int) ([]checkpoint.Command, error) {
	query := url.Values{}
	for name, value := range map[string]string{"appliance": f.Appliance, "ticket": f.Subject, "status": string(f.State)} {
		if value != "" {
			query.Set(name, value)
		}
	}
	var commands []checkpoint.Command
	for len(commands) < limit {
		query.Set("after", strconv.FormatUint(after, 10))
		query.Set("limit", strconv.Itoa(min(limit-len(commands), maxCommands)))
		var page commandPage
		if err := c.ask(ctx, call{method: http.MethodGet, path: []string{"tickets"}, query: query}, &page); err != nil {
			return nil, err
		}
		for _, command := range page.Commands {
			commands = append(commands, command.command())
		}
		if page.Next == 0 {
			break
		}
		after = page.Next
	}
	return commands, nil
}

// Command implements Control. The command has no key and note.
func (c *Client) Command(ctx context.Context, id uint64) (checkpoint.Command, error) {
	var command TicketCommand
	if err := c.ask(ctx, call{method: http.MethodGet, path: commandPath(id)}, &command); err != nil {
		return checkpoint.Command{}, err
	}
	return command.command(), nil
}

// RetryCommand implements Control.
func (c *Client) RetryCommand(ctx context.Context, id uint64) error {
	return c.ask(ctx, call{method: http.MethodPost, path: append(commandPath(id), "retry")}, nil)
}

// DropCommand implements Control.
func (c *Client) DropCommand(ctx context.Context, id uint64) error {
	return c.ask(ctx, call{method: http.MethodDelete, path: commandPath(id)}, nil)
}

func commandPath(id uint64) []string { return []string{"tickets", strconv.FormatUint(id, 10)} }
