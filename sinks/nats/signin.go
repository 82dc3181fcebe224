package nats

import (
	"fmt"
	"regexp"

	nats "github.com/nats-io/nats.go"
	"github.com/nats-io/nkeys"

	"ndrbridge/internal/secretfile"
)

// userJWT matches the form of a JWT: three parts in base64.
var userJWT = regexp.MustCompile(`^[\w-]+\.[\w-]+\.[\w-]+$`)

// readCreds reads a credentials file. It does not use the library's reader, whose errors
// may quote the file, and which takes the seed for the JWT, and sends it, if there is a
// line break in the JWT.
func readCreds(file string) (nats.Option, error) {
	text, err := secretfile.Read(file)
	if err != nil {
		return nil, err
	}
	jwt, err := nkeys.ParseDecoratedJWT(text)
	if err != nil || !userJWT.MatchString(jwt) {
		return nil, fmt.Errorf("%s has no user JWT: write it on one line of its own between its headings", file)
	}
	seed, err := nkeys.ParseDecoratedNKey(text)
	if err != nil {
		return nil, fmt.Errorf("%s has no nkey seed: write it on one line of its own between its headings", file)
	}
	return nats.UserJWT(func() (string, error) { return jwt, nil }, seed.Sign), nil
}

// readNkey reads a file with the seed of a user's nkey.
func readNkey(file string) (nats.Option, error) {
	text, err := secretfile.Read(file)
	if err != nil {
		return nil, err
	}
	var public string
	seed, err := nkeys.ParseDecoratedNKey(text)
	if err == nil {
		public, err = seed.PublicKey()
	}
	if err != nil || !nkeys.IsValidPublicUserKey(public) {
		return nil, fmt.Errorf("%s has no seed of a user nkey: write it on one line of its own", file)
	}
	return nats.Nkey(public, seed.Sign), nil
}
