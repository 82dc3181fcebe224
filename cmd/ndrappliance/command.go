package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"ndrbridge/cmd/internal/commandline"
	standin "ndrbridge/test/appliance"
)

// settings holds the values of the flags.
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

// run runs the command line until ctx is cancelled and returns the exit code.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	return commandline.Run(ctx, command(stdout, stderr), args, stdout, stderr)
}

func command(stdout, stderr io.Writer) *cobra.Command {
	s := settings{}
	cmd := &cobra.Command{
		Use:   "ndrappliance",
		Short: "Serve a stand-in for a network detection appliance",
		Long: `Serve a stand-in for a network detection appliance: its REST interface, and its failures,
without monitoring a network. /api/v1/explore/ lists all operations, with samples, and
sends requests; the cloud edition does not have it. What clients change lasts until the
program ends. Changing detections by PATCH /detections/tickets, linking a ticket,
and the notes of a detection require ticket tracking to be enabled: GET
/service/ticketing shows whether it is, and PATCH /service/ticketing {"enabled": false}
disables it. A detection that a rule of /detections/rules/hiding matches is hidden.

The program prints "listening on URL" when it is ready, and runs until SIGINT or SIGTERM.
--backlog creates detections at the start; --rate and the other rates create and change
objects while it runs. A hazard is a failure that affects a random fraction of the
requests: give its probability, between 0 and 1. The same --seed gives the same
detections and the same random choices.

Clients can upgrade the firmware, restart the appliance, shut it down and replace its
certificate; --job-step-time, --restart-time and --power-on-after say how long that takes.
Meanwhile it resets connections, or answers 503.

Requests must carry the header "Authorization: Service apikey=KEY", with the key from
--key and with the word from --product instead of Service. With --client-id and
--client-secret they need a token from POST /oauth2/token instead; if --key is given as
well, either is accepted.`,
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
	f.StringVar(&s.listen, "listen", "127.0.0.1:0", "address to listen on; port 0 selects a free one")
	f.StringVar(&s.tls.cert, "tls-cert", "", "PEM file with the certificate for HTTPS")
	f.StringVar(&s.tls.key, "tls-key", "", "PEM file with the private key of --tls-cert")
	f.BoolVar(&s.tls.selfSigned, "self-signed", false, "serve HTTPS with a self-signed certificate")
	f.StringVar(&s.tls.caOut, "ca-out", "", "file to write the self-signed certificate to, for clients to trust")

	f.StringVar(&s.options.APIKey, "key", "", "API key (default \""+standin.DefaultAPIKey+"\", or none with --client-id)")
	f.StringVar(&s.oauth.ClientID, "client-id", "", "client id for the token endpoint, as in the cloud edition")
	f.StringVar(&s.oauth.ClientSecret, "client-secret", "", "client secret for the token endpoint")
	f.DurationVar(&s.oauth.Lifetime, "token-lifetime", 10*time.Minute, "how long a token is valid")
	f.StringVar(&s.options.Edition, "edition", "", "edition of the product: standard, or cloud, which has no explorer (default cloud with --client-id)")
	f.StringVar(&s.options.User, "user", "api", "user that owns the API key")
	f.StringVar(&s.options.Product, "product", "Service", "product name in the authorization scheme and, in lower case, in paths")
	f.StringVar(&s.options.Firmware, "firmware", "26.3.0.1234", "firmware version; before 9.3, detections have no mod_time")
	f.BoolVar(&s.options.Console, "console", false, "act as a console instead of a sensor")
	f.BoolVar(&s.options.NoTicketing, "no-ticketing", false, "start with external ticket tracking disabled")

	f.DurationVar(&s.options.RestartTime, "restart-time", 5*time.Second, "how long a restart takes; 0: it is instant")
	f.DurationVar(&s.options.PowerOnAfter, "power-on-after", 30*time.Second, "how long the appliance stays off after a shutdown; 0: forever")
	f.DurationVar(&s.options.StepTime, "job-step-time", time.Second, "how long each step of a job takes, such as the download of firmware; 0: jobs are done at once")
	f.StringVar(&s.options.TicketURL, "ticket-url", "https://tickets.example/$ticket_id", "ticket_url of detections with a ticket, with $ticket_id for the id")
	f.BoolVar(&s.options.OmitEmpty, "omit-empty", false, "omit end_time, risk_score and ticket_url if a detection has none, instead of null")

	f.Uint64Var(&s.options.Seed, "seed", 1, "seed of all random choices")
	f.IntVar(&s.backlog, "backlog", 0, "number of detections at the start")
	f.DurationVar(&s.backlogOver, "backlog-over", 24*time.Hour, "period before the start over which their mod_times are spread")
	f.IntVar(&s.options.Size, "size", 2000, "approximate size of a detection's JSON in bytes; at least 1000")
	f.IntVar(&s.entries, "audit-entries", 0, "number of audit log entries at the start")
	f.BoolVar(&s.options.AuditOldestFirst, "audit-oldest-first", false, "return the audit log oldest entry first")
	f.IntVar(&s.options.AuditCapacity, "audit-capacity", 10_000, "number of entries that the audit log keeps")
	f.BoolVar(&s.options.NoAuditAPI, "no-audit-api", false, "do not record what clients change in the audit log")
	f.IntVar(&s.records, "record-backlog", 0, "number of records at the start, spread like the backlog")
	f.BoolVar(&s.options.ThirdPartyRecords, "third-party-records", false, "use a record store without cursors")
	f.DurationVar(&s.skew, "skew", 0, "how far the clock is ahead; negative: behind")

	f.Float64Var(&s.rates.Appear, "rate", 0, "new detections per second")
	f.Float64Var(&s.rates.Update, "update-rate", 0, "changed detections per second")
	f.Float64Var(&s.rates.Close, "close-rate", 0, "closed detections per second")
	f.Float64Var(&s.rates.Edit, "edit-rate", 0, "detections per second that change twice with the same mod_time")
	f.Float64Var(&s.rates.Late, "late-rate", 0, "new detections per second with a mod_time in the past")
	f.Float64Var(&s.rates.Future, "future-rate", 0, "new detections per second with a mod_time in the future")
	f.Float64Var(&s.rates.Tie, "tie-rate", 0, "bulk changes per second, each giving many detections the same mod_time")
	f.IntVar(&s.rates.TieSize, "tie-size", 300, "number of detections in a bulk change")
	f.Float64Var(&s.rates.Neighbours, "neighbour-rate", 0, "pairs of adjacent milliseconds per second that are filled with detections")
	f.IntVar(&s.rates.NeighbourSize, "neighbour-size", 990, "number of detections in each of these milliseconds")

	f.Float64Var(&s.rates.AuditEntries, "audit-rate", 0, "new audit log entries per second")
	f.Float64Var(&s.rates.AuditLate, "audit-late-rate", 0, "new audit log entries per second that become visible after later ones")
	f.IntVar(&s.rates.AuditLateBy, "audit-late-by", 5, "number of later ones")
	f.Float64Var(&s.rates.AuditSwapped, "audit-swap-rate", 0, "pairs of new audit log entries per second that are returned in the other order of ids")
	f.Float64Var(&s.rates.Records, "record-rate", 0, "new records per second")
	f.Float64Var(&s.rates.RecordsLate, "late-record-rate", 0, "new records per second with a timestamp in the past")
	f.DurationVar(&s.rates.RecordLateBy, "record-late-by", 5*time.Minute, "how far their timestamps are in the past at most")
	f.Float64Var(&s.rates.RecordsTie, "record-tie-rate", 0, "groups of records per second that are stored with the same timestamp")
	f.IntVar(&s.rates.RecordTieSize, "record-tie-size", 100, "number of records in such a group")

	h := &s.hazards
	f.Float64Var(&h.Reset, "reset", 0, "hazard: the connection is reset")
	f.Float64Var(&h.TooManyRequests, "too-many-requests", 0, "hazard: status 429")
	f.Float64Var(&h.ServerError, "server-error", 0, "hazard: status 500, 502, 503 or 504")
	f.IntVar(&h.ServerErrorStatus, "server-error-status", 0, "the status of --server-error; 0: a random one")
	f.DurationVar(&h.RetryAfter, "retry-after", 0, "Retry-After in responses with 429 and 503; 0: none")
	f.BoolVar(&h.RetryAfterDate, "retry-after-date", false, "send Retry-After as a date")
	f.Float64Var(&h.HTML, "html", 0, "hazard: a login page with status 200")
	f.Float64Var(&h.WrongDate, "wrong-date", 0, "hazard: the Date header is wrong, as from a proxy with a wrong clock")
	f.Float64Var(&h.Lost, "lost", 0, "hazard: the request is served, and the connection is reset before the response")
	f.Float64Var(&h.CutBody, "cut-body", 0, "hazard: the connection is closed in the middle of the body")
	f.Float64Var(&h.CutJSON, "cut-json", 0, "hazard: the end of the JSON is missing")
	f.DurationVar(&h.Latency, "latency", 0, "delay before every response")
	f.DurationVar(&h.Jitter, "jitter", 0, "maximum random delay in addition to --latency")
	f.StringVar(&s.refusal, "refuse", "", "reject all credentials: json (401), text (400), short-text (400) or forbidden (403)")
	f.IntVar(&h.LimitCap, "limit-cap", 0, "maximum number of detections, entries or records in a response, regardless of limit")
	f.IntVar(&h.LimitRefused, "limit-refused", 0, "reject a greater limit with 400")
	f.BoolVar(&h.InclusiveBound, "inclusive-bound", false, "treat mod_time in a search as an inclusive bound")
	f.BoolVar(&h.ShuffledTies, "shuffled-ties", false, "return detections with the same mod_time in a random order")
	f.BoolVar(&h.ChangingLinks, "changing-links", false, "change the links in descriptions in every response")
	f.StringVar((*string)(&h.Upgrade), "upgrade", "", "show objects as after an upgrade: with another field, in another order, with numbers as texts, and with times as fraction (of milliseconds), millis (of whole seconds) or seconds")
	f.BoolVar(&h.RecordUntilInclusive, "record-until-inclusive", false, "treat until in a record search as an inclusive bound")
	f.BoolVar(&h.RecordWholeMillis, "record-whole-millis", false, "compare record times without fractions of milliseconds")
	f.IntVar(&h.RecordBatch, "record-batch", 0, "maximum number of records in a first response with a cursor")
	f.BoolVar(&h.RecordTiesShuffle, "record-ties-shuffle", false, "return records with the same timestamp in another order at each search")
	f.BoolVar(&h.CursorsExpireAtOnce, "cursors-expire", false, "reject every cursor")
	f.BoolVar(&h.CursorRenews, "cursor-renews", false, "replace the cursor in every second response")
	f.BoolVar(&h.TotalMissing, "no-total", false, "omit the total in record searches")
	f.BoolVar(&h.TerminatedEarly, "terminated-early", false, "end record searches early and report it")
	f.BoolVar(&h.NoDate, "no-date", false, "omit the Date header")
}

// check completes the settings. It returns an error if a flag is invalid.
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
		return errors.New("--client-id and --client-secret must be given together")
	}
	if s.oauth.ClientID != "" {
		s.options.OAuth = &s.oauth
	}
	if e := s.options.Edition; e != "" && e != standin.EditionStandard && e != standin.EditionCloud {
		return fmt.Errorf("--edition %q: must be %s or %s", e, standin.EditionStandard, standin.EditionCloud)
	}
	h := s.hazards
	for _, likely := range []float64{h.Reset, h.TooManyRequests, h.ServerError, h.HTML, h.WrongDate, h.Lost, h.CutBody, h.CutJSON} {
		if likely < 0 || likely > 1 {
			return fmt.Errorf("%v is not a probability: a hazard requires a number between 0 and 1", likely)
		}
	}
	if h.Upgrade != standin.NoUpgrade && !slices.Contains(standin.Upgrades(), h.Upgrade) {
		return fmt.Errorf("--upgrade %q: must be one of %q", h.Upgrade, standin.Upgrades())
	}
	if s.backlog < 0 || s.entries < 0 || s.records < 0 {
		return errors.New("--backlog, --audit-entries and --record-backlog: must not be negative")
	}
	if s.options.AuditCapacity < 1 {
		return errors.New("--audit-capacity: must be at least 1")
	}
	if s.options.RestartTime < 0 || s.options.PowerOnAfter < 0 || s.options.StepTime < 0 {
		return errors.New("--restart-time, --power-on-after and --job-step-time: must not be negative")
	}
	if status := s.hazards.ServerErrorStatus; status != 0 && (status < 500 || status > 599) {
		return errors.New("--server-error-status: must be between 500 and 599")
	}
	if s.options.Size < 1000 {
		return errors.New("--size: must be at least 1000")
	}
	return s.tls.check()
}
