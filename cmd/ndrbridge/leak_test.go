package main

import (
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"maps"
	"net/url"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"

	"ndrbridge/configs"
	"ndrbridge/test/require"
)

// marker is what every secret of these tests has in it. It stays as it is where a
// secret is escaped, in whatever form.
const marker = "sesame"

// secretive are the secrets that a configuration holds, by the general path of their
// keys.
type secretive map[string][]string

// secretsIn reads a configuration by its types: a key of a kind that may hold a
// secret is found here as soon as there is one.
func secretsIn(t *testing.T, config *configs.Config) secretive {
	t.Helper()
	found := make(secretive)
	walk(t, "", reflect.ValueOf(config).Elem(), func(path, secret string) { found[path] = append(found[path], secret) })
	return found
}

// keysOfSecrets are the paths of all keys that may hold a secret.
func keysOfSecrets(t *testing.T) []string {
	t.Helper()
	found := make(map[string]bool)
	walk(t, "", fullOf(reflect.TypeFor[configs.Config]()), func(path, _ string) { found[path] = true })
	return slices.Sorted(maps.Keys(found))
}

// fullOf is a value of a type in which nothing is nil and no list empty.
func fullOf(typ reflect.Type) reflect.Value {
	v := reflect.New(typ).Elem()
	switch typ.Kind() {
	case reflect.Pointer:
		v.Set(reflect.New(typ.Elem()))
		v.Elem().Set(fullOf(typ.Elem()))
	case reflect.Slice:
		v.Set(reflect.Append(v, fullOf(typ.Elem())))
	case reflect.Map:
		v.Set(reflect.MakeMap(typ))
		v.SetMapIndex(reflect.ValueOf("X"), fullOf(typ.Elem()))
	case reflect.Struct:
		for i := range typ.NumField() {
			f := typ.Field(i)
			isRecursive := f.Type.Kind() == reflect.Slice && f.Type.Elem() == typ // rules of a record filter
			if (f.Anonymous || f.Tag.Get("yaml") != "") && !isRecursive {
				v.Field(i).Set(fullOf(f.Type))
			}
		}
	}
	return v
}

// notSecret are the files that hold none, and the URLs that are refused with one.
var notSecret = []string{"ca_file", "client_ca_file", "cert_file", "template_file", "endpoint"}

// walk calls found for the secret of each key that can hold one, and once for a key
// that has none.
func walk(t *testing.T, path string, v reflect.Value, found func(path, secret string)) {
	key := path[strings.LastIndexByte(path, '.')+1:]
	file := func(name string) {
		text, err := os.ReadFile(name)
		if err != nil && name != "" {
			t.Fatal(err)
		}
		found(path, string(text))
	}
	switch value := v.Interface().(type) {
	case configs.Secret:
		secret := require.Value(value.Read())(t)
		found(path, secret)
		return
	case configs.URL:
		if slices.Contains(notSecret, key) {
			return
		}
		u := require.Value(url.Parse(value.Value()))(t)
		found(path, u.User.String())
		found(path, u.RawQuery)
		return
	case string:
		if strings.HasSuffix(key, "_file") && !slices.Contains(notSecret, key) {
			file(value)
		}
		return
	case []string:
		if strings.HasSuffix(key, "_files") {
			for _, name := range value {
				file(name)
			}
		}
		return
	}
	switch v.Kind() {
	case reflect.Pointer:
		if !v.IsNil() {
			walk(t, path, v.Elem(), found)
		}
	case reflect.Slice:
		for i := range v.Len() {
			walk(t, path, v.Index(i), found)
		}
	case reflect.Map:
		for _, name := range v.MapKeys() {
			walk(t, path, v.MapIndex(name), found)
		}
	case reflect.Struct:
		for i := range v.NumField() {
			switch f := v.Type().Field(i); {
			case f.Anonymous:
				walk(t, path, v.Field(i), found)
			case f.Tag.Get("yaml") != "":
				walk(t, strings.TrimPrefix(path+"."+f.Tag.Get("yaml"), "."), v.Field(i), found)
			}
		}
	}
}

// needles are what a text must not hold: what can be known again of the secrets, in
// whatever form.
func (s secretive) needles() []string {
	all := needlesOf(marker)
	for _, secrets := range s {
		for _, secret := range secrets {
			for line := range strings.Lines(secret) {
				if line = strings.TrimSpace(line); !strings.Contains(line, marker) && !strings.Contains(line, " ") && line != "" {
					all = append(all, line) // a key in a file
				}
			}
		}
	}
	return all
}

// needlesOf are the forms of a word without characters that are escaped.
func needlesOf(word string) []string {
	forms := []string{word, hex.EncodeToString([]byte(word))}
	for before := range 3 {
		// What stands around the word changes the characters at the ends.
		whole := base64.RawStdEncoding.EncodeToString(append(make([]byte, before), word...))
		forms = append(forms, whole[(before*8+5)/6:(before+len(word))*8/6])
	}
	return forms
}

// expectNone reports an error for each secret in a text.
func expectNone(t *testing.T, where, text string, needles []string) {
	t.Helper()
	reported := make(map[string]bool)
	for _, needle := range needles {
		if at := strings.Index(text, needle); at >= 0 {
			around := text[max(0, at-300):min(len(text), at+60)]
			if !reported[around] {
				reported[around] = true
				t.Errorf("%s shows %s: …%s…", where, needle, around)
			}
		}
	}
}

func TestLeaksAreFoundInEveryForm(t *testing.T) {
	const secret = "a/sesame001+é"
	needles := needlesOf(marker)
	for _, text := range []string{
		secret, url.QueryEscape(secret), url.PathEscape(secret), fmt.Sprintf("%q %+q", secret, secret), fmt.Sprintf("%x", secret),
		base64.StdEncoding.EncodeToString([]byte("user:" + secret)), base64.URLEncoding.EncodeToString([]byte("u:" + secret)), base64.StdEncoding.EncodeToString([]byte(secret)),
	} {
		if !slices.ContainsFunc(needles, func(needle string) bool { return strings.Contains(text, needle) }) {
			t.Errorf("%s is not seen", text)
		}
	}
}
