package sinks

// Advised is an error with what a person can do about it.
type Advised struct {
	Err error
	// To is the advice, without a full stop; empty: there is none.
	To string
}

// Error tells the error, and the advice in parentheses behind it.
func (e *Advised) Error() string {
	if e.To == "" {
		return e.Err.Error()
	}
	return e.Err.Error() + " (" + e.To + ")"
}

// Advice is e.To.
func (e *Advised) Advice() string { return e.To }

// Unwrap returns e.Err.
func (e *Advised) Unwrap() error { return e.Err }
