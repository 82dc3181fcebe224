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

// Version is a firmware version: its numbers from the left.
type Version []int

// ParseVersion reads numbers joined by dots, such as 26.3.0.1234.
func ParseVersion(text string) (Version, error) {
	var v Version
	const most = 16 // numbers
	for part := range strings.SplitSeq(text, ".") {
		if len(v) == most {
			return nil, fmt.Errorf("%q is no firmware version: it has more than %d numbers", shorten(text), most)
		}
		n, err := strconv.ParseUint(part, 10, 31)
		if err != nil {
			return nil, fmt.Errorf("%q is no firmware version: numbers joined by dots are due", shorten(text))
		}
		v = append(v, int(n))
	}
	return v, nil
}

// Compare returns -1, 0 or 1, as v is before, the same as or after w. Numbers
// that one of them lacks count as 0.
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

// String joins the numbers by dots.
func (v Version) String() string {
	parts := make([]string, len(v))
	for i, n := range v {
		parts[i] = strconv.Itoa(n)
	}
	return strings.Join(parts, ".")
}

// Firmware asks for the version of the appliance's firmware.
func (c *Client) Firmware(ctx context.Context) (Version, error) {
	var v Version
	_, err := c.fetch(ctx, c.versionRequest(), func(body []byte) error {
		var answer struct{ Version string }
		if err := json.Unmarshal(body, &answer); err != nil {
			return fmt.Errorf("the answer does not tell the version: %w", err)
		}
		if answer.Version == "" {
			return errors.New("the answer does not tell the version")
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
