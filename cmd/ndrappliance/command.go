package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"ndrbridge/cmd/internal/commandline"
	standin "ndrbridge/test/appliance"
)

// settings are what the command line says.
type settings struct {
	options     standin.Options
	oauth       standin.OAuth
	hazards     standin.Hazards
	refusal     string
	rates       standin.Rates
	skew        time.Duration
	backlog     int
	backlogOver time.Duration
	entries     int
	records     int
	listen      string
	tls         tlsSettings
}

// run runs the command line until ctx ends and returns the exit code.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	return commandline.Run(ctx, command(stdout, stderr), args, stdout, stderr)
}

func command(stdout, stderr io.Writer) *cobra.Command {
	s := settings{}
	cmd := &cobra.Command{
		Use:   "ndrappliance",
		Short: "Serve a stand-in for a network detection appliance",
		Long: `Serve a stand-in for a network detection appliance: its detections, its audit log,
its record store, its system resource and its ways to fail, without a network to
watch. Beside what a poller of detections asks it answers GET /auditlog, POST
/records/search and /records/cursor, POST /devices/search (by id) and GET
/detections/formats. PATCH /detections/{id} and /detections/tickets change
detections; the latter, and a detection's notes, only while GET /service/ticketing
says so, which PATCH /service/ticketing {"enabled": false} ends.

It prints "listening on URL" once it is ready, and serves until SIGINT or
SIGTERM. --backlog makes detections that are there from the start; --rate and the
other rates make things happen while it runs. The hazards take a probability
between 0 and 1, and meet that part of the requests. The same --seed makes the
same detections and draws the same lots.

Requests need the header "Authorization: Service apikey=KEY", with --key, and
--product in place of Service. With --client-id and --client-secret they need a
token from POST /oauth2/token instead, or either where --key is given too.`,
		Example: `  ndrappliance --backlog 1000 --rate 2 --update-rate 1
  ndrappliance --listen 127.0.0.1:8443 --self-signed --ca-out ca.pem
  ndrappliance --record-backlog 1000000 --audit-entries 500 --audit-rate 0.5
  ndrappliance --backlog 5000 --reset 0.01 --cut-json 0.01 --limit-cap 200
  curl -H 'Authorization: Service apikey=` + standin.DefaultAPIKey + `' http://127.0.0.1:PORT/api/v1/service`,
		Args: commandline.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := s.check(); err != nil {
				return fmt.Errorf("%w: %w", commandline.ErrUsage, err)
			}
			return serve(cmd.Context(), s, stdout, stderr)
		},
	}
	cmd.CompletionOptions.DisableDefaultCmd = true
	cmd.Flags().SortFlags = false
	s.define(cmd.Flags())
	return cmd
}

