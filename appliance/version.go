package appliance

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
)

// Version is a firmware version: its numbers from left to right.
type Version []int

// ParseVersion parses numbers joined by dots, such as 26.3.0.1234.
func ParseVersion(text string) (Version, error) {
	var v Version
	const maxNumbers = 16
	for part := range strings.SplitSeq(text, ".") {
		if len(v) == maxNumbers {
			return nil, fmt.Errorf("%q is not a firmware version: it has more than %d numbers", shorten(text), maxNumbers)
		}
		n, err := strconv.ParseUint(part, 10, 31)
		if err != nil {
			return nil, fmt.Errorf("%q is not a firmware version: it must be numbers joined by dots", shorten(text))
		}
		v = append(v, int(n))
	}
	return v, nil
}

// Compare returns -1, 0 or 1 if v is before, equal to or after w. Missing numbers count
// as 0.
func (v Version) Compare(w Version) int {
	at := func(v Version, i int) int {
		if i < len(v) {
			return v[i]
		}
		return 0
	}
	for i := range max(len(v), len(w)) {
		if c := cmp.Compare(at(v, i), at(w, i)); c != 0 {
			return c
		}
	}
	return 0
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
	_, err := c.fetch(ctx, c.versionRequest(), func(body []byte) error {
		var answer struct{ Version string }
		if err := json.Unmarshal(body, &answer); err != nil {
			return fmt.Errorf("the answer does not contain the version: %w", err)
		}
		if answer.Version == "" {
			return errors.New("the answer does not contain the version")
		}
		var err error
		v, err = ParseVersion(answer.Version)
		return err
	})
	return v, err
}

func (c *Client) versionRequest() request {
	return request{method: http.MethodGet, path: "/" + c.product + "/version", notFound: wrongAddress, small: true}
}
