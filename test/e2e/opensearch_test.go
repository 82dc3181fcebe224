//go:build e2e

package e2e

import "testing"

func TestOpenSearch(t *testing.T) {
	o := startOpenSearch(t)
	t.Log(o.url)
}
