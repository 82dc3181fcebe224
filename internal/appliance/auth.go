package appliance

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"

	"ndrbridge/internal/secretfile"
)

// credential authorizes one request.
type credential struct {
	header  string   // the value of Authorization
	secrets []string // must not appear in errors
}

// authority provides credentials. Its methods are safe for concurrent use.
type authority interface {
	// credential returns the current credential, until it expires or is refused; then a
	// new one.
	credential(ctx context.Context) (credential, error)
	// refused reports that c was not accepted.
	refused(c credential)
	// advice returns what the user can do about a refusal.
	advice() string
}

// keyAuthority authorizes with an API key.
type keyAuthority struct {
	read   func() (string, error)
	scheme string

	mu      sync.Mutex
	current credential // zero if it must be read
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
	// Do not keep it: a key that cannot be sent is never refused, so it would never be
	// read again.
	if secretfile.HasControl(key) {
		return credential{}, errors.New("read the API key: it contains a line break or another control character; the file must contain only the key, on one line")
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
	return "check the API key, and its owner's privileges on the appliance"
}
