package appliance

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
)

// Version is a firmware version: its numbers from left to right.
type Version []int

// parseVersion parses numbers joined by dots, such as 26.3.0.1234.
func parseVersion(text string) (Version, error) {
	var v Version
	const maxNumbers = 16
	for part := range strings.SplitSeq(text, ".") {
		if len(v) == maxNumbers {
			return nil, fmt.Errorf("%q is not a firmware version: it has more than %d numbers", text, maxNumbers)
		}
		n, err := strconv.ParseUint(part, 10, 31)
		if err != nil {
			return nil, fmt.Errorf("%q is not a firmware version: it must be numbers joined by dots", text)
		}
		v = append(v, int(n))
	}
	return v, nil
}

// Compare returns -1, 0 or 1 if v is before, equal to or after w. Missing numbers count
// as 0.
func (v Version) Compare(w Version) int {
	longest := max(len(v), len(w))
	return slices.Compare(v.padded(longest), w.padded(longest))
}

func (v Version) padded(length int) []int {
	return append(slices.Clone(v), make([]int, length-len(v))...)
}

// String joins the numbers with dots.
func (v Version) String() string {
	parts := make([]string, len(v))
	for i, n := range v {
		parts[i] = strconv.Itoa(n)
	}
	return strings.Join(parts, ".")
}

// Firmware fetches the appliance's firmware version.
func (c *Client) Firmware(ctx context.Context) (Version, error) {
	var v Version
	err := c.fetch(ctx, c.versionRequest(), func(body []byte) error {
		var answer struct{ Version string }
		if err := json.Unmarshal(body, &answer); err != nil {
			return fmt.Errorf("the answer does not contain the version: %w", err)
		}
		if answer.Version == "" {
			return errors.New("the answer does not contain the version")
		}
		var err error
		v, err = parseVersion(answer.Version)
		return err
	})
	return v, err
}

func (c *Client) versionRequest() request {
	return request{method: http.MethodGet, path: "/" + c.product + "/version", notFound: wrongAddress, small: true}
}
