package preflight

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"strings"
	"time"

	"ndrbridge/checkpoint"
	"ndrbridge/configs"
	"ndrbridge/internal/admin"
	"ndrbridge/internal/bridge"
	"ndrbridge/internal/finding"
	"ndrbridge/internal/pipeline"
)

// CheckSettings checks what a bridge with the configuration needs on this machine: the
// state, which is opened for reading but not read in full, the address of the admin
// interface, and everything that the parts are made of, such as certificates. It
// changes nothing and contacts nothing, except a bridge that holds the admin address.
func CheckSettings(ctx context.Context, config *configs.Config, version string) []finding.Finding {
	found := finding.Of(configuration, append(checkSecrets(config), checkMember(config)...))
	return append(append(found, checkState(config, true)...), checkParts(ctx, config, version)...)
}

// checkParts makes every part as the start of a bridge does, and returns a finding for
// each part that cannot be made. If a bridge holds the address of the admin interface, it only
// warns, or remarks that the bridge uses the state of this configuration.
func checkParts(ctx context.Context, config *configs.Config, version string) (found []finding.Finding) {
	for _, err := range bridge.Try(ctx, config, version) {
		part, ok := errors.AsType[*pipeline.PartError](err)
		if !ok {
			part = &pipeline.PartError{Part: configuration, Err: err}
		}
		if !strings.HasPrefix(part.Part, "admin.") {
			found = append(found, finding.Of(part.Part, unusable(part.Err))...)
			continue
		}
		f := finding.Failure(part.Part, part.Err)
		if part.Part == "admin.listen" {
			f = besideBridge(ctx, config, f)
		}
		found = append(found, finding.Of(configuration, []finding.Finding{f})...)
	}
	return found
}

// besideBridge returns f, the failure to listen on the address of the admin interface, as
// it is to be judged if a bridge holds that address.
func besideBridge(ctx context.Context, config *configs.Config, f finding.Finding) finding.Finding {
	a := config.Admin
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	token, _ := a.Token.Read() // if it cannot be read, the bridge refuses to return its status
	client, err := admin.NewOwnClient(a.Listen, token, admin.TLS(a.TLS))
	if err != nil {
		return f
	}
	if client.IsBridge(ctx) {
		if status, err := client.Status(ctx); err == nil && status.State.Path == config.State {
			f.Result, f.Detail, f.Advice = finding.Remark, "the bridge that runs with this configuration listens at "+a.Listen, ""
		} else {
			f.Result, f.Advice = finding.Warning, "a bridge runs there: nothing has to be done if it runs with this configuration; otherwise choose another address"
		}
		return f
	}
	plain, err := admin.NewOwnClient(a.Listen, "", admin.TLS{})
	if err == nil && a.TLS.Enabled() && plain.IsBridge(ctx) {
		f.Result, f.Advice = finding.Warning, "a bridge without TLS runs there: restart it if it runs with this configuration, because admin.tls is not reloaded; otherwise choose another address"
	}
	return f
}

// checkState checks whether a bridge could start with the state of a configuration, and
// returns one finding. It changes nothing. It reads the file as a start does, which
// takes a while if the file is large and was not closed cleanly; if quick is set, it
// does not read such a file in full. No bridge can start with the state meanwhile.
func checkState(config *configs.Config, quick bool) []finding.Finding {
	if config.Cluster.Enabled() { // it is a copy, which a start makes again if it is unusable
		return finding.Of(configuration, []finding.Finding{pipeline.CheckStatePath(config.State)})
	}
	found := finding.Of(configuration, []finding.Finding{pipeline.CheckStatePath(config.State)})
	if found[0].Result != finding.OK {
		return found
	}
	if _, err := os.Stat(config.State); errors.Is(err, fs.ErrNotExist) {
		return found
	}
	store, err := checkpoint.Open(config.State, checkpoint.Options{ReadOnly: true, Quick: quick})
	if err == nil {
		err = store.Close()
	}
	f := finding.Finding{Target: found[0].Target, Step: "state", Result: finding.Failed}
	switch {
	case err == nil:
		return found
	case errors.Is(err, checkpoint.ErrLocked):
		// Expected beside a running bridge.
		f.Result, f.Detail = finding.Remark, config.State+" is in use, most likely by the running bridge: no second bridge can start with it, and its content was not checked"
	case errors.Is(err, checkpoint.ErrNewer):
		f.Detail, f.Advice = err.Error(), "run the version that wrote it, or restore a backup made by this version"
	case errors.Is(err, checkpoint.ErrDamaged):
		f.Detail, f.Advice = err.Error(), "restore a backup, or move the file away"
	default:
		f.Detail, f.Advice = err.Error(), "let the user that the bridge runs as read and write it, or correct state"
	}
	return []finding.Finding{f}
}
