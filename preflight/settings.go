package preflight

import (
	"context"
	"time"

	"ndrbridge/admin"
	"ndrbridge/bridge"
	"ndrbridge/configs"
	"ndrbridge/preflight/finding"
)

// CheckSettings checks what a bridge with the configuration needs on this machine: the
// state, which is opened for reading but not read in full, the address of the admin
// interface, and everything that the parts are made of, such as certificates. It
// changes nothing and contacts nothing, except a bridge that holds the admin address.
func CheckSettings(ctx context.Context, config *configs.Config, version string) []finding.Finding {
	return append(checkState(config, true), checkParts(ctx, config, version)...)
}

// checkParts makes every part as the start of a bridge does, and returns a finding for
// each part that cannot be made.
func checkParts(ctx context.Context, config *configs.Config, version string) []finding.Finding {
	found := checkAdmin(ctx, config.Admin)
	for _, err := range bridge.Try(ctx, config, version) {
		found = append(found, finding.Of(err.Part, unusable(err.Err))...)
	}
	return found
}

// checkAdmin briefly listens on the address of the admin interface. It only warns if a
// bridge holds the address: most likely that bridge runs with this configuration.
func checkAdmin(ctx context.Context, a configs.Admin) []finding.Finding {
	_, listener, failed := bridge.OpenAdmin(a)
	if failed == nil {
		_ = listener.Close()
		return nil
	}
	f := finding.Failure(failed.Part, failed.Err)
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	if failed.Part == "admin.listen" && admin.IsBridge(ctx, "http://"+admin.DialAddress(a.Listen)) {
		f.Result, f.Advice = finding.Warning, "a bridge runs there: nothing has to be done if it runs with this configuration; otherwise choose another address"
	}
	return finding.Of(configuration, []finding.Finding{f})
}
