package appliance

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"

	"ndrbridge/internal/secretfile"
)

// credential is what one request is signed in with.
type credential struct {
	header  string   // the value of Authorization
	secrets []string // texts that no error may hold
}

// authority gives out credentials. Its methods are safe for concurrent use.
type authority interface {
	// credential returns what to sign in with: what was returned before, until
	// that ends or was refused.
	credential(ctx context.Context) (credential, error)
	// refused says that c was not accepted.
	refused(c credential)
	// advice is what a person can do about a refusal.
	advice() string
}

// keyAuthority signs in with an API key.
type keyAuthority struct {
	read   func() (string, error)
	scheme string

	mu      sync.Mutex
	current credential // zero: to be read
}

func (k *keyAuthority) credential(context.Context) (credential, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.current.header != "" {
		return k.current, nil
	}
	key, err := k.read()
	if err != nil {
		return credential{}, fmt.Errorf("read the API key: %w", err)
	}
	if key = strings.TrimSpace(key); key == "" {
		return credential{}, errors.New("read the API key: it is empty")
	}
	// Not kept: what cannot be sent is never refused, and would never be read again.
	if secretfile.HasControl(key) {
		return credential{}, errors.New("read the API key: it has a line break or another control character: write the key alone, on one line")
	}
	k.current = credential{header: k.scheme + " apikey=" + key, secrets: []string{key}}
	return k.current, nil
}

func (k *keyAuthority) refused(c credential) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.current.header == c.header {
		k.current = credential{}
	}
}

func (k *keyAuthority) advice() string {
	return "check the API key, and what its owner may do on the appliance"
}
