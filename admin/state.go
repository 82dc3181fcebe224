package admin

import (
	"fmt"
	"net/http"
	"time"
)

func status(c Control, w http.ResponseWriter, r *http.Request) {
	s, err := c.Status(r.Context())
	if err != nil {
		writeError(w, err)
		return
	}
	writeJSON(w, s)
}

func reload(c Control, w http.ResponseWriter, r *http.Request) {
	done, err := c.Reload(r.Context())
	if err != nil {
		// What is none of the errors that are told apart is about the configuration.
		writeProblem(w, statusOf(err, http.StatusUnprocessableEntity), err.Error())
		return
	}
	if done.Changes == nil {
		done.Changes = []string{}
	}
	writeJSON(w, done)
}

func backup(c Control, w http.ResponseWriter, r *http.Request) {
	if !r.ProtoAtLeast(1, 1) {
		// HTTP/1.0 cannot tell a copy that broke off from a whole one.
		writeProblem(w, http.StatusHTTPVersionNotSupported, "ask for a copy of the state with HTTP/1.1")
		return
	}
	visitOf(r).stream = true
	d := &download{w: w, end: time.Now().Add(maxBackup)}
	err := c.Backup(r.Context(), d)
	switch {
	case err == nil:
	case !d.begun:
		writeError(w, err)
	default:
		panic(http.ErrAbortHandler) // so that nobody takes what was sent for a copy
	}
}

// maxBackup is how long a copy of the state may take to be read. It keeps its place on
// the disk, and its slot, until then.
const maxBackup = time.Hour

// download sends the headers of a file with its first bytes: what fails before
// them is answered with a problem.
type download struct {
	w     http.ResponseWriter
	end   time.Time // when nothing more is sent
	begun bool
}

func (d *download) Write(b []byte) (int, error) {
	if time.Now().After(d.end) {
		return 0, fmt.Errorf("the copy was not read within %s", maxBackup)
	}
	if !d.begun {
		d.begun = true
		d.w.Header().Set("Content-Type", "application/octet-stream")
		d.w.Header().Set("Content-Disposition", `attachment; filename="ndrbridge.db"`)
	}
	return d.w.Write(b)
}
