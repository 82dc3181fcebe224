package replicatedtest

import (
	"strings"

	"github.com/nats-io/nats-server/v2/server"

	"ndrbridge/checkpoint/replicated"
)

// Permissions returns the permissions of replicated.Rights for a cluster.
func Permissions(cluster string) *server.Permissions {
	publish, subscribe, _ := strings.Cut(strings.ReplaceAll(strings.TrimPrefix(replicated.Rights, "publish:"), "NAME", cluster), "subscribe:")
	return &server.Permissions{
		Publish:   &server.SubjectPermission{Allow: strings.Fields(publish)},
		Subscribe: &server.SubjectPermission{Allow: strings.Fields(subscribe)},
	}
}
