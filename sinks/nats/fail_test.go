package nats

import (
	"errors"
	"slices"
	"testing"

	"ndrbridge/internal/failure"
	"ndrbridge/transform"
)

func TestFailSetsErrorsOfEventsWithoutAResult(t *testing.T) {
	broken := errors.New("the connection broke")
	rejection := errors.New("too large")
	for _, test := range []struct {
		name  string
		batch publishBatch
		want  []error
	}{
		{
			"none was published: the first has it",
			publishBatch{pending: make([]bool, 3), errs: make(failure.EventErrors, 3)},
			[]error{broken, failure.ErrNotTried, failure.ErrNotTried},
		},
		{
			"all that were published are acknowledged: the next has it",
			publishBatch{published: 1, pending: make([]bool, 3), errs: make(failure.EventErrors, 3)},
			[]error{nil, broken, failure.ErrNotTried},
		},
		{
			"some are on their way: they have it, and those behind are not tried",
			publishBatch{published: 3, pending: []bool{true, false, true, false}, errs: make(failure.EventErrors, 4)},
			[]error{broken, nil, broken, failure.ErrNotTried},
		},
		{
			"one was rejected: it stays so",
			publishBatch{published: 2, pending: []bool{false, true, false}, errs: failure.EventErrors{rejection, nil, nil}},
			[]error{rejection, broken, failure.ErrNotTried},
		},
		{
			"core NATS acknowledges nothing by itself: all have it",
			publishBatch{published: 3, errs: failure.EventErrors{nil, rejection, nil}},
			[]error{broken, rejection, broken},
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			test.batch.events = make([]transform.Event, len(test.want))
			test.batch.fail(broken)
			if !slices.Equal(test.batch.errs, failure.EventErrors(test.want)) {
				t.Errorf("%v, want %v", []error(test.batch.errs), test.want)
			}
		})
	}
}
