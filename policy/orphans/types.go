package orphans

import (
	"time"

	"github.com/ebb-agent/ebb/policy/gc"
)

// Reasons of findings.
const (
	// Findings about references to owners.
	OwnerTypeNotServed    gc.Reason = "owner_type_not_served"    // no such kind is served
	OwnerVersionNotServed gc.Reason = "owner_version_not_served" // the owner exists in another group version
	OwnerNamespaced       gc.Reason = "owner_namespaced"         // the object has no namespace, its owner has
	OwnerElsewhere        gc.Reason = "owner_in_other_namespace" // the owner was seen in another namespace
	OwnerIsAnother        gc.Reason = "owner_is_another"         // the UID belongs to another kind or name
	OwnerReplaced         gc.Reason = "owner_replaced"           // an object of that name has another UID
	OwnerAbsent           gc.Reason = "owner_absent"             // there is no such owner
	OwnerUnknown          gc.Reason = "owner_unknown"            // the owner could not be read

	// Findings about objects that are being deleted.
	HeldByFinalizer  gc.Reason = "held_by_finalizer"          // its controller's types are served
	HeldByUnserved   gc.Reason = "held_by_unserved_finalizer" // its controller's types are not
	HeldByUnknown    gc.Reason = "held_by_unknown_finalizer"  // its controller is not known
	HeldByDependents gc.Reason = "held_by_dependents"
	HeldForCollector gc.Reason = "held_for_garbage_collector" // only a collector's own finalizer holds it
	HeldByNothing    gc.Reason = "held_by_nothing"            // it has no finalizers

	// Findings about namespaces that are being deleted, from the conditions that their
	// controller sets.
	NamespaceDiscovery  gc.Reason = "namespace_discovery_failure"
	NamespaceVersions   gc.Reason = "namespace_group_version_failure"
	NamespaceDeletion   gc.Reason = "namespace_content_failure"
	NamespaceContent    gc.Reason = "namespace_content_remaining"
	NamespaceFinalizers gc.Reason = "namespace_finalizers_remaining"
	NamespaceSilent     gc.Reason = "namespace_without_condition"

	// Findings about servers that the API server depends on.
	APIServiceDown gc.Reason = "apiservice_unavailable"
	WebhookDown    gc.Reason = "webhook_unreachable"

	ReleaseHistory gc.Reason = "release_history"
)

// Defaults of [Config].
const (
	OlderThan      = 10 * time.Minute
	HistoryDefault = 10
)

// Config configures what is reported.
type Config struct {
	OlderThan time.Duration // of deletions and outages; younger ones may end by themselves
	History   int           // a release with more revisions is reported
	Namespace string        // of the findings; empty: all, and objects without namespace
}

// Finding is one problem.
type Finding struct {
	Reason gc.Reason
	Object gc.Coordinates
	By     string    // what holds it: an owner, a finalizer, a Service
	Since  time.Time // zero: not known
	Why    string    // a sentence; names in it are not escaped and may be hostile
	// Command are kubectl's arguments; none if kubectl cannot help. Looks means that the
	// command changes nothing.
	Command []string
	Looks   bool
}

// Passes reports whether a running garbage collector ends the problem by itself. Such a
// finding counts only if the object still exists, and is still not being deleted, after
// everything was read.
func (f *Finding) Passes() bool {
	switch f.Reason {
	case OwnerAbsent, OwnerReplaced, OwnerElsewhere, OwnerIsAnother:
		return true
	}
	return false
}

// Condition is a condition of a Namespace or of an APIService.
type Condition struct{ Type, Status, Reason, Message string }

// Namespace has the fields, beside the metadata, of a namespace that is being deleted.
type Namespace struct {
	Finalizers []string // of its spec
	Conditions []Condition
	Unread     string // why it could not be read; empty: it was
}

// APIService is the registration of an API server.
type APIService struct {
	Name, UID string
	Version   string // group/version
	Service   string // namespace/name; empty: the kube-apiserver itself
	Available Condition
	Since     time.Time // of Available
}

// Webhook is one entry of a webhook configuration that calls a Service.
type Webhook struct {
	Config  gc.Coordinates
	Index   int
	Name    string
	Service string // namespace/name
	Fails   bool   // failurePolicy is Fail: requests are refused while it is unreachable
	Problem string // what is wrong with the Service; empty: nothing, or unknown
}
