package admin

import (
	"io"
	"net/http"
	"reflect"
	"time"

	"ndrbridge/internal/finding"
	"ndrbridge/poller"
	"ndrbridge/transform"
)

// API has the operations. They return ErrUnknown if the appliance, stream, sink, dead letter or
// command does not exist, and ErrNotRunning if they require a running bridge and the bridge does
// not run. A Client has methods for those whose requests or answers are not what callers hold.
var API = newOperations()

// apiOperations is the table from which handlers, client and description are made. The name
// of a field is the operation's id, and its comment the description, the first sentence as the
// summary. The tag http has the method and the paths below version, group the tag in the
// description, errors the statuses besides those that every operation may have, and fallback the
// status of errors that are none of the known ones. Those with the tag local are carried out by the
// member of a cluster that is asked, the others by the owner of its log. The JSON of an answer is
// stable: fields are added, and never change their meaning.
type apiOperations struct {
	// GetStatus returns the state of the bridge.
	GetStatus Operation[None, Status] `http:"GET /status" group:"status"`
	// GetHistory returns samples of the last hour.
	GetHistory Operation[None, History] `http:"GET /history" group:"status" errors:"409"`
	// TailEvents streams events as they are journalled. Server-sent events that end only when the
	// client or the bridge stops. The data of a message is an event in CloudEvents' JSON format.
	// Comments keep the connection open. A message of the type problem has a problem document, and
	// is the last.
	TailEvents Action[TailRequest] `http:"GET /events" group:"status"`
	// GetDetection returns what is known about a detection. Its versions in the journal and in dead
	// letters, their delivery to each sink as far as the state knows, and the ticket commands about
	// it. The work for an answer is bounded: it says since when it is complete.
	GetDetection Operation[DetectionRequest, Detection] `http:"GET /appliances/{appliance}/detections/{id}" group:"status" errors:"404"`

	// Reload reloads the configuration. An invalid configuration changes nothing. In a cluster, it is
	// that of the member that answers; the others have to be asked one by one.
	Reload Operation[None, Reloaded] `http:"POST /reload" group:"operation" errors:"409 422" fallback:"422" local:"true"`
	// Backup returns a consistent copy of the state. One at a time. The copy is a state file. An
	// answer that breaks off is not a usable copy.
	Backup Action[BackupRequest] `http:"POST /backup" group:"operation" errors:"409"`
	// Rewind reads a stream of an appliance again from a time.
	Rewind Action[RewindRequest] `http:"POST /rewind" group:"operation" errors:"404 409"`
	// PollAppliance polls the streams of an appliance at once. Within its rate limit, and not before
	// the end of a wait that it asked for. It answers before the polls end.
	PollAppliance Action[OfAppliance] `http:"POST /appliances/{appliance}/poll" group:"operation" errors:"404 409"`
	// Verify compares what an appliance shows with what was journalled. Reads the appliance, stream by
	// stream, which takes a while. It changes nothing.
	Verify Operation[VerifyRequest, []poller.Verification] `http:"POST /verify" group:"operation" errors:"404 409"`
	// ForgetAppliance deletes the state of an appliance. The positions of its streams, so that they
	// begin at their start, and what sources and sinks remember about its objects. It must not be
	// polled, and no ticket command for it may be pending.
	ForgetAppliance Action[ForgetRequest] `http:"POST /appliances/{appliance}/forget" group:"operation" errors:"404 409" fallback:"409"`

	// PauseSink pauses delivery to a sink. The pause outlasts restarts. Other sinks continue.
	PauseSink Action[OfSink] `http:"POST /sinks/{sink}/pause" group:"sinks" errors:"404 409"`
	// ResumeSink resumes delivery to a sink. Also retries at once whatever waits for a later attempt.
	ResumeSink Action[OfSink] `http:"POST /sinks/{sink}/resume" group:"sinks" errors:"404 409"`
	// SendTest sends a test event to a sink. Even if the sink is paused, and whatever its match. The
	// event is marked as a test, and is not journalled; a failure has no effect on other events and is
	// part of the answer. One at a time.
	SendTest Operation[OfSink, TestSent] `http:"POST /sinks/{sink}/send" group:"sinks" errors:"404 409"`
	// ReplayEvents redelivers events of the journal to a sink. Those that the sink has completed and
	// that were recorded in a period.
	ReplayEvents Operation[ReplayRequest, Replayed] `http:"POST /sinks/{sink}/replay" group:"sinks" errors:"404 409"`
	// ForgetSink deletes the state of a sink that is not configured. Its position, its dead letters
	// and its queued redeliveries.
	ForgetSink Action[OfSink] `http:"POST /sinks/{sink}/forget" group:"sinks" errors:"404 409" fallback:"409"`
	// RenameSink moves the state of a sink to another name. Neither name may be configured, and the
	// state must have nothing under the new one.
	RenameSink Action[RenameRequest] `http:"POST /sinks/{sink}/rename" group:"sinks" errors:"404 409" fallback:"409"`

	// GroupDeadLetters counts dead letters by their reasons. Those of one sink (sink), of one stream
	// (appliance and stream), or all of them (without a parameter).
	GroupDeadLetters Operation[GroupsRequest, DeadGroups] `http:"GET /dead" group:"dead letters" errors:"404"`
	// ListDeadLetters lists dead letters of a sink or stream.
	ListDeadLetters Operation[DeadRequest, DeadPage] `http:"GET /sinks/{sink}/dead /appliances/{appliance}/dead" group:"dead letters" errors:"404"`
	// GetDeadLetter returns a dead letter with its body.
	GetDeadLetter Operation[OfDeadLetter, DeadLetter] `http:"GET /sinks/{sink}/dead/{key...} /appliances/{appliance}/dead/{key...}" group:"dead letters" errors:"404"`
	// RequeueDeadLetters redelivers dead letters to their sink.
	RequeueDeadLetters Operation[Selection, Requeued] `http:"POST /sinks/{sink}/requeue" group:"dead letters" errors:"404 409"`
	// DropDeadLetters deletes dead letters of a sink or stream.
	DropDeadLetters Operation[Selection, Dropped] `http:"DELETE /sinks/{sink}/dead /appliances/{appliance}/dead" group:"dead letters" errors:"404 409"`

	// ListTicketCommands lists ticket commands.
	ListTicketCommands Operation[CommandsRequest, CommandPage] `http:"GET /tickets" group:"tickets"`
	// GetTicketCommand returns a ticket command.
	GetTicketCommand Operation[OfCommand, TicketCommand] `http:"GET /tickets/{id}" group:"tickets" errors:"404"`
	// RetryTicketCommand carries out a rejected ticket command after all.
	RetryTicketCommand Action[OfCommand] `http:"POST /tickets/{id}/retry" group:"tickets" errors:"404 409"`
	// DropTicketCommand deletes a ticket command. A pending one is not carried out.
	DropTicketCommand Action[OfCommand] `http:"DELETE /tickets/{id}" group:"tickets" errors:"404 409"`

	// GetCluster returns the state of the cluster. As the member that answers sees it.
	GetCluster Operation[None, Cluster] `http:"GET /cluster" group:"cluster" errors:"404" local:"true"`
	// HandOver hands the log over to another member. Answers when that member owns it. It fails if no
	// other member follows the log and catches up soon.
	HandOver Action[None] `http:"POST /cluster/handover" group:"cluster" errors:"404 409" fallback:"409"`
	// RecoverCluster begins the next generation of the log with the copy of a member. What the log has
	// beyond that copy is lost. No member may own the log.
	RecoverCluster Action[Recovery] `http:"POST /cluster/recover" group:"cluster" errors:"404 409" fallback:"409" local:"true"`
}

