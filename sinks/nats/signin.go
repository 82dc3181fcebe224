package nats

import (
	"fmt"
	"regexp"

	nats "github.com/nats-io/nats.go"
	"github.com/nats-io/nkeys"

	"ndrbridge/internal/secretfile"
)

// userJWT is what a JWT looks like: three parts of base64.
var userJWT = regexp.MustCompile(`^[\w-]+\.[\w-]+\.[\w-]+$`)

// readCreds reads a credentials file. The library's errors may hold what is in the file,
// and it takes a seed for the JWT, and sends it, where a line break is within the JWT.
func readCreds(file string) (nats.Option, error) {
	text, err := secretfile.Read(file)
	if err != nil {
		return nil, err
	}
	jwt, err := nkeys.ParseDecoratedJWT(text)
	if err != nil || !userJWT.MatchString(jwt) {
		return nil, fmt.Errorf("%s holds no JWT of a user: write it alone, on one line between its headings", file)
	}
	seed, err := nkeys.ParseDecoratedNKey(text)
	if err != nil {
		return nil, fmt.Errorf("%s holds no seed of an nkey beside the JWT: write it alone, on one line between its headings", file)
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
		return nil, fmt.Errorf("%s holds no seed of a user's nkey: write it alone, on one line", file)
	}
	return nats.Nkey(public, seed.Sign), nil
}
