package sinks

// Advised is an error with advice on how to fix its cause.
type Advised struct {
	Err error
	// To is the advice, without a full stop. It may be empty.
	To string
}

// Error returns the text of e.Err, followed by the advice in parentheses, if any.
func (e *Advised) Error() string {
	if e.To == "" {
		return e.Err.Error()
	}
	return e.Err.Error() + " (" + e.To + ")"
}

// Advice returns e.To.
func (e *Advised) Advice() string { return e.To }

// Unwrap returns e.Err.
func (e *Advised) Unwrap() error { return e.Err }
