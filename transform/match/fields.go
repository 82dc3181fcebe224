package match

import (
	"github.com/google/cel-go/common/types"

	"ndrbridge/transform"
)

// documented is a kind of object with the fields that are documented, for the type
// checker. Real appliances add fields, and any field can be null or missing.
type documented struct {
	name   string // of the type
	noun   string // for messages
	fields []documentedField
	open   bool // other fields are expected
}

type documentedField struct {
	name string
	kind *types.Type
}

// find returns the type of a field, or nil if it is not documented.
func (d documented) find(name string) *types.Type {
	for _, f := range d.fields {
		if f.name == name {
			return f.kind
		}
	}
	return nil
}

func (d documented) names() []string {
	names := make([]string, len(d.fields))
	for i, f := range d.fields {
		names[i] = f.name
	}
	return names
}

var (
	textList   = types.NewListType(types.StringType)
	anyList    = types.NewListType(types.DynType)
	openObject = types.NewMapType(types.StringType, types.DynType)
)

// The kinds of objects. A field whose values have several types in practice, such as a
// ticket_id that can be a number, is of type dyn.
var (
	detectionKind = documented{name: "Detection", noun: "a detection", fields: []documentedField{
		{"id", types.IntType}, {"appliance_id", types.IntType}, {"type", types.StringType}, {"title", types.StringType},
		{"description", types.StringType}, {"categories", textList}, {"risk_score", types.IntType},
		{"start_time", types.IntType}, {"end_time", types.IntType}, {"update_time", types.IntType}, {"mod_time", types.IntType}, {"create_time", types.IntType},
		{"status", types.StringType}, {"resolution", types.StringType}, {"assignee", types.StringType},
		{"ticket_id", types.DynType}, {"ticket_url", types.StringType}, {"url", types.StringType},
		{"recommended", types.BoolType}, {"recommended_factors", textList}, {"is_user_created", types.BoolType},
		{"participants", types.NewListType(types.NewObjectType("Participant"))}, {"properties", openObject},
		{"mitre_tactics", anyList}, {"mitre_techniques", anyList}, // objects, or texts
		{"ai_disposition", types.StringType},
	}}
	participantKind = documented{name: "Participant", noun: "a participant", fields: []documentedField{
		{"id", types.IntType}, {"role", types.StringType}, {"object_type", types.StringType}, {"object_id", types.IntType},
		{"object_value", types.StringType}, {"external", types.BoolType}, {"endpoint", types.StringType}, {"hostname", types.StringType},
		{"username", types.StringType}, {"scanner_service", types.StringType}, {"usernames", textList}, {"origins", textList},
	}}
	auditKind = documented{name: "AuditEntry", noun: "an audit log entry", fields: []documentedField{
		{"id", types.IntType}, {"occur_time", types.IntType}, {"time", types.IntType}, {"body", openObject},
	}}
	recordKind = documented{name: "Record", noun: "a record", open: true, fields: []documentedField{
		{"_id", types.StringType}, {"_index", types.StringType}, {"_type", types.StringType}, {"sort", anyList}, {"_source", openObject},
	}}
	contextKind = documented{name: "Context", noun: "the context of a detection", fields: []documentedField{
		{"devices", types.NewListType(types.NewObjectType("Device"))},
	}}
	deviceKind = documented{name: "Device", noun: "a device", fields: []documentedField{
		{"id", types.IntType}, {"name", types.StringType}, {"role", types.StringType}, {"ipaddr", types.StringType},
		{"critical", types.BoolType}, {"on_watchlist", types.BoolType}, {"tags", textList}, {"groups", textList},
		{"software", textList}, {"read", types.StringType},
	}}
	lifecycleKind = documented{name: "Lifecycle", noun: "the lifecycle of a detection", fields: []documentedField{
		{"first_seen", types.IntType}, {"acknowledged", types.IntType}, {"closed", types.IntType}, {"reopened", types.IntType},
	}}
	visibilityKind = documented{name: "Visibility", noun: "the visibility of a detection", fields: []documentedField{
		{"state", types.StringType}, {"rules", anyList}, {"explanation", types.StringType},
	}}
	noteKind = documented{name: "Note", noun: "a note", fields: []documentedField{
		{"text", types.StringType}, {"author", types.StringType}, {"time", types.IntType},
	}}
	evidenceKind = documented{name: "Evidence", noun: "the evidence of a detection", fields: []documentedField{
		{"from", types.IntType}, {"until", types.IntType}, {"total", types.IntType}, {"truncated", types.BoolType}, {"records", anyList},
	}}
	ruleKind = documented{name: "Rule", noun: "a tuning rule", fields: []documentedField{
		{"id", types.IntType}, {"description", types.StringType}, {"author", types.StringType}, {"detection_types", textList},
		{"offender", types.DynType}, {"victim", types.DynType}, {"properties", anyList}, {"enabled", types.BoolType},
		{"expiration", types.IntType}, {"create_time", types.IntType}, {"hide_past_detections", types.BoolType},
		{"detections_hidden", types.IntType}, {"participants_hidden", types.IntType}, {"by", types.StringType},
	}}
	blindSpotKind = documented{name: "BlindSpot", noun: "a blind spot", open: true, fields: []documentedField{
		{"kind", types.StringType}, {"since", types.StringType}, {"until", types.StringType}, {"id", types.IntType}, {"name", types.StringType},
		{"interval_type", types.StringType}, {"alert_apply_all", types.BoolType}, {"trend_apply_all", types.BoolType}, {"apply_all", types.BoolType},
	}}
	changesKind, changeKinds = changed()
)

