package metadata

import (
	"context"

	"github.com/ebb-agent/ebb/runtime/kube/fault"
)

// Types of other API servers (aggregated ones) are followed with less trust. Their
// storage need not be etcd: versions may go back, a list may have none, a streamed list
// may never end (kubernetes issue 140890), a watch may end right after its bookmark
// (134837), an object may have no UID. So they are listed page by page, versions are
// compared for equality alone, nothing is called restored, and what cannot be followed
// is skipped and reported (Skipped). They may not understand protobuf or metadata alone:
// then whole objects in JSON are read, with the same bounds.

// unsound says what an object lacks to be followed.
func (it *item) unsound() error {
	if it.Name == "" || it.UID == "" || it.ResourceVersion == "" {
		return fault.Nonsense("an object without a name, a UID or a resource version")
	}
	return nil
}

// unsound says what an event lacks: without a version nobody knows where to go on.
func (t *watchEvent) unsound() error {
	if t.what == Progress && t.ResourceVersion != "" {
		return nil
	}
	return t.item.unsound()
}

// sound refuses a list with an object that cannot be followed. What another API server
// sends is not refused as a whole.
func (f *Follower) sound(each func(item) error) func(item) error {
	return func(it item) error {
		if err := it.unsound(); err != nil && !f.t.Aggregated {
			return err
		}
		return each(it)
	}
}

// sameAsBefore has the type listed unless a watch that broke can be taken up: what
// answers may be another server, or its storage another one. A short type is rather
// listed: that versions are equal may be chance where counters begin at 1.
func (f *Follower) sameAsBefore(ctx context.Context) error {
	if f.listed <= pageSize {
		f.version = ""
		return nil
	}
	p, err := f.list(ctx, "", 1, func(item) error { return nil })
	if err == nil && p.version != f.version {
		f.version = ""
	}
	return err
}
