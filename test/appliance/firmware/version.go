// Package firmware implements the stand-in appliance's firmware: the versions that there are,
// and the images that install them.
package firmware

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// Version is a dotted version of the firmware, such as 26.3.0.1234.
type Version string

// numbers returns the first n parts. A part that is missing or not a number is 0.
func (v Version) numbers(n int) []int {
	numbers := make([]int, n)
	for i, part := range strings.SplitN(string(v), ".", n+1) {
		if i < n {
			numbers[i], _ = strconv.Atoi(part)
		}
	}
	return numbers
}

const parts = 4

// Before reports whether v is older than another version, comparing number by number.
func (v Version) Before(other Version) bool {
	return slices.Compare(v.numbers(parts), other.numbers(parts)) < 0
}

// Release is a series of versions, newest first.
type Release struct {
	Release  string    `json:"release"`
	Current  bool      `json:"current_release"` // whether it is the series of the installed version
	Versions []Version `json:"versions"`
}

// Next returns the releases that an appliance can be upgraded to, newest first: two fixes of
// the current release, and the first versions of the next two releases. What is offered
// depends on nothing but the current version.
func (v Version) Next() []Release {
	n := v.numbers(parts)
	var releases []Release
	for ahead := 2; ahead >= 0; ahead-- {
		r := Release{Release: fmt.Sprintf("%d.%d", n[0], n[1]+ahead), Current: ahead == 0}
		for fix := 2; fix >= 1; fix-- {
			patch := fix - 1
			if r.Current {
				patch = n[2] + fix
			}
			r.Versions = append(r.Versions, Version(fmt.Sprintf("%s.%d.%d", r.Release, patch, n[3]+ahead+fix)))
		}
		releases = append(releases, r)
	}
	return releases
}

// Offers reports whether an appliance can be upgraded to another version by name.
func (v Version) Offers(other Version) bool {
	return slices.ContainsFunc(v.Next(), func(r Release) bool { return slices.Contains(r.Versions, other) })
}

// Previous returns the version that an appliance had before v if it was not upgraded since it
// was delivered: the first of the release before.
func (v Version) Previous() Version {
	n := v.numbers(parts)
	const last = 9 // release of a year
	switch {
	case n[1] > 0:
		n[1]--
	case n[0] > 0:
		n[0], n[1] = n[0]-1, last
	}
	return Version(fmt.Sprintf("%d.%d.0.1", n[0], n[1]))
}

const dotted = `[0-9]{1,5}(?:\.[0-9]{1,5}){3}`

var (
	image = regexp.MustCompile(`\Afirmware (` + dotted + `)(?:\r?\n|\z)`)
	named = regexp.MustCompile(`(?:\A|[^0-9.])(` + dotted + `)(?:\z|\.?[^0-9.]|\.\z)`)
)

// Image returns the version that an image installs: its first line is the word firmware and
// the version. It reports false if it is no image.
func Image(b []byte) (Version, bool) {
	found := image.FindSubmatch(b)
	if found == nil {
		return "", false
	}
	return Version(found[1]), true
}

// Named returns the version that the name of an image's file contains. It reports false if
// there is none.
func Named(file string) (Version, bool) {
	found := named.FindStringSubmatch(file)
	if found == nil {
		return "", false
	}
	return Version(found[1]), true
}
