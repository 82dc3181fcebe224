//go:build !linux

package crash

import "testing"

// limitFiles does nothing: only on Linux can one process limit another.
func (b *bridge) limitFiles(*testing.T, string, int64) (free func()) { return func() {} }
