package sinks

import "context"

type receiptsKey struct{}

// WithReceipts returns a context for Send with a function to which the sink passes what the
// target answered to events that it accepted, in words without secrets. A sink whose target
// answers nothing does not call it. Calls for one event are not concurrent.
func WithReceipts(ctx context.Context, report func(text string)) context.Context {
	return context.WithValue(ctx, receiptsKey{}, report)
}

// Receipts returns the function of WithReceipts, or nil if nobody asks.
func Receipts(ctx context.Context) func(text string) {
	report, _ := ctx.Value(receiptsKey{}).(func(string))
	return report
}
