package nats

import (
	"errors"
	"slices"
	"testing"

	"ndrbridge/sinks"
	"ndrbridge/transform"
)

func TestFailSetsErrorsOfEventsWithoutAResult(t *testing.T) {
	failure := errors.New("the connection broke")
	rejection := errors.New("too large")
	for _, test := range []struct {
		name  string
		batch publishBatch
		want  []error
	}{
		{
			"none was published: the first has it",
			publishBatch{pending: make([]bool, 3), errs: make(sinks.EventErrors, 3)},
			[]error{failure, sinks.ErrNotTried, sinks.ErrNotTried},
		},
		{
			"all that were published are acknowledged: the next has it",
			publishBatch{published: 1, pending: make([]bool, 3), errs: make(sinks.EventErrors, 3)},
			[]error{nil, failure, sinks.ErrNotTried},
		},
		{
			"some are on their way: they have it, and those behind are not tried",
			publishBatch{published: 3, pending: []bool{true, false, true, false}, errs: make(sinks.EventErrors, 4)},
			[]error{failure, nil, failure, sinks.ErrNotTried},
		},
		{
			"one was rejected: it stays so",
			publishBatch{published: 2, pending: []bool{false, true, false}, errs: sinks.EventErrors{rejection, nil, nil}},
			[]error{rejection, failure, sinks.ErrNotTried},
		},
		{
			"core NATS acknowledges nothing by itself: all have it",
			publishBatch{published: 3, errs: sinks.EventErrors{nil, rejection, nil}},
			[]error{failure, rejection, failure},
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			test.batch.events = make([]transform.Event, len(test.want))
			test.batch.fail(failure)
			if !slices.Equal(test.batch.errs, sinks.EventErrors(test.want)) {
				t.Errorf("%v, want %v", []error(test.batch.errs), test.want)
			}
		})
	}
}
