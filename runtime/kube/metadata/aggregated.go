package metadata

import (
	"context"

	"github.com/ebb-agent/ebb/runtime/kube/fault"
)

// Types of other API servers (aggregated types) are followed with less trust. Their storage need
// not be etcd: versions may go back, a list may have none, a streamed list may never end
// (kubernetes issue 140890), a watch may end right after its bookmark (134837), and an object may
// have no UID. So these types are listed page by page. Their versions are compared for equality
// alone, and never show a restored etcd. An object that cannot be followed is skipped and
// reported (Skipped).
//
// These servers may not support protobuf or metadata alone. Then whole objects are read in JSON,
// with the same limits.

// unsound returns an error if an object lacks what is needed to follow it.
func (it *item) unsound() error {
	if it.Name == "" || it.UID == "" || it.ResourceVersion == "" {
		return fault.Nonsense("an object without a name, a UID or a resource version")
	}
	return nil
}

// unsound returns an error if an event lacks what is needed to follow it. A bookmark needs only a
// version, from which the watch can resume.
func (t *watchEvent) unsound() error {
	if t.what == Progress && t.ResourceVersion != "" {
		return nil
	}
	return t.item.unsound()
}

// sound refuses a list with an object that cannot be followed. It does not refuse a list of
// another API server as a whole.
func (f *Follower) sound(each func(item) error) func(item) error {
	return func(it item) error {
		if err := it.unsound(); err != nil && !f.t.Aggregated {
			return err
		}
		return each(it)
	}
}

// sameAsBefore decides whether a watch that broke may resume. If not, it clears f.version, so
// that the type is listed. The server or its storage may have been replaced, so the newest
// version must equal f.version. A type of one page is always listed: where counters begin at 1,
// equal versions may be chance.
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
