package gc

// State is what a live read returned.
type State uint8

// The answers. Unknown is anything that proves neither of the others: a bare 404
// of a path, 403, 5xx, a timeout, a type that cannot be resolved.
const (
	Unknown State = iota
	Exists        // Answer.Object is the object with that name, with whatever UID
	Absent        // a Status NotFound whose details name that very object
	TooBusy       // Unknown, because the server wants fewer requests
)

// Result returns the result of a live read that returned s.
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
	Failed    Result = iota // anything else: retried later
	Done                    // a patch's response was fed to Patched before
	Conflict                // a precondition or a test did not hold
	Gone                    // a Status NotFound whose details name that very object
	Forbidden               // 403, or an admission webhook refused: retried, seldom
	// TooMany: the server wants fewer requests; this does not concern the object itself. The caller
	// limits the request rate; this action is emitted again soon.
	TooMany
	// Withheld: the caller did not want the action. The same action is not emitted again
	// until the object changes, or [Interface.Release].
	Withheld
	// Deferred: the caller does not want the action now. Before this result it calls
	// [Interface.Slow] or [Interface.Hold], which set when it wants more of these.
	Deferred
)

func (r Result) String() string {
	return [...]string{"failed", "done", "conflict", "gone", "forbidden", "throttled", "withheld", "deferred"}[min(r, Deferred)]
}
