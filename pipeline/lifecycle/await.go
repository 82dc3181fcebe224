package lifecycle

import "time"

// Await calls do and returns its result, unless do takes longer than within or gone is closed
// before: then ok is false, and late is called with the result if do returns after all.
func Await[T any](within time.Duration, gone <-chan struct{}, do func() T, late func(T)) (result T, ok bool) {
	done := make(chan T, 1)
	go func() { done <- do() }()
	timer := time.NewTimer(within)
	defer timer.Stop()
	select {
	case result = <-done:
		return result, true
	case <-timer.C:
	case <-gone:
	}
	go func() { late(<-done) }()
	return result, false
}