func (s *settings) define(f *pflag.FlagSet) {
	f.StringVar(&s.listen, "listen", "127.0.0.1:0", "address to serve on; port 0 takes a free one")
	f.StringVar(&s.tls.cert, "tls-cert", "", "PEM file with the certificate for HTTPS")
	f.StringVar(&s.tls.key, "tls-key", "", "PEM file with its key")
	f.BoolVar(&s.tls.selfSigned, "self-signed", false, "serve HTTPS with a certificate made at the start")
	f.StringVar(&s.tls.caOut, "ca-out", "", "file to write the self-signed certificate to, for clients to trust")

	f.StringVar(&s.options.APIKey, "key", "", "API key (default \""+standin.DefaultAPIKey+"\", or none with --client-id)")
	f.StringVar(&s.oauth.ClientID, "client-id", "", "client id of the token endpoint, as the cloud edition has it")
	f.StringVar(&s.oauth.ClientSecret, "client-secret", "", "client secret of the token endpoint")
	f.DurationVar(&s.oauth.Lifetime, "token-lifetime", 10*time.Minute, "how long a token is accepted")
	f.StringVar(&s.options.User, "user", "api", "user whom the key belongs to")
	f.StringVar(&s.options.Product, "product", "Service", "word in the authorization scheme, and in paths in lower case")
	f.StringVar(&s.options.Firmware, "firmware", "26.3.0.1234", "firmware version; before 9.3 detections have no mod_time")
	f.BoolVar(&s.options.Console, "console", false, "be a console instead of a sensor")
	f.BoolVar(&s.options.NoTicketing, "no-ticketing", false, "begin with external ticket tracking switched off")

	f.Uint64Var(&s.options.Seed, "seed", 1, "what decides everything that is left to chance")
	f.IntVar(&s.backlog, "backlog", 0, "detections that are there from the start")
	f.DurationVar(&s.backlogOver, "backlog-over", 24*time.Hour, "time up to the start over which their mod_times are spread")
	f.IntVar(&s.options.Size, "size", 2000, "bytes of JSON that a detection has, about; at least 1000")
	f.IntVar(&s.entries, "audit-entries", 0, "audit log entries that are there from the start")
	f.BoolVar(&s.options.AuditOldestFirst, "audit-oldest-first", false, "let the audit log begin with its oldest entry")
	f.IntVar(&s.options.AuditCapacity, "audit-capacity", 10_000, "entries that the audit log keeps")
	f.BoolVar(&s.options.AuditAPI, "audit-api", false, "let what clients change leave entries in the audit log")
	f.IntVar(&s.records, "record-backlog", 0, "records that are there from the start, spread like the backlog")
	f.BoolVar(&s.options.ThirdPartyRecords, "third-party-records", false, "have a record store without cursors")
	f.DurationVar(&s.skew, "skew", 0, "how far the clock is ahead; negative: behind")

	f.Float64Var(&s.rates.Appear, "rate", 0, "detections that appear, a second")
	f.Float64Var(&s.rates.Update, "update-rate", 0, "detections that change, a second")
	f.Float64Var(&s.rates.Close, "close-rate", 0, "detections that are closed, a second")
	f.Float64Var(&s.rates.Edit, "edit-rate", 0, "detections that change twice with one mod_time, a second")
	f.Float64Var(&s.rates.Late, "late-rate", 0, "detections that appear with a mod_time of the past, a second")
	f.Float64Var(&s.rates.Future, "future-rate", 0, "detections that appear with a mod_time of the future, a second")
	f.Float64Var(&s.rates.Tie, "tie-rate", 0, "bulk changes that give many detections one mod_time, a second")
	f.IntVar(&s.rates.TieSize, "tie-size", 300, "detections in a bulk change")
	f.Float64Var(&s.rates.Neighbours, "neighbour-rate", 0, "pairs of neighbouring milliseconds filled with detections, a second")
	f.IntVar(&s.rates.NeighbourSize, "neighbour-size", 990, "detections in each of them")

	f.Float64Var(&s.rates.AuditEntries, "audit-rate", 0, "audit log entries, a second")
	f.Float64Var(&s.rates.Records, "record-rate", 0, "records that are stored, a second")
	f.Float64Var(&s.rates.RecordsLate, "late-record-rate", 0, "records that are stored with a timestamp of the past, a second")
	f.DurationVar(&s.rates.RecordLateBy, "record-late-by", 5*time.Minute, "how late at most")
	f.Float64Var(&s.rates.RecordsTie, "record-tie-rate", 0, "times that many records are stored with one timestamp, a second")
	f.IntVar(&s.rates.RecordTieSize, "record-tie-size", 100, "records stored each time")

	h := &s.hazards
	f.Float64Var(&h.Reset, "reset", 0, "hazard: the connection is reset")
	f.Float64Var(&h.TooManyRequests, "too-many-requests", 0, "hazard: 429")
	f.Float64Var(&h.ServerError, "server-error", 0, "hazard: 500, 502, 503 or 504")
	f.IntVar(&h.ServerErrorStatus, "server-error-status", 0, "always this status instead")
	f.DurationVar(&h.RetryAfter, "retry-after", 0, "Retry-After of 429 and 503; 0 leaves it out")
	f.BoolVar(&h.RetryAfterDate, "retry-after-date", false, "write Retry-After as a date")
	f.Float64Var(&h.HTML, "html", 0, "hazard: a login page with 200")
	f.Float64Var(&h.WrongDate, "wrong-date", 0, "hazard: the Date header is wrong, as that of a proxy is whose clock is")
	f.Float64Var(&h.Lost, "lost", 0, "hazard: the request is served and the connection reset in place of the answer")
	f.Float64Var(&h.CutBody, "cut-body", 0, "hazard: the connection is closed within the body")
	f.Float64Var(&h.CutJSON, "cut-json", 0, "hazard: the end of the JSON is missing")
	f.DurationVar(&h.Latency, "latency", 0, "wait in front of every answer")
	f.DurationVar(&h.Jitter, "jitter", 0, "wait up to this on top")
	f.StringVar(&s.refusal, "refuse", "", "refuse every credential: json (401), text (400), short-text (400) or forbidden (403)")
	f.IntVar(&h.LimitCap, "limit-cap", 0, "detections, entries or records returned at most, whatever limit says")
	f.IntVar(&h.LimitRefused, "limit-refused", 0, "refuse a greater limit with 400")
	f.BoolVar(&h.InclusiveBound, "inclusive-bound", false, "read mod_time in a search as on or after")
	f.BoolVar(&h.ShuffledTies, "shuffled-ties", false, "give ties an order of their own")
	f.BoolVar(&h.ChangingLinks, "changing-links", false, "change the links in descriptions at every look")
	f.BoolVar(&h.RecordUntilInclusive, "record-until-inclusive", false, "read until in a record search as up to and with")
	f.BoolVar(&h.RecordWholeMillis, "record-whole-millis", false, "compare record times without their fractions")
	f.IntVar(&h.RecordBatch, "record-batch", 0, "records in a first answer with a cursor at most")
	f.BoolVar(&h.RecordTiesShuffle, "record-ties-shuffle", false, "give tied records another order at each search")
	f.BoolVar(&h.CursorsExpireAtOnce, "cursors-expire", false, "refuse every cursor")
	f.BoolVar(&h.CursorRenews, "cursor-renews", false, "replace the cursor with every second answer")
	f.BoolVar(&h.TotalMissing, "no-total", false, "leave the total of record searches out")
	f.BoolVar(&h.TerminatedEarly, "terminated-early", false, "end record searches early, and say so")
	f.BoolVar(&h.NoDate, "no-date", false, "leave the Date header out")
}

