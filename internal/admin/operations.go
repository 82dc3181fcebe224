package admin

import (
	"io"
	"net/http"
	"time"

	"ndrbridge/checkpoint"
	"ndrbridge/internal/tickets"
	"ndrbridge/poller"
	"ndrbridge/transform"
)

// The operations. They return ErrUnknown if the appliance, stream, sink, dead letter or command
// does not exist, and ErrNotRunning if they require a running bridge and the bridge does not
// run. A Client has methods for those whose requests or answers are not what callers hold.
var (
	OpStatus  = get[None, Status]("/status")
	OpHistory = get[None, History]("/history")
	OpTail    = Action[TailRequest]{get[TailRequest, None]("/events")}
	OpBackup  = act[BackupRequest]("/backup")
	OpReload  = operation[None, Reloaded](http.MethodPost, http.StatusUnprocessableEntity, "/reload") // an unknown error is about the configuration
	OpRewind  = act[RewindRequest]("/rewind")
	OpVerify  = post[VerifyRequest, []poller.Verification]("/verify")

	// A pause outlasts restarts. OpResume also retries at once whatever waits for a later attempt.
	OpPause  = act[OfSink]("/sinks/{sink}/pause")
	OpResume = act[OfSink]("/sinks/{sink}/resume")
	OpReplay = post[ReplayRequest, Replayed]("/sinks/{sink}/replay")
	// OpForget deletes the cursor, the dead letters and the queued redeliveries of a sink, and
	// OpRename moves them to another name. They fail if a sink of such a name is configured.
	OpForget = change[OfSink]("/sinks/{sink}/forget")
	OpRename = change[RenameRequest]("/sinks/{sink}/rename")

	// OpForgetAppliance deletes the positions of an appliance's streams, and what sources and
	// sinks remember about it, so that its streams begin at their start. It fails while the
	// appliance is polled, or ticket commands for it are pending.
	OpForgetAppliance = change[ForgetRequest]("/appliances/{appliance}/forget")
	OpDetection       = get[DetectionRequest, Detection]("/appliances/{appliance}/detections/{id}")

	OpCommands = get[CommandsRequest, CommandPage]("/tickets")
	OpCommand  = get[OfCommand, TicketCommand]("/tickets/{id}")
	// OpRetryCommand returns ErrNotRejected if the command was not rejected. A pending one that
	// is dropped is not carried out.
	OpRetryCommand = act[OfCommand]("/tickets/{id}/retry")
	OpDropCommand  = Action[OfCommand]{remove[OfCommand, None]("/tickets/{id}")}

	OpDeadGroups = get[GroupsRequest, DeadGroups]("/dead")
	OpDead       = get[DeadRequest, DeadPage]("/sinks/{sink}/dead", "/appliances/{appliance}/dead")
	// A key can contain anything, including slashes.
	OpDeadLetter = get[OfDeadLetter, DeadLetter]("/sinks/{sink}/dead/{key...}", "/appliances/{appliance}/dead/{key...}")
	OpRequeue    = post[Selection, Requeued]("/sinks/{sink}/requeue")
	OpDropDead   = remove[Selection, Dropped]("/sinks/{sink}/dead", "/appliances/{appliance}/dead")

	// Members of a cluster carry these out. OpHandover stops the pipelines of the shards cleanly,
	// and returns when the next member owns them; it fails if no other member follows one of
	// them and catches up soon. OpRecover continues the log of a shard from the copy of a member:
	// what the log has beyond that is lost. It returns when the shard can be owned again, and
	// fails if a member owns it.
	OpCluster  = get[None, Cluster]("/cluster")
	OpHandover = change[Handover]("/cluster/handover")
	OpRecover  = change[Recovery]("/cluster/recover")

	// Owners of shards carry these out for other members of the cluster.
	OpLocate = post[LocateRequest, []string]("/locate")
	OpAccept = post[AcceptRequest, []checkpoint.Acceptance]("/accept")
)

// OfSink names a sink.
type OfSink struct {
	Sink string `param:"sink" json:"-"`
}

