package gc

// State is what a live read returned.
type State uint8

// The answers. Unknown is anything that proves neither of the others: a bare 404
// of a path, 403, 5xx, a timeout, a type that cannot be resolved.
const (
	Unknown State = iota
	Exists        // Answer.Object is what stands there, with whatever UID
	Absent        // a Status NotFound whose details name that very object
	TooBusy       // Unknown, because the server wants fewer requests
)

// Result is how a live read went that returned it.
func (s State) Result() Result { return [...]Result{Failed, Done, Done, TooMany}[min(s, TooBusy)] }

// Answer is what a live read of an action's coordinates returned.
type Answer struct {
	State  State
	Object Object // if it exists
}

// Result is how an action went.
type Result uint8

// The results.
const (
	Failed    Result = iota // anything else: tried again later
	Done                    // a patch's response was fed to Patched before
	Conflict                // a precondition or a test did not hold
	Gone                    // a Status NotFound whose details name that very object
	Forbidden               // 403, an admission webhook's refusal: tried again, seldom
	// TooMany: the server wants fewer requests, and says nothing of the object. How
	// many are sent is the caller's business; this one is asked for again soon.
	TooMany
	// Withheld: the caller did not want to. The same is not asked for again until
	// the object changes, or [Collector.Release].
	Withheld
	// Deferred: not now. The caller says before, by [Collector.Slow] or
	// [Collector.Hold], when it wants more of these.
	Deferred
)

func (r Result) String() string {
	return [...]string{"failed", "done", "conflict", "gone", "forbidden", "throttled", "withheld", "deferred"}[min(r, Deferred)]
}
