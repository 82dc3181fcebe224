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
		// Any other error is about the configuration.
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
		// A client of HTTP/1.0 cannot distinguish a truncated copy from a complete one.
		writeProblem(w, http.StatusHTTPVersionNotSupported, "ask for a copy of the state with HTTP/1.1")
		return
	}
	admissionOf(r).stream = true
	d := &download{w: w, end: time.Now().Add(maxBackup)}
	err := c.Backup(r.Context(), d)
	switch {
	case err == nil:
	case !d.begun:
		writeError(w, err)
	default:
		panic(http.ErrAbortHandler) // the client must not take it for a complete copy
	}
}

// maxBackup is the time that a client has to read a copy of the state. Until then the
// copy occupies disk space and a slot.
const maxBackup = time.Hour

// download sends the headers of a file with its first bytes, so that an error before
// them can be answered with a problem.
type download struct {
	w     http.ResponseWriter
	end   time.Time // the deadline; writes after it fail
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
