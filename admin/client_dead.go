package admin

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"ndrbridge/checkpoint"
)

// Dead implements Control. A body that is JSON comes without insignificant white
// space.
func (c *Client) Dead(ctx context.Context, owner checkpoint.Owner, after string, limit int) ([]checkpoint.DeadLetter, error) {
	list, err := deadCall(http.MethodGet, owner)
	if err != nil {
		return nil, err
	}
	list.query.Set("bodies", "true")
	var deadLetters []checkpoint.DeadLetter
	for len(deadLetters) < limit {
		list.query.Set("after", after)
		list.query.Set("limit", strconv.Itoa(min(limit-len(deadLetters), maxDead)))
		var page deadPage
		if err := c.ask(ctx, list, &page); err != nil {
			return nil, err
		}
		for _, l := range page.DeadLetters {
			deadLetters = append(deadLetters, l.stored())
		}
		if page.Next == "" {
			break
		}
		after = page.Next
	}
	return deadLetters, nil
}

// DeadLetter implements Control. A body that is JSON comes without insignificant
// white space.
func (c *Client) DeadLetter(ctx context.Context, owner checkpoint.Owner, key string) (checkpoint.DeadLetter, error) {
	show, err := deadCall(http.MethodGet, owner)
	if err != nil {
		return checkpoint.DeadLetter{}, err
	}
	show.path = append(show.path, key)
	var l deadLetter
	if err := c.ask(ctx, show, &l); err != nil {
		return checkpoint.DeadLetter{}, err
	}
	return l.stored(), nil
}

// Requeue implements Control.
func (c *Client) Requeue(ctx context.Context, sink string, keys []string) (int, error) {
	var done requeued
	err := c.ask(ctx, call{method: http.MethodPost, path: []string{"sinks", sink, "requeue"}, body: selected(keys)}, &done)
	return done.Requeued, err
}

// DropDead implements Control.
func (c *Client) DropDead(ctx context.Context, owner checkpoint.Owner, keys []string) (int, error) {
	drop, err := deadCall(http.MethodDelete, owner)
	if err != nil {
		return 0, err
	}
	drop.body = selected(keys)
	var done dropped
	err = c.ask(ctx, drop, &done)
	return done.Dropped, err
}

// deadCall returns a request for the dead letters of an owner.
func deadCall(method string, owner checkpoint.Owner) (call, error) {
	if sink, ok := owner.Sink(); ok {
		return call{method: method, path: []string{"sinks", sink, "dead"}, query: url.Values{}}, nil
	}
	source, ok := strings.CutPrefix(string(owner), "source/")
	appliance, stream, found := strings.Cut(source, "/")
	if !ok || !found {
		return call{}, fmt.Errorf("%w owner of dead letters %q", ErrUnknown, owner)
	}
	return call{method: method, path: []string{"appliances", appliance, "dead"}, query: url.Values{"stream": {stream}}}, nil
}
