package nats

import (
	"errors"
	"testing"

	"ndrbridge/internal/failure"
	"ndrbridge/test/assert"
	"ndrbridge/transform"
)

func TestFailSetsErrorsOfEventsWithoutAResult(t *testing.T) {
	broken := errors.New("the connection broke")
	rejection := errors.New("too large")
	for _, test := range []struct {
		name      string
		published int
		pending   []bool // nil: core NATS
		errs      failure.EventErrors
		want      []error
	}{
		{"none was published: the first has it", 0, make([]bool, 3), make(failure.EventErrors, 3), []error{broken, failure.ErrNotTried, failure.ErrNotTried}},
		{"all that were published are acknowledged: the next has it", 1, make([]bool, 3), make(failure.EventErrors, 3), []error{nil, broken, failure.ErrNotTried}},
		{"some are on their way: they have it, and those behind are not tried", 3, []bool{true, false, true, false}, make(failure.EventErrors, 4), []error{broken, nil, broken, failure.ErrNotTried}},
		{"one was rejected: it stays so", 2, []bool{false, true, false}, failure.EventErrors{rejection, nil, nil}, []error{rejection, broken, failure.ErrNotTried}},
		{"core NATS acknowledges nothing by itself: all have it", 3, nil, failure.EventErrors{nil, rejection, nil}, []error{broken, rejection, broken}},
	} {
		t.Run(test.name, func(t *testing.T) {
			b := publishBatch{events: make([]transform.Event, len(test.want)), published: test.published, pending: test.pending, errs: test.errs}
			b.fail(broken)
			assert.EqualSlices(t, b.errs, failure.EventErrors(test.want), []error(b.errs), test.want)
		})
	}
}
