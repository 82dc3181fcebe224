package endpoint

import (
	"fmt"

	"ndrbridge/configs"
	"ndrbridge/internal/kafkaconn"
	"ndrbridge/internal/oauthtoken"
	"ndrbridge/sinks/kafka"
	"ndrbridge/sinks/nats"
)

// Kafka returns the options needed to connect to brokers, with the secrets read.
func Kafka(k configs.Kafka) (kafka.Options, error) {
	tlsConfig, err := optionalTLS(k.TLS)
	if err != nil {
		return kafka.Options{}, err
	}
	o := kafka.Options{Brokers: k.Brokers, TLS: tlsConfig}
	var secrets secretReader
	if a := k.SASL.OAuth; k.SASL.Mechanism == "oauthbearer" && a != nil {
		o.SASL = &kafkaconn.SASL{Mechanism: k.SASL.Mechanism, TLS: tlsConfig, OAuth: &oauthtoken.Grant{
			TokenURL: a.TokenURL.Value(), ClientID: a.ClientID, ClientSecret: secrets.read("sasl.oauth.client_secret", a.ClientSecret),
			Scope: a.Scope, Audience: a.Audience,
		}}
	} else if k.SASL.Mechanism == "aws_msk_iam" {
		o.SASL = &kafkaconn.SASL{Mechanism: k.SASL.Mechanism, Region: k.SASL.Region}
	} else if k.SASL.Mechanism != "" {
		o.SASL = &kafkaconn.SASL{Mechanism: k.SASL.Mechanism, Username: k.SASL.Username, Password: secrets.read("sasl.password", k.SASL.Password)}
	}
	return o, secrets.err
}

// NATS returns the options needed to connect to servers, with the secrets read.
func NATS(n configs.NATS) (nats.Options, error) {
	tlsConfig, err := optionalTLS(n.TLS)
	if err != nil {
		return nats.Options{}, err
	}
	var secrets secretReader
	o := nats.Options{
		URL: n.URL.Value(), CredsFile: n.CredsFile, NkeyFile: n.NKeyFile, Token: secrets.read("token", n.Token),
		Username: n.Username, Password: secrets.read("password", n.Password), TLS: tlsConfig,
	}
	return o, secrets.err
}

// secretReader reads secrets of a configuration.
type secretReader struct{ err error } // the first error

// read returns a secret. key names it in the error.
func (r *secretReader) read(key string, s configs.Secret) string {
	text, err := s.Read()
	if err != nil && r.err == nil {
		r.err = fmt.Errorf("%s: %w", key, err)
	}
	return text
}
