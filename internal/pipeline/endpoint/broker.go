package endpoint

import (
	"fmt"

	"ndrbridge/configs"
	"ndrbridge/internal/kafkaconn"
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
	if a := k.SASL.OAuth; k.SASL.Mechanism == "oauthbearer" && a != nil {
		secret, err := a.ClientSecret.Read()
		if err != nil {
			return kafka.Options{}, fmt.Errorf("sasl.oauth.client_secret: %w", err)
		}
		o.SASL = &kafkaconn.SASL{Mechanism: k.SASL.Mechanism, OAuth: &kafkaconn.OAuth{
			TokenURL: a.TokenURL.Value(), ClientID: a.ClientID, ClientSecret: secret, Scope: a.Scope, Audience: a.Audience, TLS: tlsConfig,
		}}
	} else if k.SASL.Mechanism == "aws_msk_iam" {
		o.SASL = &kafkaconn.SASL{Mechanism: k.SASL.Mechanism, Region: k.SASL.Region}
	} else if k.SASL.Mechanism != "" {
		password, err := k.SASL.Password.Read()
		if err != nil {
			return kafka.Options{}, fmt.Errorf("sasl.password: %w", err)
		}
		o.SASL = &kafkaconn.SASL{Mechanism: k.SASL.Mechanism, Username: k.SASL.Username, Password: password}
	}
	return o, nil
}

// NATS returns the options needed to connect to servers, with the secrets read.
func NATS(n configs.NATS) (nats.Options, error) {
	tlsConfig, err := optionalTLS(n.TLS)
	if err != nil {
		return nats.Options{}, err
	}
	token, err := n.Token.Read()
	if err != nil {
		return nats.Options{}, fmt.Errorf("token: %w", err)
	}
	password, err := n.Password.Read()
	if err != nil {
		return nats.Options{}, fmt.Errorf("password: %w", err)
	}
	return nats.Options{
		URL: n.URL.Value(), CredsFile: n.CredsFile, NkeyFile: n.NKeyFile, Token: token,
		Username: n.Username, Password: password, TLS: tlsConfig,
	}, nil
}
