// Package gc has what all collectors of Kubernetes objects share, and the gate that
// carries out what they ask for: the coordinates of objects, actions with their reasons,
// results, and a [Queue] of deadlines.
//
// Each collector is a package beside this one, in one shape. Lists and watches go in
// (Listing, Observe, Forget, Synced, Unreadable, Restored), actions come out (Ready,
// Next), and how they went goes in again (Answered, Finished). The caller gives the
// time with everything: for deadlines that is the API server's, because the times in
// objects are.
//
// Every Delete has the object's UID and resourceVersion as preconditions: whatever
// changed between the decision and the request wins.
package gc
