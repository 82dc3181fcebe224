package main

import (
	"crypto/tls"
	"errors"
	"fmt"
	"io/fs"
	"strings"

	"github.com/spf13/pflag"

	"ndrbridge/cmd/internal/commandline"
	"ndrbridge/configs"
	"ndrbridge/internal/admin"
	"ndrbridge/internal/secretfile"
)

// givenTLS holds the flags for the HTTPS of an address that is given with --admin.
type givenTLS struct {
	caFile, certFile, keyFile string
}

func (t *givenTLS) addFlags(flags *pflag.FlagSet) {
	flags.StringVar(&t.caFile, "ca-file", "", "a PEM file with the authorities to trust instead of the system's; requires --admin")
	flags.StringVar(&t.certFile, "cert-file", "", "a PEM file with a client certificate; requires --admin and --key-file")
	flags.StringVar(&t.keyFile, "key-file", "", "a PEM file with the private key of --cert-file")
}

func (t givenTLS) isSet() bool { return t != givenTLS{} }

// config returns the configuration that the flags describe.
func (t givenTLS) config() (_ *tls.Config, err error) {
	c := &tls.Config{MinVersion: tls.VersionTLS12}
	if (t.certFile == "") != (t.keyFile == "") {
		return nil, fmt.Errorf("%w: --cert-file and --key-file must be given together", commandline.ErrUsage)
	}
	if t.caFile != "" {
		if c.RootCAs, err = secretfile.Authorities("--ca-file", t.caFile); err != nil {
			return nil, err
		}
	}
	if t.certFile != "" {
		pair, err := secretfile.KeyPair("--cert-file", t.certFile, "--key-file", t.keyFile)
		if err != nil {
			return nil, err
		}
		c.Certificates = []tls.Certificate{*pair}
	}
	return c, nil
}

// givenClient returns a client for the flags --admin, --token-file and the HTTPS flags.
func (c *command) givenClient() (*admin.Client, error) {
	token := ""
	if c.tokenFile != "" {
		text, err := (configs.Secret{File: c.tokenFile}).Read()
		if err != nil {
			if errors.Is(err, fs.ErrNotExist) {
				err = fmt.Errorf("%w; give the path of a file that contains the token", err)
			}
			return nil, fmt.Errorf("--token-file: %w", err)
		}
		token = strings.TrimSpace(text)
	}
	client, err := admin.NewClient(c.adminURL, token)
	if err != nil {
		return nil, fmt.Errorf("%w: --admin: %w", commandline.ErrUsage, err)
	}
	if !c.givenTLS.isSet() {
		return client, nil
	}
	if !strings.HasPrefix(strings.ToLower(c.adminURL), "https:") {
		return nil, fmt.Errorf("%w: --ca-file, --cert-file and --key-file require an address with https: %s", commandline.ErrUsage, c.adminURL)
	}
	config, err := c.givenTLS.config()
	if err != nil {
		return nil, err
	}
	client.UseTLS(config)
	return client, nil
}

// errOnlyGiven returns an error if a flag was given that requires --admin.
func (c *command) errOnlyGiven() error {
	switch {
	case c.tokenFile != "":
		return fmt.Errorf("%w: --token-file requires --admin; otherwise the token is read from the configuration", commandline.ErrUsage)
	case c.givenTLS.isSet():
		return fmt.Errorf("%w: --ca-file, --cert-file and --key-file require --admin; otherwise admin.tls of the configuration is used", commandline.ErrUsage)
	}
	return nil
}
