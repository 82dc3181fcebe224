package firmware_test

import (
	"testing"

	"pgregory.net/rapid"

	"ndrbridge/test/appliance/firmware"
)

func TestVersionsAreComparedNumberByNumber(t *testing.T) {
	for _, test := range []struct {
		version, other firmware.Version
		before         bool
	}{
		{"9.2.8.1", "9.3", true},
		{"9.3.0.1", "9.3", false},
		{"9.3", "26.3.0.1234", true},
		{"26.3.0.1234", "9.3", false},
		{"26.3.0.99", "26.3.0.100", true},
		{"26.3", "26.3.0.0", false},
		{"dev", "0.0.0.1", true},
	} {
		if got := test.version.Before(test.other); got != test.before {
			t.Errorf("%s is before %s: %v, want %v", test.version, test.other, got, test.before)
		}
	}
}

func TestVersionsThatAreOfferedAreNewer(t *testing.T) {
	part := rapid.StringMatching(`0|[1-9][0-9]{0,4}`)
	rapid.Check(t, func(t *rapid.T) {
		v := firmware.Version(part.Draw(t, "a") + "." + part.Draw(t, "b") + "." + part.Draw(t, "c") + "." + part.Draw(t, "d"))
		last := firmware.Version("")
		for _, release := range v.Next() {
			for _, next := range release.Versions {
				if !v.Before(next) || !v.Offers(next) || next.Before(v) {
					t.Fatalf("%s is offered for %s", next, v)
				}
				if last != "" && !next.Before(last) {
					t.Fatalf("%s comes after %s, want the newest first", next, last)
				}
				last = next
			}
		}
		if v.Offers(v) {
			t.Fatalf("%s is offered for itself", v)
		}
	})
}

func TestImagesNameTheirVersion(t *testing.T) {
	for _, test := range []struct {
		file string
		want firmware.Version
	}{
		{"firmware-26.4.0.1.tar", "26.4.0.1"},
		{"26.4.0.1", "26.4.0.1"},
		{"sensor_26.4.0.1-rc1.tar.xz", "26.4.0.1"},
		{"v26.4.0.1.", "26.4.0.1"},
		{"26.4.0", ""},
		{"26.4.0.1.7", ""},
		{"26.4.0.123456", ""},
		{"", ""},
	} {
		if got, ok := firmware.Named(test.file); got != test.want || ok != (test.want != "") {
			t.Errorf("the file %q has the version %q, %v, want %q", test.file, got, ok, test.want)
		}
	}
	for _, test := range []struct {
		image string
		want  firmware.Version
	}{
		{"firmware 26.4.0.1", "26.4.0.1"},
		{"firmware 26.4.0.1\r\nand more", "26.4.0.1"},
		{"firmware 26.4.0.1 and more", ""},
		{"firmware 26.4.0.", ""},
		{" firmware 26.4.0.1", ""},
	} {
		if got, ok := firmware.Image([]byte(test.image)); got != test.want || ok != (test.want != "") {
			t.Errorf("the image %q has the version %q, %v, want %q", test.image, got, ok, test.want)
		}
	}
}