func newOperations() (all apiOperations) {
	fields := reflect.ValueOf(&all).Elem()
	for field, value := range fields.Fields() {
		value.Addr().Interface().(interface{ define(reflect.StructTag) }).define(field.Tag)
	}
	return all
}

// OfAppliance names an appliance.
type OfAppliance struct {
	Appliance string `param:"appliance" json:"-"` // the appliance's name
}

// OfSink names a sink.
type OfSink struct {
	Sink string `param:"sink" json:"-"` // the sink's name
}

// TestSent is the result of a test event.
type TestSent struct {
	Sink      string `json:"sink"`      // the sink's name
	Event     string `json:"event"`     // the id of the event
	Delivered bool   `json:"delivered"` // whether the target acknowledged the event
	// What the target answered and what to look for there or, after a failure, what is wrong and what
	// to do about it.
	Findings []finding.Finding `json:"findings"`
}

// TailRequest asks for the events of the journal that From selects, and then for each new one.
type TailRequest struct {
	From
	// With true, a message of the type live comes between the events of the journal and new ones. Its
	// data is an empty object.
	AsksLive bool `param:"live" invalid:"live must be true or false"`
	Yield    func(transform.Event) error
}

// BackupRequest asks for a consistent copy of the state.
type BackupRequest struct{ To io.Writer }

// Replay selects events of the journal to deliver again.
type Replay struct {
	Since time.Time `json:"since"` // the events were recorded at or after it
	// The events were recorded before it; absent: all since then.
	Until  time.Time `json:"until,omitzero"`
	DryRun bool      `json:"dry_run,omitempty"` // counts the events and changes nothing
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
	Events uint64 `json:"replayed"` // the number of events
}

// RewindRequest asks to move the position of a stream back to a time.
type RewindRequest struct {
	Appliance string `json:"appliance"` // the appliance's name
	// The stream: detections, audit, or records/ and the name of the query.
	Stream string `json:"stream"`
	// The time from which the stream is read again, not in the future.
	To time.Time `json:"to"`
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
	Appliance string              `json:"appliance"` // the appliance's name
	Since     time.Time           `json:"since"`     // the time from which on to compare
	Report    poller.VerifyReport `json:"-"`
}

func (r VerifyRequest) check() error {
	if r.Since.IsZero() {
		return newProblem(http.StatusBadRequest, "since is missing: "+timeAdvice)
	}
	return nil
}

// RenameRequest asks to move the state of a sink to another name.
type RenameRequest struct {
	OfSink
	To string `json:"to"` // the new name
}

func (r RenameRequest) check() error {
	if r.To == "" {
		return newProblem(http.StatusBadRequest, `to is missing: write the new name, {"to": NAME}`)
	}
	return nil
}

// ForgetRequest asks to delete the state of an appliance.
type ForgetRequest struct {
	Appliance string `param:"appliance" json:"-"` // the appliance's name
	// Whether to delete only the finding that another appliance answers under this name.
	Identity bool `json:"identity,omitempty"`
}

// DetectionRequest asks about a detection.
type DetectionRequest struct {
	Appliance string `param:"appliance"` // the appliance's name
	// The detection's id at the appliance.
	ID int64 `param:"id" invalid:"%q is not the id of a detection: write a whole number, without a sign"`
}

// OfCommand names a ticket command.
type OfCommand struct {
	// The command's id.
	ID uint64 `param:"id" status:"404" invalid:"there is no ticket command %q: an id is a number, as GET /api/v1/tickets shows it"`
}
