package configs

import (
	"fmt"

	"ndrbridge/internal/secretfile"
)

// WebhookSign is how requests are signed: with each of the secrets, as Standard
// Webhooks says; the old one and the new one while a secret is being changed. Without
// any they are not signed. It goes neither with gzip, nor with a preset, nor with mode
// binary.
type WebhookSign struct {
	// Secrets are the secrets: whsec_ and base64 of 24 to 64 bytes each.
	Secrets Secrets `yaml:"secrets" env:"SECRETS"`
	// SecretFiles are the paths of files that hold one such secret each.
	SecretFiles []string `yaml:"secret_files" env:"SECRET_FILES"`
}

// IsSet reports whether requests are signed.
func (s WebhookSign) IsSet() bool { return len(s.Secrets)+len(s.SecretFiles) > 0 }

// Read gives all secrets, those in files read again. The error is that of
// Secret.Read.
func (s WebhookSign) Read() ([]string, error) {
	var all []string
	for _, secret := range s.each() {
		text, err := secret.Read()
		if err != nil {
			return nil, err
		}
		all = append(all, text)
	}
	return all, nil
}

// each is the secrets, those in files behind the others.
func (s WebhookSign) each() []Secret {
	all := append([]Secret(nil), s.Secrets...)
	for _, file := range s.SecretFiles {
		all = append(all, Secret{File: file})
	}
	return all
}

// WebhookHandshake is the CloudEvents handshake, by which the receiver allows that
// events are sent.
type WebhookHandshake struct {
	// Origin is the DNS name by which the receiver knows the bridge.
	Origin string `yaml:"origin" env:"ORIGIN" required:"true"`
	// Rate is how many requests a minute are asked for.
	Rate int `yaml:"rate" env:"RATE" default:"6000" min:"1"`
}

// HasTemplate reports whether a template makes the bodies.
func (w Webhook) HasTemplate() bool { return w.Template != "" || w.TemplateFile != "" }

// ReadTemplate gives the text of the template, that of a file read again; empty:
// none.
func (w Webhook) ReadTemplate() (string, error) {
	if w.TemplateFile == "" {
		return w.Template, nil
	}
	text, err := secretfile.Read(w.TemplateFile)
	if err != nil {
		return "", fmt.Errorf("read template: %w", err)
	}
	return string(text), nil
}
