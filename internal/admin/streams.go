package admin

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	"ndrbridge/poller"
)

// verifyLine is one line of the response to POST /api/v1/verify. Exactly one of its
// members is set.
type verifyLine struct {
	Progress     *verifyProgress      `json:"progress,omitempty"`     // how far the comparison is
	Difference   *poller.Difference   `json:"difference,omitempty"`   // an object that differs
	Verification *poller.Verification `json:"verification,omitempty"` // the result for a stream
	Error        string               `json:"error,omitempty"`        // why the comparison ended early
	Done         bool                 `json:"done,omitempty"`         // the comparison is complete
}

type verifyProgress struct {
	Stream   string `json:"stream"`   // the stream that is being compared
	Compared int    `json:"compared"` // the objects compared so far
	// The appliance's time up to which they were compared.
	At time.Time `json:"at"`
}

func verify(c *Client, w http.ResponseWriter, r *http.Request) (any, error) {
	request, err := readRequest[VerifyRequest](w, r)
	if err != nil {
		return nil, err
	}
	admissionOf(r).stream = true
	// The status is sent with the first line: an error before it gets a status of its
	// own.
	controller, encoder, begun := http.NewResponseController(w), json.NewEncoder(w), false
	write := func(line verifyLine) {
		if !begun {
			begun = true
			w.Header().Set("Content-Type", "application/x-ndjson")
		}
		_ = encoder.Encode(line) // fails only if the client is gone
		_ = controller.Flush()
	}
	verifications, err := c.Verify(r.Context(), request.Appliance, request.Since, poller.VerifyReport{
		Progress: func(stream string, compared int, at time.Time) {
			write(verifyLine{Progress: &verifyProgress{stream, compared, at}})
		},
		Found: func(d poller.Difference) { write(verifyLine{Difference: &d}) },
	})
	if err != nil && !begun {
		return nil, err
	}
	for _, v := range verifications {
		write(verifyLine{Verification: &v})
	}
	if err != nil {
		write(verifyLine{Error: err.Error()})
	} else {
		write(verifyLine{Done: true})
	}
	return nil, nil
}

// Verify compares what an appliance returns since a time with what was journalled, stream by
// stream.
func (c *Client) Verify(ctx context.Context, appliance string, since time.Time, report poller.VerifyReport) ([]poller.Verification, error) {
	request := VerifyRequest{Appliance: appliance, Since: since, Report: report}
	if c.local != nil {
		return API.Verify.Call(ctx, c, request)
	}
	body, err := c.open(ctx, API.Verify.call(request))
	if err != nil {
		return nil, err
	}
	defer body.Close()
	var all []poller.Verification
	for r := bufio.NewReader(body); ; {
		text, err := r.ReadBytes('\n')
		if err != nil {
			return all, fmt.Errorf("the bridge's answer broke off: %w", err)
		}
		var line verifyLine
		if err := json.Unmarshal(text, &line); err != nil {
			return all, fmt.Errorf("read the bridge's answer: %w", err)
		}
		switch {
		case line.Progress != nil:
			report.Progress(line.Progress.Stream, line.Progress.Compared, line.Progress.At)
		case line.Difference != nil:
			report.Found(*line.Difference)
		case line.Verification != nil:
			all = append(all, *line.Verification)
		case line.Error != "":
			return all, errors.New(line.Error)
		case line.Done:
			return all, nil
		}
	}
}

// errOldHTTP refuses a backup to a client of HTTP/1.0, which cannot distinguish a truncated copy from
// a complete one.
var errOldHTTP = newProblem(http.StatusHTTPVersionNotSupported, "ask for a copy of the state with HTTP/1.1")

func backup(c *Client, w http.ResponseWriter, r *http.Request) (any, error) {
	if !r.ProtoAtLeast(1, 1) {
		return nil, errOldHTTP
	}
	admissionOf(r).stream = true
	d := &download{w: w, end: time.Now().Add(maxBackup)}
	err := c.Backup(r.Context(), d)
	if err != nil && d.begun {
		panic(http.ErrAbortHandler) // the client must not take it for a complete copy
	}
	return nil, err
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

// Backup writes a consistent copy of the state to w. If it returns an error, what was written
// is not a usable copy.
func (c *Client) Backup(ctx context.Context, w io.Writer) error {
	request := BackupRequest{To: w}
	if c.local != nil {
		return API.Backup.Do(ctx, c, request)
	}
	body, err := c.open(ctx, API.Backup.call(request))
	if err != nil {
		return err
	}
	defer body.Close()
	if _, err := io.Copy(w, body); err != nil {
		return fmt.Errorf("the copy of the state broke off: %w", err)
	}
	return nil
}
