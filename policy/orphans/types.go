package orphans

import (
	"time"

	"github.com/ebb-agent/ebb/policy/gc"
)

// Reasons of findings.
const (
	// Of references to owners.
	OwnerTypeNotServed    gc.Reason = "owner_type_not_served"    // no such kind is served
	OwnerVersionNotServed gc.Reason = "owner_version_not_served" // the owner is there, in another version of its group
	OwnerNamespaced       gc.Reason = "owner_namespaced"         // the object has no namespace, its owner has
	OwnerElsewhere        gc.Reason = "owner_in_other_namespace" // the owner was seen in another namespace
	OwnerIsAnother        gc.Reason = "owner_is_another"         // the UID is that of an object of another kind or name
	OwnerReplaced         gc.Reason = "owner_replaced"           // an object of that name has another UID
	OwnerAbsent           gc.Reason = "owner_absent"             // there is none
	OwnerUnknown          gc.Reason = "owner_unknown"            // it could not be read

	// Of what is being deleted.
	HeldByFinalizer  gc.Reason = "held_by_finalizer"          // its controller's types are served
	HeldByUnserved   gc.Reason = "held_by_unserved_finalizer" // its controller's types are not
	HeldByUnknown    gc.Reason = "held_by_unknown_finalizer"  // its controller is not known
	HeldByDependents gc.Reason = "held_by_dependents"
	HeldForCollector gc.Reason = "held_for_garbage_collector" // nothing holds it but a collector's own finalizer
	HeldByNothing    gc.Reason = "held_by_nothing"            // it has no finalizers

	// Of namespaces that are being deleted: what their controller says.
	NamespaceDiscovery  gc.Reason = "namespace_discovery_failure"
	NamespaceVersions   gc.Reason = "namespace_group_version_failure"
	NamespaceDeletion   gc.Reason = "namespace_content_failure"
	NamespaceContent    gc.Reason = "namespace_content_remaining"
	NamespaceFinalizers gc.Reason = "namespace_finalizers_remaining"
	NamespaceSilent     gc.Reason = "namespace_without_condition"

	// Of what the API server rests on.
	APIServiceDown gc.Reason = "apiservice_unavailable"
	WebhookDown    gc.Reason = "webhook_unreachable"

	ReleaseHistory gc.Reason = "release_history"
)

// Defaults of [Config].
const (
	OlderThan      = 10 * time.Minute
	HistoryDefault = 10
)

// Config says what is reported.
type Config struct {
	OlderThan time.Duration // of deletions and of outages; what is younger may end by itself
	History   int           // revisions of a release that are not too many
	Namespace string        // of the findings; empty: all. What has no namespace is for all
}

// Finding is one thing that is not as it should be.
type Finding struct {
	Reason gc.Reason
	Object gc.Coordinates
	By     string    // who or what holds it: an owner, a finalizer, a Service
	Since  time.Time // zero: not known
	Why    string    // a sentence; names in it are as hostile as they came
	// Command are kubectl's arguments; none: there is nothing to be done here. Looks says
	// that it changes nothing.
	Command []string
	Looks   bool
}

// Passes says whether a garbage collector that runs ends it by itself: it is a finding only
// if the object is still there, and still not being deleted, when everything was read.
func (f *Finding) Passes() bool {
	switch f.Reason {
	case OwnerAbsent, OwnerReplaced, OwnerElsewhere, OwnerIsAnother:
		return true
	}
	return false
}

// Condition is one of a namespace's status.
type Condition struct{ Type, Status, Reason, Message string }

// Namespace is what is not in the metadata of one that is being deleted.
type Namespace struct {
	Finalizers []string // of its spec
	Conditions []Condition
	Unread     string // why it could not be read; empty: it was
}

// APIService is how another API server is registered.
type APIService struct {
	Name, UID string
	Version   string // group/version
	Service   string // namespace/name; empty: the kube-apiserver itself
	Available Condition
	Since     time.Time // of Available
}

// Webhook is one entry of a webhook configuration that goes to a Service.
type Webhook struct {
	Config  gc.Coordinates
	Index   int
	Name    string
	Service string // namespace/name
	Fails   bool   // failurePolicy is Fail: what it cannot be asked about is refused
	Problem string // what is wrong with the Service; empty: nothing, or not known
}
