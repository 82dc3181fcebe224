package kafka

import (
	"crypto/hmac"
	"crypto/pbkdf2"
	"crypto/rand"
	"crypto/subtle"
	"encoding/base64"
	"errors"
	"fmt"
	"hash"
	"strconv"
	"strings"
)

// scram is the client's side of one authentication with SCRAM (RFC 5802, RFC
// 7677), without channel binding. Like Kafka's brokers it takes usernames and
// passwords as they are, without SASLprep.
type scram struct {
	hash     func() hash.Hash
	username string
	password string
	nonce    string

	firstBare string // client-first-message-bare
	server    []byte // the signature that the server must show
}

// newNonce returns what makes an exchange unlike any other.
func newNonce() string { return rand.Text() }

// first is the client-first-message.
func (s *scram) first() []byte {
	name := strings.NewReplacer("=", "=3D", ",", "=2C").Replace(s.username)
	s.firstBare = "n=" + name + ",r=" + s.nonce
	return []byte("n,," + s.firstBare)
}

// final answers the server-first-message with the client-final-message.
func (s *scram) final(challenge []byte) ([]byte, error) {
	var nonce, salt, iterations string
	for attribute := range strings.SplitSeq(string(challenge), ",") {
		switch name, value, _ := strings.Cut(attribute, "="); name {
		case "r":
			nonce = value
		case "s":
			salt = value
		case "i":
			iterations = value
		case "m", "e":
			return nil, errors.New("SCRAM: the server refuses the exchange")
		}
	}
	if !strings.HasPrefix(nonce, s.nonce) || nonce == s.nonce {
		return nil, errors.New("SCRAM: the server does not answer to this exchange")
	}
	salted, err := base64.StdEncoding.DecodeString(salt)
	if err != nil {
		return nil, fmt.Errorf("SCRAM: the server's salt: %w", err)
	}
	// Brokers demand 4096 iterations and more (RFC 7677, section 4); the upper
	// bound keeps a false one from holding the sink up.
	count, err := strconv.Atoi(iterations)
	if err != nil || count < 4096 || count > 10_000_000 {
		return nil, fmt.Errorf("SCRAM: the server asks for %q iterations", iterations)
	}
	password, err := pbkdf2.Key(s.hash, s.password, salted, count, s.hash().Size())
	if err != nil {
		return nil, fmt.Errorf("SCRAM: %w", err)
	}
	withoutProof := "c=biws,r=" + nonce // biws: "n,,", no channel binding
	message := []byte(s.firstBare + "," + string(challenge) + "," + withoutProof)

	clientKey := s.mac(password, []byte("Client Key"))
	digest := s.hash()
	digest.Write(clientKey)
	proof := s.mac(digest.Sum(nil), message)
	subtle.XORBytes(proof, proof, clientKey)
	s.server = s.mac(s.mac(password, []byte("Server Key")), message)
	return []byte(withoutProof + ",p=" + base64.StdEncoding.EncodeToString(proof)), nil
}

// verify checks the server-final-message: that the server knows the password
// too.
func (s *scram) verify(answer []byte) error {
	first, _, _ := strings.Cut(string(answer), ",")
	signature, ok := strings.CutPrefix(first, "v=")
	if !ok {
		return errors.New("SCRAM: the server refuses the password")
	}
	got, err := base64.StdEncoding.DecodeString(signature)
	if err != nil || !hmac.Equal(got, s.server) {
		return errors.New("SCRAM: the server does not know the password itself")
	}
	return nil
}

func (s *scram) mac(key, message []byte) []byte {
	mac := hmac.New(s.hash, key)
	mac.Write(message)
	return mac.Sum(nil)
}
