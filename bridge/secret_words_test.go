package bridge_test

import (
	"encoding/base64"
	"encoding/hex"
	"maps"
	"net/url"
	"os"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"ndrbridge/configs"
)

// secrets are the secrets of a configuration by the paths of their keys, without
// the indexes of lists.
type secrets map[string][]string

// publicFiles are the keys that name files in which no secret is.
var publicFiles = []string{"ca_file", "cert_file", "template_file"}

// secretKeys are the paths of all keys that can hold a secret.
func secretKeys(t reflect.Type, path string, all map[string]bool) {
	switch t {
	case reflect.TypeFor[configs.Secret](), reflect.TypeFor[configs.Secrets](), reflect.TypeFor[configs.URL](), reflect.TypeFor[configs.Headers]():
		all[path] = true
		return
	}
	switch t.Kind() {
	case reflect.Pointer, reflect.Slice:
		secretKeys(t.Elem(), path, all)
	case reflect.Struct:
		for field := range t.Fields() {
			if key := field.Tag.Get("yaml"); key != "" {
				secretKeys(field.Type, strings.TrimPrefix(path+"."+key, "."), all)
			}
		}
	case reflect.String:
		key := path[strings.LastIndexByte(path, '.')+1:]
		if (strings.HasSuffix(key, "_file") || strings.HasSuffix(key, "_files")) && !slices.Contains(publicFiles, key) {
			all[path] = true
		}
	}
}

// collect takes what a configuration has at the keys.
func (s secrets) collect(t *testing.T, v reflect.Value, path string, keys map[string]bool) {
	t.Helper()
	add := func(texts ...string) {
		for _, text := range texts {
			if text != "" {
				s[path] = append(s[path], text)
			}
		}
	}
	switch value := v.Interface().(type) {
	case configs.Secret:
		text, err := value.Read()
		if err != nil {
			t.Fatal(err)
		}
		add(text)
		return
	case configs.Secrets:
		for _, secret := range value {
			s.collect(t, reflect.ValueOf(secret), path, keys)
		}
		return
	case configs.Headers:
		for secret := range maps.Values(value) {
			s.collect(t, reflect.ValueOf(secret), path, keys)
		}
		return
	case configs.URL:
		for part := range strings.SplitSeq(value.Value(), ",") {
			u, err := url.Parse(part)
			if err != nil {
				t.Fatal(err)
			}
			password, _ := u.User.Password()
			add(password)
			for _, values := range u.Query() {
				add(values...)
			}
			for segment := range strings.SplitSeq(u.Path, "/") {
				if marker.MatchString(segment) {
					add(segment)
				}
			}
		}
		return
	}
	switch v.Kind() {
	case reflect.Pointer:
		if !v.IsNil() {
			s.collect(t, v.Elem(), path, keys)
		}
	case reflect.Slice:
		for i := range v.Len() {
			s.collect(t, v.Index(i), path, keys)
		}
	case reflect.Struct:
		for field, value := range v.Fields() {
			if key := field.Tag.Get("yaml"); key != "" {
				s.collect(t, value, strings.TrimPrefix(path+"."+key, "."), keys)
			}
		}
	case reflect.String:
		if keys[path] && v.String() != "" {
			text, err := os.ReadFile(v.String())
			if err != nil {
				t.Fatal(err)
			}
			for line := range strings.Lines(string(text)) {
				if line = strings.TrimSpace(line); line != "" && !strings.HasPrefix(line, "-") {
					add(line)
				}
			}
		}
	}
}

// marker is the part of a secret that looks the same percent-encoded, and escaped
// for JSON, Go and HTML. The rest of the secret does not, so that only what knows
// those forms finds it.
var marker = regexp.MustCompile(`zq[A-Za-z0-9]{8,}`)

// leaks finds secrets in texts.
type leaks struct{ forms map[string]string } // their keys by what they look like

func newLeaks(all secrets) leaks {
	l := leaks{make(map[string]string)}
	for key, values := range all {
		for _, value := range values {
			core := marker.FindString(value)
			if core == "" {
				core = strings.TrimPrefix(value, "whsec_")
			}
			l.forms[core] = key
			l.forms[hex.EncodeToString([]byte(core))] = key + " in hex"
			// What base64 makes of a text depends on where in the whole it stands. The
			// characters at its ends are not its alone.
			for before := range 3 {
				encoded := base64.RawStdEncoding.EncodeToString([]byte(strings.Repeat("x", before) + core))
				whole := (before + len(core)) / 3 * 4
				l.forms[encoded[(before*8+5)/6:whole]] = key + " in base64"
			}
		}
	}
	return l
}

// in fails the test for each secret in a text.
func (l leaks) in(t *testing.T, where, text string) {
	t.Helper()
	std := strings.NewReplacer("-", "+", "_", "/").Replace(text) // base64 of both alphabets
	for form, key := range l.forms {
		if strings.Contains(text, form) || strings.Contains(std, form) {
			t.Errorf("%s shows %s: %s", where, key, text)
		}
	}
}
