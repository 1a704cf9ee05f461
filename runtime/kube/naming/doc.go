// Package naming finds the type that a person means by "deploy", "pods",
// "widgets.example.io" or "Deployment.apps", as kubectl does.
//
// [Read] asks the API server for its names, [Find] chooses among them and is pure.
// A plural counts before a singular, that before a short name, that before a kind;
// among several of one rank the core group wins, and else nobody: the error names
// all of them. Only types that can be deleted count.
//
// # Failure modes
//
// An API server that does not know aggregated discovery (before 1.26) tells no
// names here ([ErrNoNames]): then only plurals and kinds are left. What it says is
// untrusted: it is bounded, and matched, never followed.
//
// Sources: k8s.io/client-go/restmapper (shortcut.go, discovery.go),
// k8s.io/cli-runtime/pkg/resource (builder.go), KEP-3352.
package naming