// changed returns the kind of changes, with a field for each tracked field of a detection,
// and the kinds of these fields, which have the values before and after.
func changed() (documented, []documented) {
	all := documented{name: "Changes", noun: "the changes of a detection"}
	var each []documented
	for _, field := range transform.TrackedFields() {
		kind := detectionKind.find(field)
		if field == "participants" {
			kind = types.IntType // how many there are
		}
		name := "Change of " + field
		fields := []documentedField{{"from", kind}, {"to", kind}}
		if field == "participants" {
			which := detectionKind.find(field)
			fields = append(fields, documentedField{"added", which}, documentedField{"removed", which}, documentedField{"changed", which},
				documentedField{"truncated", types.BoolType})
		}
		each = append(each, documented{name: name, noun: "the change of " + field, fields: fields})
		all.fields = append(all.fields, documentedField{field, types.NewObjectType(name)})
	}
	return all, each
}

// eventKind is the kind of the variable event.
var eventKind = func() documented {
	d := documented{name: "Event", noun: "event"}
	for _, a := range attributes {
		d.fields = append(d.fields, a.documentedField)
	}
	return d
}()

// variableKinds are the kinds of the objects that the variables hold.
var variableKinds = map[string]documented{
	eventVariable: eventKind, "detection": detectionKind, "audit": auditKind, "record": recordKind, changesVariable: changesKind, contextVariable: contextKind,
	"lifecycle": lifecycleKind, "visibility": visibilityKind, "note": noteKind, "evidence": evidenceKind, "rule": ruleKind, "blindspot": blindSpotKind,
}

// kinds are the kinds of objects by the names of their types.
var kinds = func() map[string]documented {
	byName := make(map[string]documented)
	for _, d := range append([]documented{eventKind, detectionKind, participantKind, auditKind, recordKind, changesKind, contextKind, deviceKind, lifecycleKind, visibilityKind, noteKind, evidenceKind, ruleKind, blindSpotKind}, changeKinds...) {
		byName[d.name] = d
	}
	return byName
}()

// dataTypes are the types of the variables of an event's data.
var dataTypes = func() map[string]*types.Type {
	byName := make(map[string]*types.Type)
	for _, name := range dataVariables {
		byName[name] = types.NewObjectType(variableKinds[name].name)
	}
	return byName
}()

// memberKind returns the type of a member of a value of a type; nil if either is not
// documented.
func memberKind(of *types.Type, name string) *types.Type {
	if of == nil || of.Kind() != types.StructKind {
		return nil
	}
	return kinds[of.TypeName()].find(name)
}

// elementKind returns the type of the elements of a list of a type, or nil.
func elementKind(of *types.Type) *types.Type {
	if of == nil || of.Kind() != types.ListKind {
		return nil
	}
	return of.Parameters()[0]
}

// owners returns the selections of a field by its name from the variables that have it,
// such as event.id and detection.id. It leaves changes out, which have what detections have.
func owners(name string) (selections []string) {
	for _, variable := range variableNames() {
		if variable != changesVariable && variableKinds[variable].find(name) != nil {
			selections = append(selections, variable+"."+name)
		}
	}
	return selections
}

func variableNames() []string { return append([]string{eventVariable}, dataVariables...) }