// TailRequest asks for the events of the journal that From selects, and then for each new one.
type TailRequest struct {
	From
	AsksLive bool `param:"live" invalid:"live must be true or false"` // in the API, that Live is not nil
	Yield    func(transform.Event) error
}

// BackupRequest asks for a consistent copy of the state.
type BackupRequest struct{ To io.Writer }

// Replay selects events of the journal to deliver again.
type Replay struct {
	// Since and Until select the events that were recorded at or after Since, and before
	// Until unless it is zero.
	Since time.Time `json:"since"`
	Until time.Time `json:"until,omitzero"`
	// DryRun counts the events and changes nothing.
	DryRun bool `json:"dry_run,omitempty"`
}

// ReplayRequest asks to deliver events to a sink again.
type ReplayRequest struct {
	OfSink
	Replay
}

func (r ReplayRequest) check() error {
	switch {
	case r.Since.IsZero():
		return newProblem(http.StatusBadRequest, "since is missing: "+timeAdvice)
	case !r.Until.IsZero() && !r.Until.After(r.Since):
		return newProblem(http.StatusBadRequest, "until must be after since: no event was recorded between them")
	}
	return nil
}

// Replayed is the number of events that were queued, or would be.
type Replayed struct {
	Events uint64 `json:"replayed"`
}

// RewindRequest asks to move the position of a stream back to a time.
type RewindRequest struct {
	Appliance string    `json:"appliance"`
	Stream    string    `json:"stream"`
	To        time.Time `json:"to"`
}

func (r RewindRequest) check() error {
	now := time.Now()
	switch {
	case r.To.IsZero():
		return newProblem(http.StatusBadRequest, "to is missing: "+timeAdvice)
	case r.To.After(now):
		return newProblem(http.StatusBadRequest, "to is in the future, because it is "+now.UTC().Format(time.RFC3339)+" now: nothing would be read again")
	}
	return nil
}

// VerifyRequest asks to compare what an appliance returns since a time with what was
// journalled, stream by stream.
type VerifyRequest struct {
	Appliance string              `json:"appliance"`
	Since     time.Time           `json:"since"`
	Report    poller.VerifyReport `json:"-"`
}

func (r VerifyRequest) check() error {
	if r.Since.IsZero() {
		return newProblem(http.StatusBadRequest, "since is missing: "+timeAdvice)
	}
	return nil
}

// RenameRequest asks to move what the state keeps of a sink to another name.
type RenameRequest struct {
	OfSink
	To string `json:"to"`
}

func (r RenameRequest) check() error {
	if r.To == "" {
		return newProblem(http.StatusBadRequest, `to is missing: write the new name, {"to": NAME}`)
	}
	return nil
}

// ForgetRequest asks to delete what the state keeps of an appliance.
type ForgetRequest struct {
	Appliance string `param:"appliance" json:"-"`
	// Identity deletes only the identity, and the finding that another appliance answers.
	Identity bool `json:"identity"`
}

// DetectionRequest asks what is known about a detection.
type DetectionRequest struct {
	Appliance string `param:"appliance"`
	ID        int64  `param:"id" invalid:"%q is not the id of a detection: write a whole number, without a sign"`
}

// OfCommand names a ticket command.
type OfCommand struct {
	ID uint64 `param:"id" status:"404" invalid:"there is no ticket command %q: an id is a number, as GET /api/v1/tickets shows it"`
}

// LocateRequest asks for the appliances that know a command's detection, or its ticket if it
// names no detection: those that the state knows of or, with Ask, those that say so themselves.
type LocateRequest struct {
	Command tickets.Command `json:"command"`
	Ask     bool            `json:"ask,omitempty"`
}

// AcceptRequest asks to store commands that were checked, as checkpoint.Store.Accept does.
type AcceptRequest struct {
	Commands []StoredCommand `json:"commands"`
}

// limit is the maximum size of the body: it is larger than that in which the commands arrived.
func (*AcceptRequest) limit() int64 { return 16 << 20 }