// check completes the settings and says what is wrong with them.
func (s *settings) check() error {
	refusals := map[string]standin.Refusal{
		"": standin.Accepted, "json": standin.RefusedJSON, "text": standin.RefusedText,
		"short-text": standin.RefusedShortText, "forbidden": standin.RefusedForbidden,
	}
	refusal, ok := refusals[s.refusal]
	if !ok {
		return fmt.Errorf("--refuse %q: must be json, text, short-text or forbidden", s.refusal)
	}
	s.hazards.Refusal = refusal
	if (s.oauth.ClientID == "") != (s.oauth.ClientSecret == "") {
		return errors.New("--client-id and --client-secret belong together")
	}
	if s.oauth.ClientID != "" {
		s.options.OAuth = &s.oauth
	}
	h := s.hazards
	for _, likely := range []float64{h.Reset, h.TooManyRequests, h.ServerError, h.HTML, h.Lost, h.CutBody, h.CutJSON} {
		if likely < 0 || likely > 1 {
			return fmt.Errorf("%v is no probability: a hazard takes a number between 0 and 1", likely)
		}
	}
	if s.backlog < 0 || s.entries < 0 || s.records < 0 {
		return errors.New("--backlog, --audit-entries and --record-backlog: must not be negative")
	}
	if s.options.AuditCapacity < 1 {
		return errors.New("--audit-capacity: must be at least 1")
	}
	if status := s.hazards.ServerErrorStatus; status != 0 && (status < 500 || status > 599) {
		return errors.New("--server-error-status: must be between 500 and 599")
	}
	if s.options.Size < 1000 {
		return errors.New("--size: must be at least 1000")
	}
	return s.tls.check()
}
