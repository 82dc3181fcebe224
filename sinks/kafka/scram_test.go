package kafka

import (
	"crypto/sha1"
	"crypto/sha256"
	"hash"
	"strings"
	"testing"
)

// The exchanges are the examples of RFC 5802, section 5, and RFC 7677, section 3.
var scramExamples = []struct {
	name                            string
	hash                            func() hash.Hash
	nonce, challenge, final, answer string
}{
	{
		"RFC 5802", sha1.New, "fyko+d2lbbFgONRv9qkxdawL",
		"r=fyko+d2lbbFgONRv9qkxdawL3rfcNHYJY1ZVvWVs7j,s=QSXCR+Q6sek8bf92,i=4096",
		"c=biws,r=fyko+d2lbbFgONRv9qkxdawL3rfcNHYJY1ZVvWVs7j,p=v0X8v3Bz2T0CJGbJQyF0X+HI4Ts=",
		"v=rmF9pqV8S7suAoZWja4dJRkFsKQ=",
	},
	{
		"RFC 7677", sha256.New, "rOprNGfwEbeRWgbNEkqO",
		"r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096",
		"c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ=",
		"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4=",
	},
}

func TestScramAnswersAsTheExamplesOfTheRFCs(t *testing.T) {
	for _, example := range scramExamples {
		t.Run(example.name, func(t *testing.T) {
			s := &scram{hash: example.hash, username: "user", password: "pencil", nonce: example.nonce}
			if got, want := string(s.first()), "n,,n=user,r="+example.nonce; got != want {
				t.Errorf("first message %q, not %q", got, want)
			}
			final, err := s.final([]byte(example.challenge))
			if err != nil || string(final) != example.final {
				t.Errorf("final message %q, not %q (%v)", final, example.final, err)
			}
			if err := s.verify([]byte(example.answer)); err != nil {
				t.Error(err)
			}
		})
	}
}

func TestScramTrustsNoServerThatDoesNotKnowThePassword(t *testing.T) {
	example := scramExamples[1]
	for name, answers := range map[string][2]string{
		"a nonce that is not ours":        {strings.Replace(example.challenge, "rOpr", "xOpr", 1), ""},
		"a nonce without a server's part": {"r=" + example.nonce + ",s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096", ""},
		"too few iterations":              {strings.Replace(example.challenge, "4096", "1", 1), ""},
		"a great many iterations":         {strings.Replace(example.challenge, "4096", "4000000000", 1), ""},
		"a salt that is not base64":       {strings.Replace(example.challenge, "W22Z", "****", 1), ""},
		"an unknown extension":            {"m=x," + example.challenge, ""},
		"a wrong signature":               {example.challenge, "v=" + strings.Repeat("A", 43) + "="},
		"an error instead of one":         {example.challenge, "e=invalid-proof"},
	} {
		t.Run(name, func(t *testing.T) {
			s := &scram{hash: example.hash, username: "user", password: "pencil", nonce: example.nonce}
			s.first()
			_, err := s.final([]byte(answers[0]))
			if err == nil && answers[1] != "" {
				err = s.verify([]byte(answers[1]))
			}
			if err == nil {
				t.Error("no error")
			}
		})
	}
}

func TestScramEscapesTheUsername(t *testing.T) {
	s := &scram{username: "a=b,c", nonce: "x"}
	if got := string(s.first()); got != "n,,n=a=3Db=2Cc,r=x" {
		t.Error(got)
	}
}
