package operations

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"ndrbridge/configs"
	"ndrbridge/internal/admin"
)

// partialTimeout is how long shards have to answer a request whose result is useful without
// them.
const partialTimeout = 5 * time.Second

// answer is the answer of one shard.
type answer[T any] struct {
	shard int
	value T
	err   error // names the shard
}

// askAll asks all shards at once and returns their answers by number.
func askAll[T any](ctx context.Context, shards shards, ask func(context.Context, *admin.Client) (T, error)) []answer[T] {
	return askSome(ctx, shards, numbers(shards), func(ctx context.Context, _ int, s *admin.Client) (T, error) { return ask(ctx, s) })
}

// numbers returns the numbers of all shards.
func numbers(shards shards) []int {
	all := make([]int, shards.Count())
	for n := range all {
		all[n] = n
	}
	return all
}

// askSome asks some shards at once and returns their answers in the same order.
func askSome[T any](ctx context.Context, shards shards, numbers []int, ask func(context.Context, int, *admin.Client) (T, error)) []answer[T] {
	answers := make([]answer[T], len(numbers))
	var asking sync.WaitGroup
	for i, n := range numbers {
		asking.Go(func() {
			value, err := ask(ctx, n, shards.Shard(n))
			answers[i] = answer[T]{n, value, inShard(n, err)}
		})
	}
	asking.Wait()
	return answers
}

// inShard adds the shard's name to an error. It returns nil if err is nil.
func inShard(n int, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("shard %s: %w", configs.ShardName(n), err)
}

// missing returns the error of shards that did not answer a question, or nil.
func missing[T any](answers []answer[T]) error {
	var failed []error
	for _, a := range answers {
		if a.err != nil {
			failed = append(failed, a.err)
		}
	}
	if failed == nil {
		return nil
	}
	return &partialError{failed: failed}
}

// failure returns the error of answers to a change of something with a name that need
// not exist in all shards, or nil. If no shard knows it, the error is admin.ErrUnknown.
func failure[T any](answers []answer[T]) error {
	var failed []error
	var unknown error
	done := 0
	for _, a := range answers {
		switch {
		case a.err == nil:
			done++
		case errors.Is(a.err, admin.ErrUnknown):
			unknown = a.err
		default:
			failed = append(failed, a.err)
		}
	}
	switch {
	case len(failed) > 0:
		return &partialError{failed: failed, done: done}
	case done == 0:
		return unknown
	}
	return nil
}

// partialError is the error of an operation that some shards did not carry out.
type partialError struct {
	failed []error // each names its shard
	done   int     // the number of shards that carried it out; 0 if that does not matter
}

func (e *partialError) Error() string {
	var texts []string
	for _, err := range e.failed {
		texts = append(texts, err.Error())
	}
	text := strings.Join(texts, "; ")
	switch e.done {
	case 0:
		return text
	case 1:
		return text + "; 1 other shard is done: repeat it"
	}
	return fmt.Sprintf("%s; %d other shards are done: repeat it", text, e.done)
}

func (e *partialError) Unwrap() []error { return e.failed }
