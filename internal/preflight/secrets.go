package preflight

import (
	"fmt"
	"slices"

	"ndrbridge/configs"
	"ndrbridge/internal/fileaccess"
	"ndrbridge/internal/finding"
)

// checkSecrets returns a warning for each secret that is short enough to be guessed, and for each
// file with a secret that other users may read or replace.
func checkSecrets(config *configs.Config) []finding.Finding {
	found := exposed(config.SecretFiles())
	for _, key := range config.ShortSecrets() {
		found = append(found, finding.Finding{
			Step: key, Result: finding.Warning,
			Detail: "the secret has less than 8 characters: it can be guessed, and may not be redacted if a server repeats it",
			Advice: "choose a longer one, if the other side allows it",
		})
	}
	return found
}

// CheckFiles returns a warning for each file of the configuration that contains secrets and
// that other users may read or replace. written are its secrets.
func CheckFiles(written []configs.SecretFile) []finding.Finding {
	var first []configs.SecretFile // of each file
	for _, w := range written {
		if !slices.ContainsFunc(first, func(f configs.SecretFile) bool { return f.Path == w.Path }) {
			first = append(first, w)
		}
	}
	found := exposed(first)
	for i, f := range found {
		found[i].Detail = fmt.Sprintf("%s, and it contains secrets, such as %s", f.Detail, f.Step)
		found[i].Advice += ", or write secrets into files of their own (…_file)"
		found[i].Step = "configuration"
	}
	return finding.Of(configuration, found)
}

// exposed returns a warning for each file that other users may read or replace.
func exposed(files []configs.SecretFile) []finding.Finding {
	var found []finding.Finding
	for _, f := range files {
		if problem, fix := fileaccess.Exposed(f.Path); problem != "" {
			found = append(found, finding.Finding{Step: f.Key, Result: finding.Warning, Detail: problem, Advice: fix})
		}
	}
	return found
}
