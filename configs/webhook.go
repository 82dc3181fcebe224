package configs

import (
	"fmt"

	"ndrbridge/internal/secretfile"
)

// WebhookSign signs requests as defined by Standard Webhooks, with each of the secrets:
// set the old and the new one while you change a secret. Without secrets, requests are
// not signed. It cannot be combined with gzip, a preset, or mode binary.
type WebhookSign struct {
	// Secrets are the secrets, each whsec_ followed by the base64 of 24 to 64 bytes.
	Secrets Secrets `yaml:"secrets" env:"SECRETS"`
	// SecretFiles are the paths of files, each with one secret.
	SecretFiles []string `yaml:"secret_files" env:"SECRET_FILES"`
}

// IsSet reports whether requests are signed.
func (s WebhookSign) IsSet() bool { return len(s.Secrets)+len(s.SecretFiles) > 0 }

// Read returns all secrets. It reads files again at each call. Errors are those of
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

// each returns all secrets, those in files last.
func (s WebhookSign) each() []Secret {
	all := append([]Secret(nil), s.Secrets...)
	for _, file := range s.SecretFiles {
		all = append(all, Secret{File: file})
	}
	return all
}

// WebhookHandshake configures the CloudEvents handshake, in which the receiver grants
// permission to send events and may limit the rate. The bridge keeps to that limit.
type WebhookHandshake struct {
	// Origin is the DNS name that identifies the bridge to the receiver.
	Origin string `yaml:"origin" env:"ORIGIN" required:"true"`
	// Rate is the number of requests per minute to ask for.
	Rate int `yaml:"rate" env:"RATE" default:"6000" min:"1"`
}

// HasTemplate reports whether a template renders the bodies.
func (w Webhook) HasTemplate() bool { return w.Template != "" || w.TemplateFile != "" }

// ReadTemplate returns the text of the template, or "" if there is none. It reads a
// template file again at each call.
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
