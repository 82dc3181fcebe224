//go:build !e2e

package docs_test

// endToEnd reports whether the tests are those of make e2e.
const endToEnd = false
