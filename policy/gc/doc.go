// Package gc has what all collectors of Kubernetes objects share with each other and with
// the gate that carries out their actions: the coordinates of objects, actions with their
// reasons, results, and a [Queue] of deadlines.
//
// Each collector is a package beside this one, and all have the same shape. Lists and
// watches are the input (Listing, Observe, Forget, Synced, Unreadable, Restored). Actions
// are the output (Ready, Next). Their results are input again (Answered, Finished). The
// caller passes the time with every input. For deadlines it is the API server's time,
// because the times in objects are.
//
// Every Delete has the object's UID and resourceVersion as preconditions: a change between
// the decision and the request wins.
package gc
